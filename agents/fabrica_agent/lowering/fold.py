"""Building expressions with constant folding, and the known value of expressions over compile-time sizes.

Integer arithmetic folds exactly and is wrapped to its type; float arithmetic folds in the rounding of its type.
Identities that could change a float result (x*0, x+0 for negative zero) are not applied to floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fabrica_agent.lowering.ir import (
    COMPARISONS,
    NEGATED,
    Bin,
    Bitcast,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Op,
    Param,
    Select,
    Ty,
    Un,
    int_limits,
    map_expr,
    wrap_int,
)  # fmt: skip

Number = int | float | bool

TRUE = Const(True, Ty.BOOL)
FALSE = Const(False, Ty.BOOL)


def const(value: Number, ty: Ty) -> Const:
    """A literal of type `ty`; floats are rounded, integers wrapped."""
    return Const(convert(value, ty), ty)


def i32(value: int) -> Const:
    """An I32 literal."""
    return const(value, Ty.I32)


def convert(value: Number, ty: Ty) -> Number:
    """C conversion of a number to a type: truncation towards zero, wrapping, rounding to nearest."""
    if ty is Ty.BOOL:
        return bool(value)
    if ty.is_float:
        with np.errstate(over="ignore"):
            return float(np.float32(value)) if ty is Ty.F32 else float(np.float16(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            return 0
        low, high = int_limits(ty)
        return min(max(int(value), low), high)
    return wrap_int(int(value), ty)


def _int_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_INT: dict[Op, Callable[[int, int], Number]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
    Op.DIV: _int_div,
    Op.MOD: lambda a, b: a - b * _int_div(a, b),
    Op.SHL: lambda a, b: a << (b & 63),
    Op.SHR: lambda a, b: a >> (b & 63),
    Op.AND: lambda a, b: a & b,
    Op.OR: lambda a, b: a | b,
    Op.XOR: lambda a, b: a ^ b,
    Op.MIN: min,
    Op.MAX: max,
}
_COMPARE: dict[Op, Callable[[Number, Number], bool]] = {
    Op.LT: lambda a, b: a < b,
    Op.LE: lambda a, b: a <= b,
    Op.GT: lambda a, b: a > b,
    Op.GE: lambda a, b: a >= b,
    Op.EQ: lambda a, b: a == b,
    Op.NE: lambda a, b: a != b,
}


def compute(op: Op, a: Number, b: Number, ty: Ty) -> Number | None:
    """`a op b` with the result in `ty` (operand type, or BOOL); None for an integer division by zero.

    For unsigned and signed shifts the operands must already be in the range of their type.
    """
    if op in _COMPARE:
        return _COMPARE[op](a, b)
    if op is Op.LAND:
        return bool(a) and bool(b)
    if op is Op.LOR:
        return bool(a) or bool(b)
    if not ty.is_float:
        if op in (Op.DIV, Op.MOD) and b == 0:
            return None
        return convert(_INT[op](int(a), int(b)), ty)
    return _compute_float(op, float(a), float(b), ty)


def _compute_float(op: Op, a: float, b: float, ty: Ty) -> Number | None:
    kind = np.float32 if ty is Ty.F32 else np.float16
    x, y = kind(a), kind(b)
    with np.errstate(all="ignore"):
        match op:
            case Op.ADD:
                return float(x + y)
            case Op.SUB:
                return float(x - y)
            case Op.MUL:
                return float(x * y)
            case Op.DIV:
                return float(x / y)
            case Op.MIN:
                return float(np.fmin(x, y))
            case Op.MAX:
                return float(np.fmax(x, y))
            case _:
                return None


def value(e: Expr) -> Number | None:
    """The value of an expression over literals and compile-time sizes, else None."""
    match e:
        case Const(value=v) | Param(value=v):
            return v
        case Bin(op=op, a=a, b=b, ty=ty):
            x, y = value(a), value(b)
            return None if x is None or y is None else compute(op, x, y, ty)
        case Un(op=op, a=a, ty=ty):
            x = value(a)
            return None if x is None else _unary(op, x, ty)
        case Cast(a=a, ty=ty):
            x = value(a)
            return None if x is None else convert(x, ty)
        case Select(cond=c, a=a, b=b):
            x = value(c)
            return None if x is None else value(a if x else b)
        case _:
            return None


def _unary(op: str, x: Number, ty: Ty) -> Number:
    if op == "!":
        return not x
    return convert(~int(x) if op == "~" else -x, ty)


def int_value(e: Expr) -> int | None:
    """`value` when it is an integer."""
    v = value(e)
    return int(v) if v is not None and not isinstance(v, float) else None


def is_const(e: Expr, number: Number) -> bool:
    """Whether `e` is that literal."""
    return isinstance(e, Const) and e.value == number


def binary(op: Op, a: Expr, b: Expr, ty: Ty) -> Expr:
    """`a op b`, folded. `ty` is the result type: BOOL for comparisons, else the operands' type."""
    if op is Op.LAND:
        return logical_and(a, b)
    if op is Op.LOR:
        return logical_or(a, b)
    if isinstance(a, Const) and isinstance(b, Const):
        v = compute(op, a.value, b.value, ty)
        if v is not None:
            return const(v, ty)
    if op in COMPARISONS:
        x, y = value(a), value(b)
        if x is not None and y is not None:
            return const(_COMPARE[op](x, y), Ty.BOOL)
        if a == b and not a.ty.is_float:
            return const(op in (Op.LE, Op.GE, Op.EQ), Ty.BOOL)
        return Bin(op, a, b, Ty.BOOL)
    if ty.is_float:
        return _float_identity(op, a, b, ty)
    return _int_identity(op, a, b, ty)


def _float_identity(op: Op, a: Expr, b: Expr, ty: Ty) -> Expr:
    if op is Op.MUL and is_const(b, 1.0):
        return a
    if op is Op.MUL and is_const(a, 1.0):
        return b
    if op in (Op.DIV,) and is_const(b, 1.0):
        return a
    return Bin(op, a, b, ty)


def _int_identity(op: Op, a: Expr, b: Expr, ty: Ty) -> Expr:
    if op in (Op.ADD, Op.OR, Op.XOR) and is_const(a, 0):
        return b
    if op in (Op.ADD, Op.SUB, Op.OR, Op.XOR, Op.SHL, Op.SHR) and is_const(b, 0):
        return a
    if op in (Op.MUL, Op.AND) and (is_const(a, 0) or is_const(b, 0)):
        return const(0, ty)
    if op is Op.MUL and is_const(a, 1):
        return b
    if op in (Op.MUL, Op.DIV) and is_const(b, 1):
        return a
    if op is Op.MOD and is_const(b, 1):
        return const(0, ty)
    if op is Op.SUB and a == b:
        return const(0, ty)
    if op in (Op.MIN, Op.MAX):
        return _min_max(op, a, b, ty)
    sums = (Op.ADD, Op.SUB)
    if op in sums and isinstance(b, Const) and isinstance(a, Bin) and a.op in sums and isinstance(a.b, Const):
        first = int(a.b.value) if a.op is Op.ADD else -int(a.b.value)
        total = first + (int(b.value) if op is Op.ADD else -int(b.value))
        if ty.is_signed and total < 0:
            return Bin(Op.SUB, a.a, const(-total, ty), ty)
        return binary(Op.ADD, a.a, const(total, ty), ty)
    return Bin(op, a, b, ty)


def _min_max(op: Op, a: Expr, b: Expr, ty: Ty) -> Expr:
    x, y = value(a), value(b)
    if a == b:
        return a
    if x is not None and y is not None:
        return a if (x <= y) == (op is Op.MIN) else b
    return Bin(op, a, b, ty)


def unary(op: str, a: Expr, ty: Ty) -> Expr:
    """`-a`, `!a` or `~a`, folded."""
    if isinstance(a, Const):
        return const(_unary(op, a.value, ty), ty)
    if op == "!":
        return logical_not(a)
    if op == "-" and isinstance(a, Un) and a.op == "-":
        return a.a
    return Un(op, a, ty)


def logical_not(a: Expr) -> Expr:
    """`!a`; integer comparisons and De Morgan are pushed inwards."""
    match a:
        case Const(value=v):
            return const(not v, Ty.BOOL)
        case Bin(op=op, a=x, b=y) if op in NEGATED and not x.ty.is_float:
            return binary(NEGATED[op], x, y, Ty.BOOL)
        case Bin(op=op, a=x, b=y) if op in (Op.EQ, Op.NE):
            return Bin(NEGATED[op], x, y, Ty.BOOL)
        case Bin(op=Op.LOR, a=x, b=y):
            return logical_and(logical_not(x), logical_not(y))
        case Bin(op=Op.LAND, a=x, b=y):
            return logical_or(logical_not(x), logical_not(y))
        case Un(op="!", a=x):
            return x
        case _:
            return Un("!", a, Ty.BOOL)


def logical_and(a: Expr, b: Expr) -> Expr:
    """`a && b`, folded; the right operand may only be dropped, never hoisted."""
    x, y = value(a), value(b)
    if x is not None:
        return b if x else FALSE
    if y is not None:
        return a if y else (FALSE if not _may_fault(a) else Bin(Op.LAND, a, b, Ty.BOOL))
    return a if a == b else Bin(Op.LAND, a, b, Ty.BOOL)


def logical_or(a: Expr, b: Expr) -> Expr:
    """`a || b`, folded."""
    x, y = value(a), value(b)
    if x is not None:
        return TRUE if x else b
    if y is not None:
        return (TRUE if not _may_fault(a) else Bin(Op.LOR, a, b, Ty.BOOL)) if y else a
    return a if a == b else Bin(Op.LOR, a, b, Ty.BOOL)


def _may_fault(e: Expr) -> bool:
    return isinstance(e, Load)


def cast(a: Expr, ty: Ty) -> Expr:
    """C conversion, folded; conversion to BOOL is a comparison with zero."""
    if a.ty is ty:
        return a
    if isinstance(a, Const):
        return const(a.value, ty)
    if isinstance(a, Param):
        low, high = int_limits(ty) if not ty.is_float else (0, -1)
        return Param(a.name, a.value, ty) if low <= a.value <= high and ty is not Ty.BOOL else Cast(a, ty)
    if ty is Ty.BOOL:
        return binary(Op.NE, a, const(0, a.ty), Ty.BOOL)
    return Cast(a, ty)


def select(cond: Expr, a: Expr, b: Expr) -> Expr:
    """`cond ? a : b`, folded; a comparison of the same operands becomes min or max."""
    v = value(cond)
    if v is not None:
        return a if v else b
    if a == b:
        return a
    if isinstance(cond, Bin) and cond.op in (Op.LT, Op.LE, Op.GT, Op.GE) and a.ty is not Ty.BOOL:
        less = cond.op in (Op.LT, Op.LE)
        if (cond.a, cond.b) == (a, b):
            return Bin(Op.MIN if less else Op.MAX, a, b, a.ty)
        if (cond.a, cond.b) == (b, a):
            return Bin(Op.MAX if less else Op.MIN, a, b, a.ty)
    return Select(cond, a, b, a.ty)


def refold(e: Expr) -> Expr:
    """Fold again bottom-up, after substitutions."""
    return map_expr(e, _refold_node)


def _refold_node(e: Expr) -> Expr:
    match e:
        case Bin(op=op, a=a, b=b, ty=ty):
            return binary(op, a, b, ty)
        case Un(op=op, a=a, ty=ty):
            return unary(op, a, ty)
        case Cast(a=a, ty=ty):
            return cast(a, ty)
        case Select(cond=c, a=a, b=b):
            return select(c, a, b)
        case Bitcast() | Call():
            return e
        case _:
            return e
