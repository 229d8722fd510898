"""Writing out short loops around bulk operations, so that lengths and offsets become constants.

A DSD with constant offset and length is free; moving and cutting one at run time costs about as much as ten elements.
"""

from __future__ import annotations

from dataclasses import replace

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Assign,
    Bin,
    Body,
    Break,
    Const,
    Continue,
    Expr,
    For,
    If,
    Op,
    Program,
    Reduce,
    Stmt,
    Ty,
    Var,
    Vector,
    While,
    assigned,
    bodies,
    body_exprs,
    map_body,
    map_expr,
    map_stmt_exprs,
    names_in,
    stmt_exprs,
    substitute,
    substitute_expr,
    walk_stmts,
    with_bodies,
)

MAX_TRIPS = 16
MAX_STATEMENTS = 96
MAX_RUNS = 32

Known = dict[str, Expr]


def unroll(program: Program) -> Program:
    """The program with its short loops around bulk operations written out."""
    body, _ = _run(program.body, {})
    return replace(program, body=_straight(body))


def _straight(body: Body) -> Body:
    """Loops over `lane ^ constant` as runs of lanes in which the partner is a fixed distance away."""
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, tuple(_straight(b) for b in bodies(s)))
        out.extend(_runs(s) if isinstance(s, For) else (s,))
    return tuple(out)


def _runs(s: For) -> Body:
    nodes = [n for n in body_exprs(s.body) if isinstance(n, Bin) and n.op is Op.XOR and isinstance(n.b, Const)]
    masks = {int(n.b.value) for n in nodes if isinstance(n.b, Const) and isinstance(n.a, Var) and n.a.name == s.var}
    start, stop = fold.int_value(s.start), fold.int_value(s.stop)
    if len(masks) != 1 or start != 0 or stop is None or s.step != 1 or not s.parallel or len(s.body) != 1:
        return (s,)
    (mask,) = masks
    if mask <= 0 or mask & (mask - 1) or stop % (2 * mask) or stop // mask > MAX_RUNS:
        return (s,)
    out: list[Stmt] = []
    for first in range(0, stop, mask):
        distance = mask if first // mask % 2 == 0 else -mask
        body = map_body(s.body, lambda e, d=distance: map_expr(e, lambda n: _partner(n, s.var, d)))  # type: ignore[misc]
        if mask == 1:
            out.extend(map_body(substitute(body, {s.var: fold.const(first, s.ty)}), fold.refold))
        else:
            out.append(replace(s, start=fold.const(first, s.ty), stop=fold.const(first + mask, s.ty), body=body))
    return tuple(out)


def _partner(n: Expr, var: str, distance: int) -> Expr:
    if isinstance(n, Bin) and n.op is Op.XOR and isinstance(n.a, Var) and n.a.name == var and isinstance(n.b, Const):
        return fold.binary(Op.ADD if distance > 0 else Op.SUB, n.a, fold.const(abs(distance), n.ty), n.ty)
    return n


def _run(body: Body, known: Known) -> tuple[Body, Known]:
    """Evaluate what is constant; `known` are scalar variables with constant values."""
    out: list[Stmt] = []
    known = dict(known)
    for s in body:
        if isinstance(s, Assign):
            value = fold.refold(substitute_expr(s.value, known))
            out.append(Assign(s.name, value))
            if fold.value(value) is not None:
                known[s.name] = value
            else:
                known.pop(s.name, None)
            continue
        if isinstance(s, While | For):
            written_out = _written_out(s, known)
            if written_out is not None:
                statements, known = written_out
                out.extend(statements)
                continue
            turns = _alternating(s, known) if isinstance(s, For) else None
            if turns is not None:
                out.extend(turns)
                for name in assigned((s,)):
                    known.pop(name, None)
                continue
        if isinstance(s, If):
            truth = fold.value(fold.refold(substitute_expr(s.cond, known)))
            if truth is not None:
                statements, known = _run(s.then if truth else s.other, known)
                out.extend(statements)
                continue
        out.append(_rewritten(s, known))
        for name in assigned((s,)):
            known.pop(name, None)
    return tuple(out), known


def _rewritten(s: Stmt, known: Known) -> Stmt:
    changed = assigned((s,)) if bodies(s) else frozenset()
    stable = {n: v for n, v in known.items() if n not in changed}
    # Bounds of a `for` are evaluated before its body can change anything.
    own = known if isinstance(s, For | If) else stable
    s = map_stmt_exprs(s, lambda e: fold.refold(substitute_expr(e, own)))
    return with_bodies(s, tuple(_run(b, stable)[0] for b in bodies(s)))


def _written_out(s: While | For, known: Known) -> tuple[Body, Known] | None:
    """All iterations of a loop, one after the other; None if they are too many or can't be counted."""
    if not any(isinstance(x, Vector | Reduce) for x in walk_stmts(s.body)) or _leaves(s.body):
        return None
    if isinstance(s, For):
        return _for(s, known)
    out: list[Stmt] = []
    for _ in range(MAX_TRIPS + 1):
        again = fold.value(fold.refold(substitute_expr(s.cond, known)))
        if again is None:
            return None
        if not again:
            return tuple(out), known
        for part in (s.body, s.step):
            statements, known = _run(part, known)
            out.extend(statements)
        if sum(1 for _ in walk_stmts(tuple(out))) > MAX_STATEMENTS:
            return None
    return None


def _for(s: For, known: Known) -> tuple[Body, Known] | None:
    start = fold.int_value(substitute_expr(s.start, known))
    stop = fold.int_value(substitute_expr(s.stop, known))
    moving = any(s.var in names_in(e) for x in walk_stmts(s.body) if isinstance(x, Vector) for e in stmt_exprs(x))
    if start is None or stop is None or not moving:
        return None
    trips = range(start, stop, s.step)
    if len(trips) > MAX_TRIPS or len(trips) * sum(1 for _ in walk_stmts(s.body)) > MAX_STATEMENTS:
        return None
    out: list[Stmt] = []
    for value in trips:
        statements, known = _run(s.body, {**known, s.var: fold.const(value, s.ty)})
        out.extend(statements)
    known.pop(s.var, None)
    return (tuple(out), known) if sum(1 for _ in walk_stmts(tuple(out))) <= MAX_STATEMENTS else None


def _alternating(s: For, known: Known) -> Body | None:
    """A loop whose variables swap constants between iterations (buffers, mostly), two iterations at a time.

    In each half the variables have constant values.
    """
    if s.step != 1 or fold.int_value(s.start) != 0 or not any(isinstance(x, Vector) for x in walk_stmts(s.body)):
        return None
    changed = assigned(s.body)
    state = {n: v for n, v in known.items() if n in changed}
    stable = {n: v for n, v in known.items() if n not in changed}
    if not state or _leaves(s.body):
        return None
    first, after_first = _run(s.body, {**stable, **state})
    second, after_second = _run(s.body, {**stable, **{n: after_first.get(n, v) for n, v in state.items()}})
    moving = [n for n in state if after_first.get(n) != state[n]]
    if not moving or any(n not in after_first or after_second.get(n) != state[n] for n in state):
        return None
    if sum(1 for _ in walk_stmts((*first, *second))) > MAX_STATEMENTS:
        return None
    trips = substitute_expr(s.stop, known)
    half = fold.binary(Op.DIV, fold.cast(trips, Ty.I32), fold.i32(2), Ty.I32)
    pair = Var(f"{s.var}/2", Ty.I32)
    twice = fold.binary(Op.MUL, pair, fold.i32(2), Ty.I32)
    even: Expr = fold.cast(twice, s.ty)
    odd: Expr = fold.cast(fold.binary(Op.ADD, twice, fold.i32(1), Ty.I32), s.ty)
    last: Expr = fold.cast(fold.binary(Op.SUB, fold.cast(trips, Ty.I32), fold.i32(1), Ty.I32), s.ty)
    both = (*substitute(first, {s.var: even}), *substitute(second, {s.var: odd}))
    rest = fold.binary(Op.MOD, fold.cast(trips, Ty.I32), fold.i32(2), Ty.I32)
    left_over = If(fold.binary(Op.NE, rest, fold.i32(0), Ty.BOOL), substitute(first, {s.var: last}))
    return (For(pair.name, Ty.I32, fold.i32(0), half, 1, both), left_over)


def _leaves(body: Body) -> bool:
    return any(isinstance(s, Break | Continue) or (isinstance(s, If) and any(map(_leaves, bodies(s)))) for s in body)
