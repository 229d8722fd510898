"""Value ranges of integer variables, by abstract interpretation of a serial program."""

from __future__ import annotations

from collections.abc import Mapping

from fabrica_agent.lowering.ir import (
    COMPARISONS,
    SWAPPED,
    Assign,
    Bin,
    Body,
    Cast,
    Expr,
    For,
    If,
    Op,
    Program,
    Ty,
    Un,
    Var,
    While,
    assigned,
    int_limits,
    names_in,
    walk,
)
from fabrica_agent.lowering.ranges import Range, fits, span

Ranges = dict[str, Range]
MAX_ROUNDS = 40


def variable_ranges(program: Program) -> Ranges:
    """Ranges of all integer variables: the join over all assignments, refined by the conditions around them."""
    outside: Ranges = dict(program.given)
    for var in program.args:
        outside[var.name] = int_limits(var.ty) if not var.ty.is_float else (0, 0)
    ranges = dict(outside)
    for round_ in range(MAX_ROUNDS):
        found: Ranges = dict(outside)
        _collect_ranges(program.body, ranges, found, program.types)
        merged = {n: _join(ranges.get(n), r) for n, r in found.items()}
        if merged == ranges:
            return ranges
        if round_ > MAX_ROUNDS - 12:
            # No fixed point in sight: whatever still grows may take any value of its type.
            merged = {n: r if r == ranges.get(n) else _limits(program.types, n) for n, r in merged.items()}
        ranges = merged
    return {n: _limits(program.types, n) for n in ranges}


def _limits(types: Mapping[str, Ty], name: str) -> Range:
    ty = types.get(name, Ty.I32)
    return int_limits(ty) if not ty.is_float else (0, 0)


def _join(a: Range | None, b: Range) -> Range:
    return b if a is None else (min(a[0], b[0]), max(a[1], b[1]))


def _collect_ranges(body: Body, env: Ranges, found: Ranges, types: Mapping[str, Ty]) -> None:
    for s in body:
        match s:
            case Assign(name=name, value=value) if not value.ty.is_float:
                if all(n in env or types.get(n, Ty.I32).is_float for n in names_in(value)):
                    found[name] = _join(found.get(name), span(value, env))
            case For():
                inner = loop_range(s, env)
                if inner is not None:
                    found[s.var] = _join(found.get(s.var), inner)
                    _collect_ranges(s.body, {**env, s.var: inner}, found, types)
            case If(cond=cond):
                _collect_ranges(s.then, refine(cond, env, True), found, types)
                _collect_ranges(s.other, refine(cond, env, False), found, types)
            case While(cond=cond):
                inside = refine(cond, env, True)
                inside = {n: env[n] if n in assigned(s.body) and n in env else r for n, r in inside.items()}
                _collect_ranges(s.body, refine(cond, env, True), found, types)
                _collect_ranges(s.step, inside, found, types)


def loop_range(s: For, env: Mapping[str, Range]) -> Range | None:
    """Range of a loop's variable; None when the loop surely doesn't run or its bounds aren't known yet."""
    if any(isinstance(n, Var) and n.name not in env for e in (s.start, s.stop) for n in walk(e)):
        return None
    start, stop = span(s.start, env), span(s.stop, env)
    low, high = (start[0], stop[1] - 1) if s.step > 0 else (stop[0] + 1, start[1])
    return (low, high) if low <= high else None


def refine(cond: Expr, env: Ranges, truth: bool) -> Ranges:
    """The ranges where a condition holds (or doesn't)."""
    if isinstance(cond, Un) and cond.op == "!":
        return refine(cond.a, env, not truth)
    if not isinstance(cond, Bin):
        return env
    if cond.op is (Op.LAND if truth else Op.LOR):
        return refine(cond.b, refine(cond.a, env, truth), truth)
    if cond.op not in COMPARISONS or cond.a.ty.is_float:
        return env
    op = (
        cond.op
        if truth
        else {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT, Op.EQ: Op.NE, Op.NE: Op.EQ}[cond.op]
    )
    out = dict(env)
    for left, right, relation in ((cond.a, cond.b, op), (cond.b, cond.a, SWAPPED[op])):
        while isinstance(left, Cast) and left.a.ty.is_int and fits(span(left.a, env), left.ty):
            left = left.a
        if isinstance(left, Var) and left.name in env:
            low, high = env[left.name]
            bound = span(right, env)
            if relation in (Op.LT, Op.LE):
                high = min(high, bound[1] - (relation is Op.LT))
            elif relation in (Op.GT, Op.GE):
                low = max(low, bound[0] + (relation is Op.GT))
            elif relation is Op.EQ:
                low, high = max(low, bound[0]), min(high, bound[1])
            if low <= high:
                out[left.name] = (low, high)
    return out
