"""Simplification of expressions by ranges: folding, index arithmetic as I32, decided conditions and divisions."""

from __future__ import annotations

from dataclasses import replace

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.intervals import Ranges, loop_range, refine
from fabrica_agent.lowering.ir import (
    COMPARISONS,
    Bin,
    Body,
    Break,
    Cast,
    Const,
    Continue,
    Expr,
    For,
    If,
    Load,
    Op,
    Param,
    Select,
    Stmt,
    Store,
    Ty,
    Un,
    Var,
    While,
    assigned,
    bodies,
    map_expr,
    map_stmt_exprs,
    names_in,
    substitute,
    walk,
    with_bodies,
)
from fabrica_agent.lowering.linear import Linear, build, linear, linear_span, shortened
from fabrica_agent.lowering.ranges import decide, fits, signed, span


def normalise(body: Body, env: Ranges, *, keep_types: bool = False) -> Body:
    """Fold and retype all expressions; drop branches and loops that ranges decide.

    Args:
        body: Statements.
        env: Ranges of the variables in scope.
        keep_types: Leave loops as they are, for a kernel that isn't serialised yet.
    """
    if keep_types:
        return _folded(body, env)
    out: list[Stmt] = []
    for s in body:
        s = map_stmt_exprs(s, lambda e: expression(e, env))
        match s:
            case Store(buffer=buffer, index=index, value=value):
                out.append(Store(buffer, shortened(signed(index, env), env), value))
            case If(cond=cond, then=then, other=other):
                truth = decide(cond, env)
                if truth is not None:
                    out.extend(normalise(then if truth else other, env))
                    continue
                then, other = normalise(then, refine(cond, env, True)), normalise(other, refine(cond, env, False))
                if then:
                    out.append(If(cond, then, other))
                elif other:
                    out.append(If(fold.logical_not(cond), other))
            case For():
                out.extend(_normal_loop(s, env))
            case While(cond=cond):
                if decide(cond, env) is False:
                    continue
                inside = refine(cond, env, True)
                stepping = {n: env[n] if n in assigned(s.body) else r for n, r in inside.items()}
                out.append(
                    While(cond, normalise(s.body, _stable_part(inside, env, s.body)), normalise(s.step, stepping))
                )
            case _:
                out.append(s)
    return tuple(out)


def _folded(body: Body, env: Ranges) -> Body:
    out: list[Stmt] = []
    for s in body:
        s = map_stmt_exprs(s, lambda e: expression(e, env))
        out.append(with_bodies(s, tuple(_folded(b, env) for b in bodies(s))))
    return tuple(out)


def _stable_part(inside: Ranges, env: Ranges, body: Body) -> Ranges:
    changed = assigned(body)
    return {n: env[n] if n in changed else r for n, r in inside.items()}


def _normal_loop(s: For, env: Ranges) -> Body:
    start, stop, ty = s.start, s.stop, s.ty
    if ty is not Ty.I32 and ty.is_int:
        bounds = span(start, env), span(stop, env)
        if all(fits(b, Ty.I32) for b in bounds):
            var = Var(s.var, Ty.I32)
            inner = substitute(s.body, {s.var: fold.cast(var, ty)})
            s = For(s.var, Ty.I32, fold.cast(start, Ty.I32), fold.cast(stop, Ty.I32), s.step, inner, s.parallel)
    s = replace(s, start=signed(s.start, env), stop=signed(s.stop, env)) if s.ty is Ty.I32 else s
    run = loop_range(s, env)
    if run is None:
        known = all(n in env for e in (s.start, s.stop) for n in names_in(e))
        return () if known else (s,)
    at_most_once = span(s.stop, env)[1] - span(s.start, env)[0] <= s.step
    if at_most_once and s.step > 0 and not escapes(s.body) and trip_count(s) is None:
        test = fold.binary(Op.LT, s.start, s.stop, Ty.BOOL)
        return normalise((If(test, substitute(s.body, {s.var: s.start})),), env)
    trips = trip_count(s)
    if trips == 1 and not escapes(s.body):
        return normalise(substitute(s.body, {s.var: s.start}), env)
    body = normalise(s.body, {**env, s.var: run})
    return (replace(s, body=body),) if body else ()


def trip_count(s: For) -> int | None:
    """Number of iterations when both bounds are known."""
    start, stop = fold.int_value(s.start), fold.int_value(s.stop)
    return None if start is None or stop is None else len(range(start, stop, s.step))


def escapes(body: Body) -> bool:
    """Whether a loop body leaves the loop or an iteration early."""
    return any(
        isinstance(s, Break | Continue) or (isinstance(s, If) and any(escapes(b) for b in bodies(s))) for s in body
    )


def expression(e: Expr, env: Ranges) -> Expr:
    """Fold an expression with what ranges tell."""
    return map_expr(e, lambda n: _simpler(n, env))


def _simpler(e: Expr, env: Ranges) -> Expr:
    match e:
        case Load(buffer=buffer, index=index, ty=ty):
            return Load(buffer, shortened(signed(index, env), env), ty)
        case Cast(a=a, ty=Ty.I32) if a.ty.is_int:
            return signed(e, env)
        case Cast(a=a, ty=ty):
            return fold.cast(a, ty)
        case Select(cond=cond, a=a, b=b):
            truth = decide(cond, env)
            return fold.select(cond, a, b) if truth is None else (a if truth else b)
        case Un(op=op, a=a, ty=ty):
            return fold.unary(op, a, ty)
        case Bin(op=Op.DIV | Op.MOD, ty=ty) if ty.is_int:
            return _divide(e, env)
        case Bin(op=Op.AND, a=a, b=Const(value=mask)) if e.ty.is_int and (int(mask) + 1) & int(mask) == 0:
            if span(a, env)[0] >= 0 and int(mask) > 0:
                whole = _divide(Bin(Op.MOD, a, fold.const(int(mask) + 1, e.ty), e.ty), env)
                if not (isinstance(whole, Bin) and whole.op is Op.MOD):
                    return whole
            return fold.binary(Op.AND, a, e.b, e.ty)
        case Bin(op=Op.XOR, a=a, b=b, ty=ty) if ty.is_int:
            return _exclusive_or(a, b, ty, env)
        case Bin(op=op, a=a, b=b, ty=ty):
            if op in COMPARISONS and a.ty.is_int:
                return _comparison(e, env)
            if op in (Op.MIN, Op.MAX) and ty is Ty.I32:
                return bounded(op, a, b, env)
            return _as_size(fold.binary(op, a, b, ty))
        case _:
            return e


def _exclusive_or(a: Expr, b: Expr, ty: Ty, env: Ranges) -> Expr:
    """`(32 * w + l) ^ m` as `32 * w + (l ^ m)` when `l` and `m` stay below 32: what a butterfly shuffle computes."""
    low, high = span(b, env)
    size = 1 << max(high, 0).bit_length()
    if low < 0 or not fits(span(a, env), Ty.I32) or span(a, env)[0] < 0:
        return fold.binary(Op.XOR, a, b, ty)
    form = linear(a, env)
    # The low part must not carry: its range is within one power of two that also holds the mask.
    for step in sorted({abs(c) for _, c in form.terms if abs(c) >= size}):
        if step & (step - 1):
            continue
        whole = Linear(tuple((x, c) for x, c in form.terms if c % step == 0), form.constant - form.constant % step)
        rest = Linear(tuple((x, c) for x, c in form.terms if c % step), form.constant % step)
        rest_low, rest_high = linear_span(rest, env)
        if whole.terms and rest_low >= 0 and rest_high < step:
            mixed = fold.binary(Op.XOR, build(rest), fold.cast(b, Ty.I32), Ty.I32)
            return fold.cast(fold.binary(Op.ADD, build(whole), mixed, Ty.I32), ty)
    return fold.binary(Op.XOR, a, b, ty)


def _as_size(e: Expr) -> Expr:
    """An expression of a size that has the size's own value, such as `n / 256 * 256`, as the size itself."""
    if isinstance(e, Bin) and e.ty.is_int:
        known = fold.int_value(e)
        if known is not None:
            return next((Param(n.name, n.value, e.ty) for n in walk(e) if isinstance(n, Param) and n.value == known), e)
    return e


def _comparison(e: Bin, env: Ranges) -> Expr:
    truth = decide(e, env)
    if truth is not None:
        return fold.const(truth, Ty.BOOL)
    a, b = e.a, e.b
    if all(fits(span(x, env), Ty.I32) for x in (a, b)):
        a, b = signed(a, env), signed(b, env)
        difference = linear(a, env).plus(linear(b, env), -1)
        low, high = linear_span(difference, env)
        settled = (
            decide(Bin(e.op, _probe(), fold.i32(0), Ty.BOOL), {_PROBE: (low, high)})
            if fits((low, high), Ty.I32)
            else None
        )
        if settled is not None:
            return fold.const(settled, Ty.BOOL)
        coarse = _coarser(e.op, difference, env)
        if coarse is not None:
            return coarse
    return fold.binary(e.op, a, b, Ty.BOOL)


def _coarser(op: Op, form: Linear, env: Ranges) -> Expr | None:
    """`32 * w + l < 64` as `w < 2` when `l` is known to stay below 32."""
    if op in (Op.LE, Op.GT):
        op, form = (Op.LT if op is Op.LE else Op.GE), form.plus(Linear((), -1))
    if op not in (Op.LT, Op.GE) or len(form.terms) < 2:
        return None
    step = max(abs(c) for _, c in form.terms)
    whole = Linear(tuple((a, c // step) for a, c in form.terms if c % step == 0), form.constant // step)
    rest = Linear(tuple((a, c) for a, c in form.terms if c % step), form.constant % step)
    low, high = linear_span(rest, env)
    if step < 2 or not (low >= 0 and high < step):
        return None
    left, right = Linear(whole.terms, 0), -whole.constant
    return expression(fold.binary(op, build(left), fold.i32(right), Ty.BOOL), env)


_PROBE = "difference of the two sides"


def _probe() -> Var:
    return Var(_PROBE, Ty.I32)


def _divide(e: Bin, env: Ranges) -> Expr:
    """Division and remainder of a linear form by a constant, where ranges separate quotient and remainder."""
    divisor = fold.int_value(e.b)
    simple = _as_size(fold.binary(e.op, e.a, e.b, e.ty))
    if fold.int_value(e.a) is not None:
        return simple
    if divisor is None or divisor <= 0 or not isinstance(simple, Bin):
        return simple
    low, high = span(e.a, env)
    if low < 0 or not fits((low, high), Ty.I32):
        return simple
    form = linear(e.a, env)
    whole = Linear(tuple((a, c // divisor) for a, c in form.terms if c % divisor == 0), form.constant // divisor)
    rest = Linear(tuple((a, c) for a, c in form.terms if c % divisor), form.constant % divisor)
    rest_low, rest_high = linear_span(rest, env)
    if not (rest_low >= 0 and rest_high < divisor):
        return simple
    return fold.cast(build(whole if e.op is Op.DIV else rest), e.ty)


def bounded(op: Op, a: Expr, b: Expr, env: Ranges) -> Expr:
    """min or max of two I32 bounds, reduced to one of them where ranges tell which."""
    difference = linear(a, env).plus(linear(b, env), -1)
    low, high = linear_span(difference, env)
    if low == high == 0:
        return min(a, b, key=_clarity)
    if high <= 0:
        return a if op is Op.MIN else b
    if low >= 0:
        return b if op is Op.MIN else a
    return fold.binary(op, a, b, Ty.I32)


def _clarity(e: Expr) -> tuple[bool, int]:
    """Of two bounds that are equal for the given sizes, the clearer one names a size and is short."""
    nodes = list(walk(e))
    return not any(isinstance(n, Param) for n in nodes), len(nodes)
