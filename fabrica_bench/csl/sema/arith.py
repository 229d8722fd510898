"""Arithmetic, comparison and logic: folded when both sides are known, emitted otherwise."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from fabrica_bench.csl import ast, floats, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema import limits
from fabrica_bench.csl.sema.coerce import coerce, peer_type
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.lower import check_runtime_type, operand
from fabrica_bench.csl.values import FALSE, TRUE, Const, Rt, Value, bool_value, freeze

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame

IR_OPS: dict[str, ir.BinOp] = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "%": "rem",
    "&": "and",
    "|": "or",
    "^": "xor",
    "<<": "shl",
    ">>": "shr",
}
CMP_OPS: dict[str, ir.CmpOp] = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INTEGER_ONLY = frozenset(["%", "&", "|", "^", "<<", ">>"])
MAX_SHIFT = 4096


def binary(
    frame: Frame, op: str, a: Value, b: Value, span: ast.Span, sides: tuple[ast.Span, ast.Span] | None = None
) -> Value:
    """`a op b` for every infix operator except `and` and `or`. `sides`: where the operands are."""
    if isinstance(a, Const) and isinstance(b, Const):
        known = _known_integers(op, a, b)
        if known is not None:
            return known
    return general_binary(frame, op, a, b, span, sides)


def general_binary(
    frame: Frame, op: str, a: Value, b: Value, span: ast.Span, sides: tuple[ast.Span, ast.Span] | None = None
) -> Value:
    """As `binary`, by the rules for all types."""
    if op in CMP_OPS:
        return compare(frame, op, a, b, span, sides)
    if op in ("<<", ">>"):
        return _shift(frame, op, a, b, span)
    if op in ("&", "|", "^") and a.type == t.BOOL and b.type == t.BOOL:
        fail(span, f"operator '{op}' is not defined for type 'bool'", "use 'and', 'or' or '!='")
    type_ = _operand_type(frame, op, a, b, span)
    left, right = sides or (span, span)
    a, b = coerce(frame, a, type_, left), coerce(frame, b, type_, right)
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(type_, _fold(op, type_, a.data, b.data, span))
    if op in ("/", "%") and isinstance(b, Const) and t.is_integer(type_) and b.data == 0:
        fail(span, "division by zero")
    return _emit_binary(frame, op, type_, a, b, span)


_SIMPLE: Final[dict[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


def _known_integers(op: str, a: Const, b: Const) -> Const | None:
    """The result for integers of one type, or of one and a literal that fits: what loops at comptime mostly do. None
    leaves the operation to the general rules, which say the same."""
    type_ = a.type
    if type_ is not b.type:
        if b.type is t.COMPTIME_INT and isinstance(type_, t.IntType) and type_.low <= b.data <= type_.high:
            pass
        elif type_ is t.COMPTIME_INT and isinstance(b.type, t.IntType) and b.type.low <= a.data <= b.type.high:
            type_ = b.type
        else:
            return None
    elif type_ is not t.COMPTIME_INT and not isinstance(type_, t.IntType):
        return None
    compare_ = _COMPARE.get(op)
    if compare_ is not None:
        return TRUE if compare_(a.data, b.data) else FALSE
    simple = _SIMPLE.get(op)
    if simple is None:
        return None
    result = simple(a.data, b.data)
    if isinstance(type_, t.IntType):
        return Const(type_, type_.wrap(result))
    return Const(type_, result) if result.bit_length() <= limits.INTEGER_BITS else None


def _operand_type(frame: Frame, op: str, a: Value, b: Value, span: ast.Span) -> t.Type:
    for value in (a, b):
        legal = t.is_integer(value.type) if op in _INTEGER_ONLY else t.is_numeric(value.type)
        if not legal:
            fail(span, f"invalid operand of type '{value.type.name}' for operator '{op}'")
    if a.type == b.type:
        return a.type
    if t.is_integer(a.type) != t.is_integer(b.type):
        fail(span, f"expected type '{a.type.name}', got: '{b.type.name}'", _mixed_hint(a, b))
    return peer_type(frame, (a, b), span)


def _emit_binary(frame: Frame, op: str, type_: t.Type, a: Value, b: Value, span: ast.Span) -> Value:
    check_runtime_type(frame, type_, span)
    scalar = t.scalar_type(type_)
    assert scalar is not None
    code = frame.code(span)
    left, right = operand(frame, a, span), operand(frame, b, span)
    code = frame.code(span)
    dst = code.register(scalar)
    code.emit(ir.Bin(0, dst, IR_OPS[op], scalar, left, right))
    return Rt(type_, dst)


def _fold(op: str, type_: t.Type, a: Any, b: Any, span: ast.Span) -> Any:
    if t.is_float(type_):
        result = _fold_float(op, a, b)
        if type_ == t.COMPTIME_FLOAT:
            if op == "/" and b == 0.0:
                fail(span, "division by zero")
            if math.isnan(result):
                fail(span, "the result is not a number")
            return result
        return floats.round_to(type_.name, result)
    result = _fold_int(op, a, b, span)
    # Like at run time, fixed-width arithmetic wraps.
    return type_.wrap(result) if isinstance(type_, t.IntType) else _bounded(result, span)


def _bounded(value: int, span: ast.Span) -> int:
    if value.bit_length() > limits.INTEGER_BITS:
        fail(span, f"the comptime_int has more than {limits.INTEGER_BITS} bits")
    return value


def _fold_int(op: str, a: int, b: int, span: ast.Span) -> int:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "&":
            return a & b
        case "|":
            return a | b
        case "^":
            return a ^ b
    if b == 0:
        fail(span, "division by zero")
    quotient = abs(a) // abs(b)
    quotient = quotient if (a < 0) == (b < 0) else -quotient
    return quotient if op == "/" else a - b * quotient


def _fold_float(op: str, a: float, b: float) -> float:
    try:
        match op:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
        return a / b
    except ZeroDivisionError:
        if a == 0.0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _shift(frame: Frame, op: str, a: Value, b: Value, span: ast.Span) -> Value:
    for value in (a, b):
        if not t.is_integer(value.type):
            fail(span, f"invalid operand of type '{value.type.name}' for operator '{op}'")
    if isinstance(b, Const):
        if b.data < 0:
            fail(span, f"shift amount {b.data} is negative")
    elif isinstance(b.type, t.IntType) and b.type.signed:
        fail(span, f"the shift amount must be unsigned, got: '{b.type.name}'", "convert it with @as or @bitcast")
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(a.type, _fold_shift(op, a.type, a.data, b.data, span))
    if a.type == t.COMPTIME_INT:
        fail(span, "a comptime_int can't be shifted by a run-time amount", "convert it with @as first")
    assert isinstance(a.type, t.IntType)
    if isinstance(b, Const):
        amount: Value = Const(a.type, min(b.data, 127))
    else:
        amount = b if b.type == a.type else _recast(frame, b, a.type, span)
    return _emit_binary(frame, op, a.type, a, amount, span)


def _recast(frame: Frame, value: Value, type_: t.IntType, span: ast.Span) -> Value:
    from fabrica_bench.csl.sema.coerce import cast as convert

    return convert(frame, value, type_, span)


def _fold_shift(op: str, type_: t.Type, a: int, amount: int, span: ast.Span) -> int:
    if amount > MAX_SHIFT:
        fail(span, f"shift amount {amount} is too large")
    if op == ">>":
        return a >> amount
    result = a << amount
    return type_.wrap(result) if isinstance(type_, t.IntType) else _bounded(result, span)


# ------------------------------------------------------------------------------------------------ comparison


def compare(
    frame: Frame, op: str, a: Value, b: Value, span: ast.Span, sides: tuple[ast.Span, ast.Span] | None = None
) -> Value:
    """`a op b` for comparison operators."""
    if isinstance(a.type, t.FnType) or isinstance(b.type, t.FnType):
        fail(span, f"invalid comparison operation for type: '{a.type.name}'")
    type_ = a.type if a.type == b.type else _compare_type(frame, a, b, span)
    ordered = op not in ("==", "!=")
    if ordered and not t.is_numeric(type_):
        fail(span, f"invalid comparison operation for type: '{type_.name}'")
    if not ordered and not _has_equality(type_):
        fail(span, f"invalid comparison operation for type: '{type_.name}'")
    at = sides or (span, span)
    a, b = coerce(frame, a, type_, at[0]), coerce(frame, b, type_, at[1])
    if isinstance(a, Const) and isinstance(b, Const):
        return bool_value(_compare_data(op, type_, a.data, b.data))
    check_runtime_type(frame, type_, span)
    scalar = t.scalar_type(type_)
    assert scalar is not None
    left, right = operand(frame, a, span), operand(frame, b, span)
    code = frame.code(span)
    dst = code.register(ir.BOOL)
    code.emit(ir.Cmp(0, dst, CMP_OPS[op], scalar, left, right))
    return Rt(t.BOOL, dst)


def _compare_type(frame: Frame, a: Value, b: Value, span: ast.Span) -> t.Type:
    if t.is_numeric(a.type) and t.is_numeric(b.type) and t.is_integer(a.type) != t.is_integer(b.type):
        fail(span, f"expected type '{a.type.name}', got: '{b.type.name}'", _mixed_hint(a, b))
    return peer_type(frame, (a, b), span)


def _mixed_hint(a: Value, b: Value) -> str:
    literal = t.COMPTIME_INT in (a.type, b.type)
    return "write the literal as a float, or convert with @as" if literal else "convert one side with @as"


def _has_equality(type_: t.Type) -> bool:
    if t.is_numeric(type_) or isinstance(type_, t.EnumType | t.IdType | t.DsrType | t.PointerType):
        return True
    return type_ in (t.BOOL, t.COMPTIME_STRING, t.TYPE, t.XDSR, t.SR)


def _compare_data(op: str, type_: t.Type, a: Any, b: Any) -> bool:
    if isinstance(type_, t.PointerType):
        return (freeze(a) == freeze(b)) == (op == "==")
    return bool(_COMPARE[op](a, b))


# ----------------------------------------------------------------------------------------------------- unary


def unary(frame: Frame, op: str, value: Value, span: ast.Span) -> Value:
    """`-a`, `!a`, `~a`."""
    type_ = value.type
    if op == "!":
        if type_ != t.BOOL:
            hint = "compare it with zero: '== 0'" if t.is_integer(type_) else None
            fail(span, f"operator '!' needs type 'bool', got: '{type_.name}'", hint)
        if isinstance(value, Const):
            return bool_value(not value.data)
        return _emit_unary(frame, ir.Not, type_, value, span)
    if op == "~":
        if not isinstance(type_, t.IntType):
            fail(span, f"operator '~' needs an integer of fixed width, got: '{type_.name}'")
        if isinstance(value, Const):
            return Const(type_, type_.wrap(~value.data))
        return _emit_unary(frame, ir.Not, type_, value, span)
    if not t.is_numeric(type_):
        fail(span, f"operator '-' needs a number, got: '{type_.name}'")
    if isinstance(value, Const):
        negated = -value.data
        return Const(type_, type_.wrap(negated) if isinstance(type_, t.IntType) else negated)
    return _emit_unary(frame, ir.Neg, type_, value, span)


def _emit_unary(frame: Frame, instr: type[ir.Neg | ir.Not], type_: t.Type, value: Value, span: ast.Span) -> Value:
    scalar = t.scalar_type(type_)
    assert scalar is not None
    source = operand(frame, value, span)
    code = frame.code(span)
    dst = code.register(scalar)
    code.emit(cast(ir.Instr, instr(0, dst, scalar, source)))
    return Rt(type_, dst)
