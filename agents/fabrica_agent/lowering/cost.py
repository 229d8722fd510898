"""A rough estimate of cycles, to choose between forms of a program.

Not a prediction: the shares follow public measurements of scalar loops and DSD operations on the WSE-3 simulator
(about 10 cycles of loop overhead, 3 per array read, 2 per addition, about 10 to set up a bulk operation).
"""

from __future__ import annotations

from collections.abc import Mapping

from fabrica_agent.lowering.ir import (
    Access,
    Assign,
    Bin,
    Body,
    Call,
    Cast,
    Columns,
    Const,
    Elementary,
    Expr,
    For,
    Grid,
    If,
    Load,
    Op,
    Param,
    Reduce,
    Select,
    Stmt,
    Store,
    VecOp,
    Vector,
    View,
    While,
    bodies,
    stmt_exprs,
    walk,
)  # fmt: skip
from fabrica_agent.lowering.ranges import Range, span

LOOP = 10.0
LOAD = 3.0
BULK = 10.0
RUNTIME_OPERAND = 15.0
GUESSED_TRIPS = 8
_CALLS = {"exp": 85.0, "log": 120.0, "sqrt": 80.0}
_WIDTH = {VecOp.MOVE: 4, VecOp.ADD: 4, VecOp.SUB: 4, VecOp.MAX: 4, VecOp.NEG: 4, VecOp.ABS: 4}


def cost(body: Body, env: Mapping[str, Range]) -> float:
    """Estimated cycles of a body."""
    return sum(_statement(s, env) for s in body)


def _statement(s: Stmt, env: Mapping[str, Range]) -> float:
    match s:
        case For(start=start, stop=stop, step=step, body=body):
            low, high = span(start, env), span(stop, env)
            trips = max(0, (high[1] - low[0]) // step if step > 0 else (low[1] - high[0]) // -step)
            if trips > 1 << 16:
                trips = GUESSED_TRIPS
            inner = {**env, s.var: (min(low[0], high[0]), max(low[1], high[1]))}
            return trips * (LOOP + cost(body, inner))
        case While(body=body, step=step):
            return GUESSED_TRIPS * (LOOP + cost(body, env) + cost(step, env))
        case Vector(dest=dest, sources=sources, op=op):
            accesses = [dest, *(x for x in sources if isinstance(x, Access))]
            return _bulk(accesses, _WIDTH.get(op, 1), env) + sum(
                _expression(x) for x in sources if not isinstance(x, Access)
            )
        case Reduce(source=source):
            return 2.25 * _bulk([source], 1, env)
        case Grid(dest=view, sources=parts, op=op):
            moving = sum(1 for v in (view, *parts) if isinstance(v, View) and not _is_fixed(v.start))
            scalars = sum(_expression(x) for x in parts if not isinstance(x, View))
            return BULK + RUNTIME_OPERAND * moving + view.count / _WIDTH.get(op, 1) + scalars
        case Columns(dest=view, factors=factors):
            return 2 * RUNTIME_OPERAND + factors.count * (BULK + view.count)
        case Elementary(dest=view):
            return 25 * (BULK + view.count)
        case If():
            return 5.0 + _expression(s.cond) + max(cost(b, env) for b in bodies(s))
        case Store():
            return 3.0 + _expression(s.index) + _expression(s.value)
        case Assign(value=value):
            return 1.0 + _expression(value)
        case _:
            return sum(_expression(e) for e in stmt_exprs(s))


def _bulk(accesses: list[Access], width: int, env: Mapping[str, Range]) -> float:
    longest = min(max(0, span(accesses[0].count, env)[1]), 1 << 14)
    moving = sum(1 for a in accesses if not _is_fixed(a.start))
    return BULK + RUNTIME_OPERAND * moving + longest / width


def _is_fixed(e: Expr) -> bool:
    return all(isinstance(n, Const | Param | Bin) for n in walk(e))


def _expression(e: Expr) -> float:
    total = 0.0
    for n in walk(e):
        match n:
            case Load():
                total += LOAD
            case Bin(op=Op.DIV, ty=ty) if ty.is_float:
                total += 95.0
            case Bin(op=Op.DIV | Op.MOD):
                total += 40.0
            case Bin() | Cast() | Select():
                total += 2.0
            case Call(fn=fn):
                total += _CALLS.get(fn, 100.0)
    return total
