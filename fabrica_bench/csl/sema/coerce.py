"""Implicit coercions, explicit casts (`@as`) and peer types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ast, floats, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.values import Agg, Const, FnValue, Rt, Value, field_value

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame


def mismatch(value: Value, type_: t.Type, span: ast.Span) -> None:
    """Report that `value` can't become `type_`, as clearly as the pair of types allows."""
    source = value.type
    hint = None
    if isinstance(source, t.PointerType) and isinstance(type_, t.PointerType):
        if source.is_const and not type_.is_const:
            hint = "the target may only be read through this pointer; ask for a const pointer"
        elif isinstance(source.pointee, t.ArrayType) and not isinstance(type_.pointee, t.ArrayType):
            hint = f"point to an element with &a[0], or to the array with '{source.name}' or '[*]...'"
        fail(span, f"cannot coerce '{source.name}' to '{type_.name}'", hint)
    if (t.is_numeric(source) and t.is_numeric(type_)) or (isinstance(source, t.EnumType) and t.is_numeric(type_)):
        if isinstance(value, Const) and source == t.COMPTIME_INT and t.is_float(type_):
            hint = f"write a literal as a float, '{value.data}.0', or convert with @as({type_.name}, ...)"
        else:
            hint = f"convert explicitly with @as({type_.name}, ...)"
    elif isinstance(type_, t.PointerType) and source != t.VOID and not source.is_comptime_only:
        hint = "take the address of a variable with '&'"
    elif isinstance(type_, t.ArrayType) and isinstance(source, t.StructType) and source.is_tuple:
        hint = f"write the type of the array before its elements: {type_.name} {{ ... }}"
    elif isinstance(source, t.IdType) and t.is_numeric(type_):
        hint = "take its number with @get_int(...)"
    elif type_ == t.COLOR and t.is_integer(source):
        hint = "make a color of a number with @get_color(...)"
    elif isinstance(type_, t.IdType) and t.is_integer(source):
        hint = f"make one of a number with @get_{type_.name}(...)"
    elif source.name == type_.name:
        hint = "two types written in different places differ: declare one as a constant, and use it in both"
    fail(span, f"expected type '{type_.name}', got: '{source.name}'", hint)


def coerce(frame: Frame, value: Value, type_: t.Type, span: ast.Span) -> Value:
    """`value` as `type_` by the implicit rules; an error if there is none."""
    result = try_coerce(frame, value, type_, span)
    if result is None:
        mismatch(value, type_, span)
    assert result is not None
    return result


def try_coerce(frame: Frame, value: Value, type_: t.Type, span: ast.Span) -> Value | None:
    """As `coerce`, but None if the types do not go together. A value out of range is still an error."""
    source = value.type
    if source is type_ or source == type_:
        return value
    if type_ == t.COMPTIME_STRUCT:
        return value if isinstance(source, t.StructType) else None
    if isinstance(value, Const):
        found = _coerce_const(frame, value, type_, span)
        if found is not None:
            if isinstance(found, Const) and isinstance(found.data, FnValue) and isinstance(type_, t.PointerType):
                check_function_address(found.data, span)
            return found
    if isinstance(source, t.PointerType) and isinstance(type_, t.PointerType):
        return _retype(value, type_) if pointer_fits(source, type_) else None
    if isinstance(source, t.StructType) and isinstance(type_, t.StructType) and source.is_anonymous:
        return _anonymous_to_named(frame, value, source, type_, span)
    if isinstance(value, Rt) and widens(source, type_):
        return _cast_runtime(frame, value, type_, span)
    return None


def widens(source: t.Type, target: t.Type) -> bool:
    """Whether every value of `source` is one of `target`, by the widening rules of the language."""
    if isinstance(source, t.IntType) and isinstance(target, t.IntType):
        if source.signed == target.signed:
            return target.bits >= source.bits
        return not source.signed and target.bits > source.bits
    return isinstance(source, t.FloatType) and target == t.F32 and source.bits == 16


def pointer_fits(source: t.PointerType, target: t.PointerType) -> bool:
    """Whether a pointer converts implicitly."""
    if source.is_const and not target.is_const:
        return False
    if source.is_many == target.is_many and source.pointee == target.pointee:
        return True
    inner = source.pointee
    if target.is_many and not source.is_many and isinstance(inner, t.ArrayType):
        # Documented for one dimension only; the vendor's compiler takes any rank (its gemv-checkerboard example).
        return inner.element == target.pointee
    if target.is_many or source.is_many:
        return False
    if target.pointee == t.ANYOPAQUE:
        return True
    outer = target.pointee
    return isinstance(outer, t.ArrayType) and outer.dims == (1,) and outer.element == inner


def _retype(value: Value, type_: t.Type) -> Value:
    if isinstance(value, Const):
        return Const(type_, value.data)
    assert isinstance(value, Rt)
    return Rt(type_, value.operand)


def _coerce_const(frame: Frame, value: Const, type_: t.Type, span: ast.Span) -> Value | None:
    source, data = value.type, value.data
    if t.is_integer(source):
        if isinstance(type_, t.IntType):
            if type_.fits(data):
                return Const(type_, data)
            fail(span, f"value {data} does not fit in type '{type_.name}'", f"its range is {type_.low} to {type_.high}")
        return Const(type_, data) if type_ == t.COMPTIME_INT else None
    if t.is_float(source):
        if type_ == t.COMPTIME_FLOAT:
            return Const(type_, data)
        if isinstance(type_, t.FloatType) and (source == t.COMPTIME_FLOAT or widens(source, type_)):
            return Const(type_, _rounded(frame, data, type_, span))
        return None
    if isinstance(data, FnValue):
        return _coerce_function(value, type_)
    return None


def _rounded(frame: Frame, number: float, type_: t.FloatType, span: ast.Span) -> float:
    """The nearest value of `type_`; a finite number that is too large for it is worth a warning."""
    result = floats.round_to(type_.format, number)
    if math.isinf(result) and math.isfinite(number):
        largest = floats.largest(type_.format)
        message = f"value {number} does not fit in type '{type_.name}': it becomes infinity"
        frame.unit.session.warn(span, message, f"the largest finite value is {largest}")
    return result


def _coerce_function(value: Const, type_: t.Type) -> Value | None:
    source = value.type
    wanted = type_
    if isinstance(source, t.FnType) and isinstance(type_, t.PointerType) and type_.is_const and not type_.is_many:
        wanted = type_.pointee
    if isinstance(source, t.PointerType):
        if not (isinstance(type_, t.PointerType) and type_.is_const):
            return None
        source, wanted = source.pointee, type_.pointee
    if isinstance(source, t.FnType) and isinstance(wanted, t.FnType) and fn_matches(source, wanted):
        return Const(type_, value.data)
    return None


def check_function_address(function: FnValue, span: ast.Span) -> None:
    """Functions that exist only where they are called can't be pointed to."""
    decl = function.decl
    if decl.is_inline:
        fail(span, f"inline function '{decl.name}' has no address")
    if any(param.is_comptime or param.type_expr is None for param in decl.params):
        fail(span, f"generic function '{decl.name}' has no address", "wrap it in a function with fixed types")


def fn_matches(source: t.FnType, wanted: t.FnType) -> bool:
    """Whether a function of type `source` can stand for `wanted` (generic positions match anything)."""
    if source.kind != wanted.kind or len(source.params) != len(wanted.params):
        return False
    pairs = [*zip(source.params, wanted.params, strict=True), (source.result, wanted.result)]
    return all(a is None or b is None or a == b for a, b in pairs)


def struct_fields(frame: Frame, value: Value, span: ast.Span) -> list[Value]:
    """The fields of any struct value, loaded if it is in memory."""
    assert isinstance(value.type, t.StructType)
    from fabrica_bench.csl.sema.access import load
    from fabrica_bench.csl.sema.places import MemPlace

    parts: list[Value] = []
    for position, entry in enumerate(value.type.fields):
        part = field_value(value, position)
        if part is None:
            assert isinstance(value, Rt)
            part = load(frame, MemPlace(entry.type, value.operand, value.type.offsets[position]), span)
        parts.append(part)
    return parts


def make_struct(type_: t.StructType, parts: Sequence[Value]) -> Value:
    """A struct value of the given fields: comptime-known if all are."""
    if all(isinstance(part, Const) for part in parts):
        return Const(type_, [part.data for part in parts if isinstance(part, Const)])
    return Agg(type_, tuple(parts))


def _anonymous_to_named(
    frame: Frame, value: Value, source: t.StructType, target: t.StructType, span: ast.Span
) -> Value | None:
    if target.kind == "union":
        return None
    if len(source.fields) != len(target.fields):
        fail(span, f"expected {len(target.fields)} fields, got {len(source.fields)}")
    parts = struct_fields(frame, value, span)
    named: list[Value] = []
    for position, entry in enumerate(target.fields):
        at = position if entry.name is None else source.index.get(entry.name)
        if at is None:
            fail(span, f"field '{entry.name}' not present in source")
        if (entry.name is None) != (source.fields[at].name is None):
            return None
        part = try_coerce(frame, parts[at], entry.type, span)
        if part is None:
            fail(
                span,
                f"cannot coerce field '{entry.name}' from type '{parts[at].type.name}' to type '{entry.type.name}'",
            )
        named.append(part)
    return make_struct(target, named)


# ------------------------------------------------------------------------------------------------ peer types


def peer_type(frame: Frame, values: Sequence[Value], span: ast.Span) -> t.Type:
    """The one type that all values convert to; an error if there is none."""
    result = values[0].type
    known = values[0]
    for value in values[1:]:
        joined = _peer(known, result, value)
        if joined is None:
            fail(
                span,
                f"values of type '{result.name}' and '{value.type.name}' have no common type",
                "convert one of them with @as",
            )
        if joined != result:
            known = value if joined == value.type else known
        result = joined
    return result


def _peer(known: Value, a: t.Type, value: Value) -> t.Type | None:
    b = value.type
    if a == b:
        return a
    for first, second in ((a, b), (b, a)):
        if first == t.COMPTIME_INT and isinstance(second, t.IntType):
            return second
        if first == t.COMPTIME_FLOAT and isinstance(second, t.FloatType):
            return second
        if widens(first, second):
            return second
        if first == t.COMPTIME_STRUCT and isinstance(second, t.StructType):
            return first
    if isinstance(a, t.IntType) and isinstance(b, t.IntType):
        if isinstance(value, Const) and a.fits(value.data):
            return a
        if isinstance(known, Const) and b.fits(known.data):
            return b
        return None
    if isinstance(a, t.PointerType) and isinstance(b, t.PointerType):
        return _peer_pointer(a, b)
    if isinstance(a, t.StructType) and isinstance(b, t.StructType) and a.is_anonymous != b.is_anonymous:
        return b if a.is_anonymous else a
    return None


def _peer_pointer(a: t.PointerType, b: t.PointerType) -> t.Type | None:
    is_const = a.is_const or b.is_const
    if a.pointee == b.pointee and a.is_many == b.is_many:
        return t.PointerType(a.pointee, is_const, a.is_many)
    elements = [
        pointer.pointee
        if pointer.is_many
        else pointer.pointee.element
        if isinstance(pointer.pointee, t.ArrayType)
        else None
        for pointer in (a, b)
    ]
    if elements[0] is not None and elements[0] == elements[1]:
        return t.PointerType(elements[0], is_const, True)
    return None


# ---------------------------------------------------------------------------------------------------- casts


def cast(frame: Frame, value: Value, type_: t.Type, span: ast.Span) -> Value:
    """`@as(type_, value)`."""
    source = value.type
    if source == type_:
        return value
    if _castable(source) and _castable(type_):
        if isinstance(source, t.EnumType) and isinstance(type_, t.EnumType):
            fail(span, f"cannot cast '{source.name}' to '{type_.name}'", "go through an integer")
        if isinstance(value, Const):
            return Const(type_, _cast_data(frame, value, type_, span))
        if type_.is_comptime_only:
            fail(span, f"expected a comptime-known value to convert to '{type_.name}'")
        return _cast_runtime(frame, value, type_, span)
    return coerce(frame, value, type_, span)


def _castable(type_: t.Type) -> bool:
    return t.is_numeric(type_) or type_ == t.BOOL or isinstance(type_, t.EnumType)


def _cast_data(frame: Frame, value: Const, type_: t.Type, span: ast.Span) -> Any:
    data = value.data
    if type_ == t.BOOL:
        return data != 0
    if t.is_float(type_):
        number = float(data) if abs(data) < 1e308 or isinstance(data, float) else math.copysign(math.inf, data)
        return _rounded(frame, number, type_, span) if isinstance(type_, t.FloatType) else number
    if isinstance(data, float):
        if not math.isfinite(data):
            fail(span, f"cannot convert {data} to '{type_.name}'")
        data = math.trunc(data)
        target = type_.tag if isinstance(type_, t.EnumType) else type_
        if isinstance(target, t.IntType):
            return min(max(data, target.low), target.high)
        return data
    data = int(data)
    match type_:
        case t.EnumType():
            if type_.member_name(data) is None:
                fail(span, f"{data} is not a value of enum '{type_.name}'")
            return data
        case t.IntType():
            if value.type == t.COMPTIME_INT and not type_.fits(data):
                fail(
                    span,
                    f"value {data} does not fit in type '{type_.name}'",
                    f"its range is {type_.low} to {type_.high}",
                )
            return type_.wrap(data)
    return data


def _cast_runtime(frame: Frame, value: Value, type_: t.Type, span: ast.Span) -> Value:
    from fabrica_bench.csl.sema.lower import check_runtime_type, operand

    check_runtime_type(frame, type_, span)
    source, target = t.scalar_type(value.type), t.scalar_type(type_)
    assert source is not None
    assert target is not None
    code = frame.code(span)
    dst = code.register(target)
    code.emit(ir.Cast(0, dst, target, source, operand(frame, value, span)))
    return Rt(type_, dst)
