"""Value ranges of integer expressions, and sign-free retyping of index arithmetic.

CUDA index arithmetic mixes `unsigned` thread indices with `int`; on the PE everything that fits should be computed in
16 bits. A range is exact mathematics: as long as every intermediate result stays within its C type, wrapping can't
happen, and the expression may be computed in any type that holds all intermediate results.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabrica_agent.lowering.fold import int_value
from fabrica_agent.lowering.ir import Bin, Call, Cast, Const, Expr, Op, Param, Select, Ty, Un, Var, int_limits

Range = tuple[int, int]
Env = Mapping[str, Range]


def span(e: Expr, env: Env) -> Range:
    """Smallest and largest value that an integer or bool expression may take; at worst the limits of its type."""
    limits = int_limits(e.ty) if not e.ty.is_float else (-(1 << 63), (1 << 63) - 1)
    low, high = _span(e, env, limits)
    if low < limits[0] or high > limits[1]:
        return limits  # it may wrap
    return low, high


def _span(e: Expr, env: Env, limits: Range) -> Range:
    match e:
        case Const(value=v) | Param(value=v):
            return int(v), int(v)
        case Var(name=name):
            return env.get(name, limits)
        case Cast(a=a) if not a.ty.is_float:
            return span(a, env)
        case Select(a=a, b=b):
            (al, ah), (bl, bh) = span(a, env), span(b, env)
            return min(al, bl), max(ah, bh)
        case Un(op="-", a=a):
            low, high = span(a, env)
            return -high, -low
        case Bin(op=op, a=a, b=b) if not a.ty.is_float:
            return _binary(op, span(a, env), span(b, env), limits)
        case Call(fn="popc"):
            return 0, 32
        case _:
            return limits


def _binary(op: Op, a: Range, b: Range, limits: Range) -> Range:
    (al, ah), (bl, bh) = a, b
    match op:
        case Op.ADD:
            return al + bl, ah + bh
        case Op.SUB:
            return al - bh, ah - bl
        case Op.MUL:
            products = (al * bl, al * bh, ah * bl, ah * bh)
            return min(products), max(products)
        case Op.DIV if bl > 0:
            corners = [int(x / y) if abs(x) < 1 << 50 else x // y for x in (al, ah) for y in (bl, bh)]
            return min(corners), max(corners)
        case Op.MOD if bl > 0 and al >= 0:
            return (0, min(ah, bh - 1)) if not (ah < bl) else (al, ah)
        case Op.MOD if bl > 0:
            return -(bh - 1), bh - 1
        case Op.AND if al >= 0 and bl >= 0:
            return 0, min(ah, bh)
        case Op.AND if bl >= 0:
            return 0, bh
        case Op.OR | Op.XOR if al >= 0 and bl >= 0:
            return 0, (1 << max(ah.bit_length(), bh.bit_length())) - 1
        case Op.SHL if al >= 0 and bl >= 0 and bh < 32:
            return al << bl, ah << bh
        case Op.SHR if bl >= 0 and bh < 32:
            return (al >> bh if al >= 0 else al >> bl), (ah >> bl if ah >= 0 else ah >> bh)
        case Op.MIN:
            return min(al, bl), min(ah, bh)
        case Op.MAX:
            return max(al, bl), max(ah, bh)
        case _:
            return limits


def decide(e: Expr, env: Env) -> bool | None:
    """Truth of a condition when the ranges of its variables settle it."""
    known = int_value(e)
    if known is not None:
        return bool(known)
    match e:
        case Bin(op=Op.LAND, a=a, b=b):
            x, y = decide(a, env), decide(b, env)
            return False if x is False or y is False else (True if x and y else None)
        case Bin(op=Op.LOR, a=a, b=b):
            x, y = decide(a, env), decide(b, env)
            return True if x or y else (False if x is False and y is False else None)
        case Un(op="!", a=a):
            x = decide(a, env)
            return None if x is None else not x
        case Bin(op=op, a=a, b=b) if not a.ty.is_float:
            return _compare(op, span(a, env), span(b, env))
        case _:
            return None


def _compare(op: Op, a: Range, b: Range) -> bool | None:
    match op:
        case Op.LT:
            return True if a[1] < b[0] else (False if a[0] >= b[1] else None)
        case Op.LE:
            return True if a[1] <= b[0] else (False if a[0] > b[1] else None)
        case Op.GT:
            return _compare(Op.LT, b, a)
        case Op.GE:
            return _compare(Op.LE, b, a)
        case Op.EQ:
            return True if a[0] == a[1] == b[0] == b[1] else (False if a[1] < b[0] or b[1] < a[0] else None)
        case Op.NE:
            equal = _compare(Op.EQ, a, b)
            return None if equal is None else not equal
        case _:
            return None


def fits(low_high: Range, ty: Ty) -> bool:
    """Whether a range lies within a type."""
    low, high = int_limits(ty)
    return low <= low_high[0] and low_high[1] <= high


def signed(e: Expr, env: Env) -> Expr:
    """The same value as an I32 expression without conversions, where ranges prove that nothing wraps; else `e` cast."""
    if e.ty is Ty.I32 and isinstance(e, Var | Const | Param):
        return e
    if e.ty.is_float or e.ty is Ty.BOOL or not fits(span(e, env), Ty.I32):
        return e if e.ty is Ty.I32 else Cast(e, Ty.I32)
    match e:
        case Const(value=v):
            return Const(int(v), Ty.I32)
        case Param(name=name, value=v):
            return Param(name, v, Ty.I32)
        case Cast(a=a) if not a.ty.is_float and a.ty is not Ty.BOOL and _keeps(e, env) and fits(span(a, env), Ty.I32):
            return signed(a, env)
        case Bin(op=op, a=a, b=b) if a.ty is not Ty.BOOL:
            if all(fits(span(x, env), Ty.I32) for x in (a, b)) and _exact(e, env):
                return Bin(op, signed(a, env), signed(b, env), Ty.I32)
        case Select(cond=c, a=a, b=b):
            return Select(c, signed(a, env), signed(b, env), Ty.I32)
        case _:
            pass
    return e if e.ty is Ty.I32 else Cast(e, Ty.I32)


def _keeps(e: Cast, env: Env) -> bool:
    """Whether a conversion changes no value: `(signed char)(x & 255)` does, although its result fits any type."""
    return fits(span(e.a, env), e.ty)


def _exact(e: Expr, env: Env) -> bool:
    """Whether the operation on exact operand ranges stays within its own type (so that wrapping didn't happen)."""
    if not isinstance(e, Bin):
        return True
    low, high = _binary(e.op, span(e.a, env), span(e.b, env), int_limits(e.ty))
    limits = int_limits(e.ty)
    return limits[0] <= low and high <= limits[1]
