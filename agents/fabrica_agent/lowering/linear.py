"""Linear forms of integer expressions: sums of constant multiples of atoms, plus a constant.

Compile-time sizes count with their values, so `row * n + col` is linear for every known n. Conversions between integer
types are transparent where ranges prove that they don't change the value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import Bin, Cast, Expr, Load, Op, Param, Ty, Un, Var, names_in, walk
from fabrica_agent.lowering.ranges import Env, fits, span


@dataclass(frozen=True, slots=True)
class Linear:
    """`constant + sum(coefficient * atom)`; atoms are variables or opaque integer expressions, no zero coefficients."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    def of(self, name: str) -> int:
        """Coefficient of a variable."""
        return next((c for atom, c in self.terms if isinstance(atom, Var) and atom.name == name), 0)

    def mentions(self, names: Iterable[str]) -> bool:
        """Whether any atom, opaque ones included, reads one of these variables."""
        wanted = set(names)
        return any(names_in(atom) & wanted for atom, _ in self.terms)

    def without(self, name: str) -> Linear:
        """The form with a variable's term removed."""
        return Linear(
            tuple((a, c) for a, c in self.terms if not (isinstance(a, Var) and a.name == name)), self.constant
        )

    def opaque_in(self, name: str) -> bool:
        """Whether the variable occurs inside an opaque atom, so that the form isn't linear in it."""
        return any(not isinstance(a, Var) and name in names_in(a) for a, _ in self.terms)

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """`self + factor * other`."""
        total = dict(self.terms)
        for atom, c in other.terms:
            total[atom] = total.get(atom, 0) + factor * c
        return Linear(tuple((a, c) for a, c in total.items() if c), self.constant + factor * other.constant)

    def times(self, factor: int) -> Linear:
        """`factor * self`."""
        return Linear(tuple((a, c * factor) for a, c in self.terms if factor), self.constant * factor)


def linear(e: Expr, env: Env, *, symbolic: bool = False) -> Linear:
    """The linear form of an integer expression; what isn't linear becomes an atom.

    Args:
        e: An integer expression.
        env: Ranges of its variables.
        symbolic: Keep compile-time sizes that are added as atoms, for forms that `build` turns into text.
    """
    known = fold.int_value(e)
    if known is not None and not (symbolic and any(isinstance(n, Param) for n in walk(e))):
        return Linear((), known)
    match e:
        case Bin(op=Op.ADD | Op.SUB as op, a=a, b=b) if _exact(e, env):
            x, y = linear(a, env, symbolic=symbolic), linear(b, env, symbolic=symbolic)
            return x.plus(y, 1 if op is Op.ADD else -1)
        case Bin(op=Op.MUL, a=a, b=b) if _exact(e, env):
            for factor, other in ((a, b), (b, a)):
                number = fold.int_value(factor)
                if number is not None and not (symbolic and fold.int_value(other) is not None):
                    return linear(other, env, symbolic=symbolic).times(number)
        case Bin(op=Op.SHL, a=a, b=b) if _exact(e, env):
            shift = fold.int_value(b)
            if shift is not None and 0 <= shift < 31:
                return linear(a, env, symbolic=symbolic).times(1 << shift)
        case Un(op="-", a=a) if a.ty.is_signed:
            return linear(a, env, symbolic=symbolic).times(-1)
        case Cast(a=a, ty=ty) if a.ty.is_int and fits(span(a, env), ty):
            return linear(a, env, symbolic=symbolic)
        case _:
            pass
    return Linear(((e, 1),), 0)


def _exact(e: Bin, env: Env) -> bool:
    """Signed overflow is undefined in C, so only unsigned arithmetic needs a proof that it doesn't wrap."""
    if e.ty.is_signed:
        return True
    low, high = _raw(e, env)
    return low >= 0 and fits((low, high), e.ty)


def _raw(e: Bin, env: Env) -> tuple[int, int]:
    (al, ah), (bl, bh) = span(e.a, env), span(e.b, env)
    if e.op is Op.ADD:
        return al + bl, ah + bh
    if e.op is Op.SUB:
        return al - bh, ah - bl
    if e.op is Op.SHL:
        return al << min(bl, 63), ah << min(bh, 63)
    return al * bl, ah * bh


def linear_span(form: Linear, env: Env) -> tuple[int, int]:
    """Range of a linear form."""
    low = high = form.constant
    for atom, c in form.terms:
        al, ah = span(atom, env)
        low += min(c * al, c * ah)
        high += max(c * al, c * ah)
    return low, high


def build(form: Linear, ty: Ty = Ty.I32) -> Expr:
    """An expression of the form's value: positive terms first, then the constant and the negative terms."""
    positive = [(a, c) for a, c in form.terms if c > 0]
    negative = [(a, c) for a, c in form.terms if c < 0]
    total: Expr | None = None
    for atom, c in positive:
        scaled = fold.binary(Op.MUL, fold.cast(atom, ty), fold.const(c, ty), ty)
        total = scaled if total is None else fold.binary(Op.ADD, total, scaled, ty)
    if total is None:
        total = fold.const(form.constant, ty)
    elif form.constant:
        total = fold.binary(Op.ADD if form.constant > 0 else Op.SUB, total, fold.const(abs(form.constant), ty), ty)
    for atom, c in negative:
        scaled = fold.binary(Op.MUL, fold.cast(atom, ty), fold.const(-c, ty), ty)
        if fold.is_const(total, 0):
            total = fold.unary("-", scaled, ty)
        else:
            total = Bin(Op.SUB, total, scaled, ty)
    return total


def shortened(e: Expr, env: Env) -> Expr:
    """The expression rebuilt from its linear form when terms cancel, else the expression itself."""
    if fold.int_value(e) is not None or not isinstance(e, Bin):
        return e
    form = linear(e, env, symbolic=True)
    occurrences = sum(1 for n in walk(e) if isinstance(n, Var))
    remaining = sum(1 for atom, _ in form.terms for n in walk(atom) if isinstance(n, Var))
    return build(form, e.ty) if remaining < occurrences else e


def invariant(e: Expr, names: frozenset[str], buffers: frozenset[str]) -> bool:
    """Whether an expression depends on none of these variables and buffers."""
    return not any(
        (isinstance(n, Var) and n.name in names) or (isinstance(n, Load) and n.buffer in buffers) for n in walk(e)
    )
