"""Equivalent forms of statements and expressions that have a bulk operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Assign,
    Bin,
    Body,
    Call,
    Const,
    Expr,
    For,
    If,
    Load,
    Note,
    Op,
    Select,
    Stmt,
    Store,
    Ty,
    Un,
    Var,
    VecOp,
    bodies,
    map_stmts,
    names_in,
    substitute,
    substitute_expr,
    walk,
    walk_stmts,
    with_bodies,
)
from fabrica_agent.lowering.linear import Linear, build, linear, linear_span
from fabrica_agent.lowering.names import Names
from fabrica_agent.lowering.nest import Loop, affine
from fabrica_agent.lowering.ranges import Range


@dataclass(frozen=True)
class Ref:
    """An element of an array for each iteration."""

    buffer: str
    form: Linear


def without_indices(body: Body, live: frozenset[str]) -> Body:
    """Integer variables that are computed from loop variables alone, replaced by what they are."""
    count: dict[str, int] = {}
    for s in walk_stmts(body):
        if isinstance(s, Assign):
            count[s.name] = count.get(s.name, 0) + 1
    values: dict[str, Expr] = {}
    for s in walk_stmts(body):
        if isinstance(s, Assign) and s.value.ty.is_int and count[s.name] == 1 and s.name not in live:
            value = substitute_expr(s.value, values)
            if not names_in(value) & set(count) and not any(isinstance(n, Load) for n in walk(value)):
                values[s.name] = value
    if not values:
        return body
    kept = map_stmts(body, lambda s: Note("") if isinstance(s, Assign) and s.name in values else s)
    return _without_notes(substitute(kept, values))


def _without_notes(body: Body) -> Body:
    return tuple(with_bodies(s, tuple(_without_notes(b) for b in bodies(s))) for s in body if not isinstance(s, Note))


def maxima(body: Body) -> Body:
    """`if (v > x) x = v` as `x = max(x, v)`."""
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, tuple(maxima(b) for b in bodies(s)))
        if isinstance(s, If) and len(s.then) == 1 and not s.other and isinstance(s.then[0], Assign):
            name, value, cond = s.then[0].name, s.then[0].value, s.cond
            own = Var(name, value.ty)
            if value.ty.is_float and isinstance(cond, Bin):
                bigger = (cond.a, cond.b) if cond.op in (Op.GT, Op.GE) else (cond.b, cond.a)
                if cond.op in (Op.GT, Op.GE, Op.LT, Op.LE) and bigger == (value, own):
                    s = Assign(name, Bin(Op.MAX, own, value, value.ty))
        out.append(s)
    return tuple(out)


def regular_loops(body: Body, env: Mapping[str, Range], names: Names) -> Body:
    """Loops whose start depends on outer variables, or whose step isn't one, as loops from zero in steps of one.

    That is possible where the number of turns is the same for all values of the outer variables, as in the loop of a
    thread over elements at a distance of the number of threads.
    """
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For):
            s = _regular(s, env, names)
            low, high = fold.int_value(s.start), fold.int_value(s.stop)
            inner = {**env, s.var: (low, high - 1)} if low is not None and high is not None else env
            out.append(with_bodies(s, (regular_loops(s.body, inner, names),)))
        else:
            out.append(with_bodies(s, tuple(regular_loops(b, env, names) for b in bodies(s))))
    return tuple(out)


def _regular(s: For, env: Mapping[str, Range], names: Names) -> For:
    stop = fold.int_value(s.stop)
    if stop is None or s.step < 1 or (s.step == 1 and fold.int_value(s.start) is not None):
        return s
    form = linear(s.start, env)
    if form.opaque_in(s.var) or any(isinstance(n, Load) for n in walk(s.start)):
        return s
    low, high = linear_span(form, env)
    turns = -(-(stop - low) // s.step)
    if turns < 1 or turns != -(-(stop - high) // s.step):
        return s
    var = names.variable(s.var, Ty.I32)
    moved = Linear(((var, s.step),), 0)
    place = build(form.plus(moved), s.ty)
    return For(var.name, Ty.I32, fold.i32(0), fold.i32(turns), 1, substitute(s.body, {s.var: place}), s.parallel)


def without_branches(body: Body) -> Body:
    """`if (c) x[i] = a else x[i] = b` as `x[i] = b; if (c) x[i] = a`, where `a` doesn't depend on what was stored.

    The value of the other branch is then computed where the condition holds too, and overwritten.
    """
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, tuple(without_branches(b) for b in bodies(s)))
        if isinstance(s, If) and len(s.then) == 1 and len(s.other) == 1:
            a, b = s.then[0], s.other[0]
            if isinstance(a, Store) and isinstance(b, Store) and (a.buffer, a.index) == (b.buffer, b.index):
                reads = {n.buffer for e in (a.value, s.cond) for n in walk(e) if isinstance(n, Load)}
                if a.buffer not in reads:
                    out.append(b)
                    out.extend(_under(term, a) for term in _terms_of(s.cond, Op.LOR))
                    continue
        out.append(s)
    return tuple(out)


def _under(cond: Expr, s: Stmt) -> Stmt:
    for term in reversed(_terms_of(cond, Op.LAND)):
        s = If(term, (s,))
    return s


def _terms_of(e: Expr, op: Op) -> list[Expr]:
    if isinstance(e, Bin) and e.op is op:
        return [*_terms_of(e.a, op), *_terms_of(e.b, op)]
    return [e]


def accumulated(
    value: Expr, own: Var | None, place: tuple[Ref, tuple[Loop, ...], Mapping[str, Range]] | None
) -> tuple[VecOp | None, Expr]:
    """`x op rest` as (op, rest), where x is the variable, or the array element, that the statement sets."""

    def is_own(e: Expr) -> bool:
        if own is not None:
            return e == own
        assert place is not None
        ref, loops, env = place
        return isinstance(e, Load) and e.buffer == ref.buffer and affine(e.index, loops, env) == ref.form

    if isinstance(value, Bin) and value.op is Op.MAX:
        for x, rest in ((value.a, value.b), (value.b, value.a)):
            if is_own(x):
                return VecOp.MAX, rest
    terms = _terms(value)
    mine = [k for k, (sign, e) in enumerate(terms) if sign > 0 and is_own(e)]
    if len(mine) != 1 or len(terms) < 2:
        return None, value
    others = [t for k, t in enumerate(terms) if k != mine[0]]
    if all(sign < 0 for sign, _ in others):
        return VecOp.SUB, _sum([(1, e) for _, e in others], value.ty)
    others.sort(key=lambda t: -t[0])
    return VecOp.ADD, _sum(others, value.ty)


def _terms(e: Expr) -> list[tuple[int, Expr]]:
    """The terms of a sum with their signs."""
    if isinstance(e, Bin) and e.ty.is_float and e.op in (Op.ADD, Op.SUB):
        flip = 1 if e.op is Op.ADD else -1
        return [*_terms(e.a), *((flip * sign, x) for sign, x in _terms(e.b))]
    return [(1, e)]


def _sum(terms: Sequence[tuple[int, Expr]], ty: Ty) -> Expr:
    total = terms[0][1]
    for sign, e in terms[1:]:
        total = Bin(Op.ADD if sign > 0 else Op.SUB, total, e, ty)
    return total


def simple_form(e: Expr) -> Expr:
    """Equivalent forms by operations of one pass each: min by max, rectifiers, sums without a zero."""
    match e:
        case Bin(op=Op.MIN, a=a, b=b, ty=ty) if ty.is_float:
            return Un("-", Bin(Op.MAX, fold.unary("-", a, ty), fold.unary("-", b, ty), ty), ty)
        case Bin(op=Op.ADD, a=Const(value=0.0), b=b):
            return simple_form(b)
        case Select(cond=Bin(op=Op.GT | Op.GE, a=x, b=y), a=a, b=b) if e.ty.is_float and a == x and b == y:
            return Bin(Op.MAX, a, b, e.ty)
        case Select(cond=Bin(op=Op.LT | Op.LE, a=x, b=y), a=a, b=b) if e.ty.is_float and a == y and b == x:
            return Bin(Op.MAX, a, b, e.ty)
        case Select(cond=Bin(op=Op.GT | Op.GE, a=x, b=Const(value=0.0)), a=a, b=b) if e.ty.is_float and a == x:
            if isinstance(b, Bin) and b.op is Op.MUL:
                for factor, other in ((b.a, b.b), (b.b, b.a)):
                    if other == x and isinstance(factor, Const) and 0.0 <= float(factor.value) <= 1.0:
                        return Bin(Op.MAX, x, b, e.ty)
            return e
        case _:
            return e


def normal(e: Expr) -> Expr:
    """Equivalent forms with a bulk operation, those of several passes included: tanh by exp."""
    e = simple_form(e)
    match e:
        case Call(fn="tanh", args=(a,), ty=ty) if ty is Ty.F32:
            twice = Call("exp", (Bin(Op.MUL, Const(2.0, ty), a, ty),), ty)
            return Bin(
                Op.SUB, Const(1.0, ty), Bin(Op.DIV, Const(2.0, ty), Bin(Op.ADD, twice, Const(1.0, ty), ty), ty), ty
            )
        case _:
            return e
