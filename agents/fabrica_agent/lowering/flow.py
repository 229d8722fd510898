"""Data flow of scalar variables through a body."""

from __future__ import annotations

from fabrica_agent.lowering.ir import Assign, Atomic, Body, For, If, Reduce, While, names_in, stmt_exprs


def exposed(body: Body) -> set[str]:
    """Variables that a body may read before it has surely assigned them: they carry a value into it."""
    found: set[str] = set()
    _scan(body, set(), found)
    return found


def _scan(body: Body, defined: set[str], found: set[str]) -> None:
    for s in body:
        for e in stmt_exprs(s):
            found |= names_in(e) - defined
        match s:
            case Assign(name=name):
                defined.add(name)
            case Atomic(result=str() as name):
                defined.add(name)
            case Reduce(target=name, index=None):
                found |= {name} - defined
                defined.add(name)
            case If(then=then, other=other):
                sides = set(defined), set(defined)
                _scan(then, sides[0], found)
                _scan(other, sides[1], found)
                defined |= sides[0] & sides[1]
            case For(var=var):
                _scan(s.body, defined | {var}, found)
            case While():
                inner = set(defined)
                _scan(s.body, inner, found)
                _scan(s.step, inner, found)
