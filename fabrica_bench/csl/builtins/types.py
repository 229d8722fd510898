"""Builtins about types and conversions."""

from __future__ import annotations

from fabrica_bench.csl import ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.registry import Call, builtin
from fabrica_bench.csl.sema import lower
from fabrica_bench.csl.sema.coerce import cast
from fabrica_bench.csl.values import Const, Ref, Rt, Value, bool_value


def _type_value(type_: t.Type) -> Value:
    return Const(t.TYPE, type_)


@builtin("as", args=2)
def as_type(call: Call) -> Value:
    type_ = call.type(0)
    hint = type_ if not t.is_numeric(type_) else None
    return cast(call.frame, call.value(1, hint), type_, call.arg_span(1))


@builtin("bitcast", args=2)
def bitcast(call: Call) -> Value:
    type_, value = call.type(0), call.value(1)
    if value.type == t.COMPTIME_INT and isinstance(type_, t.FloatType | t.IntType):
        value = call.frame.coerce(value, t.IntType(type_.bits, False), call.arg_span(1))
    source_width, width = t.bit_width(value.type), t.bit_width(type_)
    for width_of, name in ((source_width, value.type.name), (width, type_.name)):
        if width_of is None:
            call.fail(f"type '{name}' has no bit pattern to cast", 1)
    if source_width != width:
        call.fail(f"cannot bitcast '{value.type.name}' ({source_width} bits) to '{type_.name}' ({width} bits)")
    if value.type == type_:
        return value
    if isinstance(value, Const) and not isinstance(value.data, Ref):
        bits = lower.bits_of(value.type, value.data)
        if bits is not None:
            return Const(type_, lower.data_from_bits(type_, bits))
    source, target = t.scalar_type(value.type), t.scalar_type(type_)
    assert source is not None
    assert target is not None
    lower.check_runtime_type(call.frame, type_, call.span)
    operand = call.frame.operand(value, call.arg_span(1))
    dst = call.frame.code(call.span).register(target)
    call.emit(ir.Bitcast(0, dst, target, source, operand))
    return Rt(type_, dst)


@builtin("ptrcast", args=2)
def ptrcast(call: Call) -> Value:
    if call.frame.comptime and not call.span.file.is_system:
        call.fail("@ptrcast is not allowed in comptime code; use it in run-time code")
    type_, value = call.type(0), call.value(1)
    if not isinstance(type_, t.PointerType):
        call.fail(f"expected a pointer type, got: '{type_.name}'", 0)
    if not isinstance(value.type, t.PointerType):
        call.fail(f"expected a pointer, got: '{value.type.name}'", 1)
    if value.type.is_const and not type_.is_const:
        call.fail(f"cannot coerce '{value.type.name}' to '{type_.name}'", 1)
    if isinstance(value, Const):
        return Const(type_, value.data)
    return Rt(type_, call.frame.operand(value, call.arg_span(1)))


@builtin("get_int", args=1)
def get_int(call: Call) -> Value:
    value = call.value(0)
    type_ = value.type
    if t.is_integer(type_):
        return value
    if isinstance(type_, t.EnumType):
        return cast(call.frame, value, type_.tag, call.arg_span(0))
    if isinstance(type_, t.IdType):
        return _retyped(value, t.U16)
    if isinstance(type_, t.DsrType) and isinstance(value, Const):
        return Const(t.U16, value.data.index)
    if type_ in (t.XDSR, t.SR) and isinstance(value, Const):
        return Const(t.U16, value.data)
    call.fail(f"@get_int needs an id, queue, color, enum or integer, got: '{type_.name}'", 0)


def _retyped(value: Value, type_: t.Type) -> Value:
    if isinstance(value, Const):
        return Const(type_, value.data)
    assert isinstance(value, Rt)
    return Rt(type_, value.operand)


@builtin("type_of", args=1)
def type_of(call: Call) -> Value:
    return _type_value(call.frame.type_of(call.node.args[0]))


@builtin("is_same_type", args=2)
def is_same_type(call: Call) -> Value:
    return bool_value(call.type(0) == call.type(1))


@builtin("fp16", args=0)
def fp16(call: Call) -> Value:
    return _type_value(call.frame.unit.session.fp16)


def _array(call: Call) -> t.ArrayType:
    type_ = call.type(0)
    if not isinstance(type_, t.ArrayType):
        call.fail(f"expected an array type, got: '{type_.name}'", 0)
    return type_


@builtin("dimensions", args=1)
def dimensions(call: Call) -> Value:
    dims = _array(call).dims
    return Const(t.ArrayType((len(dims),), t.U32), list(dims))


@builtin("element_count", args=1)
def element_count(call: Call) -> Value:
    return Const(t.U32, _array(call).count)


@builtin("element_type", args=1)
def element_type(call: Call) -> Value:
    return _type_value(_array(call).element)


@builtin("rank", args=1)
def rank(call: Call) -> Value:
    return Const(t.U16, len(_array(call).dims))
