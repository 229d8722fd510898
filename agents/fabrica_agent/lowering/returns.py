"""Turn early returns into structured control flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum

from fabrica_agent.lowering.fold import FALSE, TRUE, logical_not
from fabrica_agent.lowering.ir import (
    Assign,
    Body,
    Break,
    Expr,
    For,
    If,
    Return,
    Stmt,
    Ty,
    Var,
    While,
    bodies,
    walk_stmts,
)  # fmt: skip


class _Exit(IntEnum):
    NEVER = 0
    MAYBE = 1
    ALWAYS = 2


def eliminate_returns(body: Body, fresh: Callable[[str, Ty], str]) -> Body:
    """An equivalent body without `Return`.

    `if (c) return; rest` becomes `if (!c) { rest }`. Where that isn't enough (returns in loops), a flag variable is
    set and tested; `fresh` makes its name.
    """
    if not _returns(body):
        return body
    flag = Var(fresh("returned", Ty.BOOL), Ty.BOOL)
    new, _ = _eliminate(body, flag)
    if any(isinstance(s, Assign) and s.name == flag.name for s in walk_stmts(new)):
        return (Assign(flag.name, FALSE), *new)
    return new


def _returns(body: Body) -> bool:
    return any(isinstance(s, Return) for s in walk_stmts(body))


def _eliminate(body: Body, flag: Var) -> tuple[Body, _Exit]:
    for index, s in enumerate(body):
        if isinstance(s, Return):
            return body[:index], _Exit.ALWAYS
        if not any(_returns(b) for b in bodies(s)):
            continue
        head, rest = body[:index], body[index + 1 :]
        if isinstance(s, If):
            tail, status = _after_if(s, rest, flag)
        else:
            tail, status = _after_loop(s, rest, flag)
        return head + tail, status
    return body, _Exit.NEVER


def _after_if(s: If, rest: Body, flag: Var) -> tuple[Body, _Exit]:
    then, t = _eliminate(s.then, flag)
    other, o = _eliminate(s.other, flag)
    if t is _Exit.ALWAYS and o is _Exit.ALWAYS:
        return (_if(s.cond, then, other),), _Exit.ALWAYS
    rest, r = _eliminate(rest, flag)
    if t is _Exit.ALWAYS and o is _Exit.NEVER:
        return (_if(s.cond, then, other + rest),), _Exit.ALWAYS if r is _Exit.ALWAYS else _Exit.MAYBE
    if t is _Exit.NEVER and o is _Exit.ALWAYS:
        return (_if(s.cond, then + rest, other),), _Exit.ALWAYS if r is _Exit.ALWAYS else _Exit.MAYBE
    then = _mark(s.then, flag) if t is not _Exit.NEVER else then
    other = _mark(s.other, flag) if o is not _Exit.NEVER else other
    guarded: Body = (If(logical_not(flag), rest),) if rest else ()
    return (_if(s.cond, then, other), *guarded), _Exit.MAYBE


def _if(cond: Expr, then: Body, other: Body) -> Stmt:
    return If(cond, then, other) if then else If(logical_not(cond), other)


def _mark(body: Body, flag: Var) -> Body:
    """`body` with each return replaced by setting the flag, and what follows guarded by it."""
    out: list[Stmt] = []
    for index, s in enumerate(body):
        if isinstance(s, Return):
            out.append(Assign(flag.name, TRUE))
            return tuple(out)
        if not any(_returns(b) for b in bodies(s)):
            out.append(s)
            continue
        if isinstance(s, If):
            out.append(If(s.cond, _mark(s.then, flag), _mark(s.other, flag)))
        else:
            out.append(_mark_loop(s, flag))
        rest = _mark(body[index + 1 :], flag)
        if rest:
            out.append(If(logical_not(flag), rest))
        return tuple(out)
    return tuple(out)


def _mark_loop(s: Stmt, flag: Var) -> Stmt:
    assert isinstance(s, For | While)
    return replace(s, body=_break_out(s.body, flag))


def _break_out(body: Body, flag: Var) -> Body:
    """Inside a loop: a return sets the flag and leaves the loop."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Return):
            out += [Assign(flag.name, TRUE), Break()]
            break
        if not any(_returns(b) for b in bodies(s)):
            out.append(s)
        elif isinstance(s, If):
            out.append(If(s.cond, _break_out(s.then, flag), _break_out(s.other, flag)))
        else:
            out += [_mark_loop(s, flag), If(flag, (Break(),))]
    return tuple(out)


def _after_loop(s: Stmt, rest: Body, flag: Var) -> tuple[Body, _Exit]:
    rest, _ = _eliminate(rest, flag)
    guarded: Body = (If(logical_not(flag), rest),) if rest else ()
    return (_mark_loop(s, flag), *guarded), _Exit.MAYBE
