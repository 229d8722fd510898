"""Builtins that any code uses: assertions, imports, arrays, strings, fields, ranges, `@__intrinsic`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.registry import UNBOUNDED, Call, builtin
from fabrica_bench.csl.sema import access, components, limits, places
from fabrica_bench.csl.sema.conditions import Condition, source_text
from fabrica_bench.csl.sema.dispatch import place
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.exprs import charge, runtime_array
from fabrica_bench.csl.sema.frame import Frame
from fabrica_bench.csl.sema.loops import range_parts
from fabrica_bench.csl.sema.modules import import_module as make_instance
from fabrica_bench.csl.values import VOID_VALUE, Const, Value, bool_value, copy_data, int_value, zero_data

if TYPE_CHECKING:
    from collections.abc import Mapping

# ------------------------------------------------------------------------------------------------ assertions


@builtin("assert", args=1)
def runtime_assert(call: Call) -> Value:
    node = call.node.args[0]
    condition = Condition(call.frame, node)
    if isinstance(condition.value, Const):
        if condition.value.data:
            return VOID_VALUE
        if call.frame.comptime:
            call.fail(f"assertion failed: {source_text(node)}")
    operand = call.frame.operand(condition.value, node.span)
    call.emit(ir.Intrinsic(0, None, "assert", (operand,), source_text(node), condition.shown))
    return VOID_VALUE


@builtin("comptime_assert", args=(1, 2))
def comptime_assert(call: Call) -> Value:
    condition = call.const(0, t.BOOL)
    if condition.type != t.BOOL:
        call.fail(f"expected type 'bool', got: '{condition.type.name}'", 0)
    if not condition.data:
        message = call.string(1) if call.count == 2 else source_text(call.node.args[0])
        call.fail(f"comptime_assert failed: {message}")
    return VOID_VALUE


@builtin("comptime_print", args=(0, UNBOUNDED))
def comptime_print(call: Call) -> Value:
    parts = [show(call.const(index)) for index in range(call.count)]
    call.frame.unit.session.note(call.span, " ".join(parts))
    return VOID_VALUE


def show(value: Const) -> str:
    """A comptime value as text, for `@comptime_print` and messages."""
    data, type_ = value.data, value.type
    match type_:
        case t.ArrayType():
            return "{ " + ", ".join(show(Const(type_.element, item)) for item in data) + " }"
        case t.StructType(kind="struct"):
            parts = []
            for entry, item in zip(type_.fields, data, strict=True):
                text = show(Const(entry.type, item))
                parts.append(f".{entry.name} = {text}" if entry.name else text)
            return ".{ " + ", ".join(parts) + " }" if parts else ".{}"
        case t.EnumType():
            return f"{type_.name}.{type_.member_name(data) or data}"
    if type_ == t.COMPTIME_STRING:
        return bytes(data).decode("utf-8", "replace")
    if type_ == t.DIRECTION:
        return next(name for name, code in ir.DIRECTION_CODES.items() if code == data)
    if type_ == t.BOOL:
        return "true" if data else "false"
    return "{}" if type_ == t.VOID else str(data)


@builtin("is_comptime", args=0)
def is_comptime(call: Call) -> Value:
    return bool_value(call.frame.comptime)


@builtin("is_arch", args=1)
def is_arch(call: Call) -> Value:
    return bool_value(call.string(0) == call.frame.unit.session.arch)


# --------------------------------------------------------------------------------------------------- modules


@builtin("import_module", args=(1, 2))
def import_module(call: Call) -> Value:
    frame = call.frame
    if not frame.decl_name:
        call.fail("@import_module must be the value of a global constant", hint='const m = @import_module("...");')
    spelled = call.string(0)
    params: Mapping[str, Const] = {}
    if call.count == 2:
        params = struct_values(call.const(1), call.arg_span(1))
    path = frame.unit.session.find_import(spelled, call.span.file, call.arg_span(0))
    return Const(t.MODULE, make_instance(frame, path, params, call.span))


def struct_values(value: Const, span: ast.Span) -> dict[str, Const]:
    """The fields of a comptime struct by name."""
    if not isinstance(value.type, t.StructType) or value.type.kind != "struct":
        fail(span, f"expected a struct, got: '{value.type.name}'", "write .{ .name = value }")
    found: dict[str, Const] = {}
    for entry, data in zip(value.type.fields, value.data, strict=True):
        if entry.name is None:
            fail(span, "expected a struct with named fields", "write .{ .name = value }")
        found[entry.name] = Const(entry.type, data)
    return found


@builtin("concat_structs", args=2)
def concat_structs(call: Call) -> Value:
    a, b = call.const(0), call.const(1)
    for index, value in enumerate((a, b)):
        if not isinstance(value.type, t.StructType):
            call.fail(f"expected a struct, got: '{value.type.name}'", index)
    assert isinstance(a.type, t.StructType)
    assert isinstance(b.type, t.StructType)
    fields = (*a.type.fields, *b.type.fields)
    names = [entry.name for entry in fields if entry.name is not None]
    if names and len(names) != len(fields):
        call.fail("both structs must have named fields, or both nameless ones")
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        call.fail(f"field '{min(twice)}' is in both structs")
    joined = t.StructType("struct", "auto", fields)
    limits.check_size(joined, call.span)
    return Const(joined, [*a.data, *b.data])


# ---------------------------------------------------------------------------------------------------- arrays


@builtin("zeros", args=1)
def zeros(call: Call) -> Value:
    type_ = _array_type(call)
    if not isinstance(type_.element, t.IntType | t.FloatType):
        call.fail(f"@zeros needs numeric elements, got: '{type_.element.name}'", 0, "use @constants")
    return Const(type_, zero_data(type_))


@builtin("constants", args=2)
def constants(call: Call) -> Value:
    type_ = _array_type(call)
    value = call.typed(1, type_.element)
    if isinstance(value, Const):
        return Const(type_, [copy_data(value.data) for _ in range(type_.count)])
    return runtime_array(call.frame, type_, [value] * type_.count, call.span)


def _array_type(call: Call) -> t.ArrayType:
    type_ = call.type(0)
    if not isinstance(type_, t.ArrayType):
        call.fail(f"expected an array type, got: '{type_.name}'", 0, "write [N]T")
    charge(call.frame, type_, call.arg_span(0))
    return type_


# --------------------------------------------------------------------------------------------------- strings


@builtin("strlen", args=1)
def strlen(call: Call) -> Value:
    return int_value(len(_bytes(call, 0)))


@builtin("strcat", args=(0, UNBOUNDED))
def strcat(call: Call) -> Value:
    parts = [_bytes(call, index) for index in range(call.count)]
    length = sum(map(len, parts))
    if length > limits.STRING_BYTES:
        call.fail(f"a string of {length} bytes is too long", hint=f"the limit is {limits.STRING_BYTES}")
    call.frame.unit.session.step(call.span, limits.bulk_steps(length))
    return Const(t.COMPTIME_STRING, b"".join(parts))


@builtin("get_array", args=1)
def get_array(call: Call) -> Value:
    data = _bytes(call, 0)
    return Const(t.ArrayType((len(data),), t.U8), list(data))


@builtin("get_string_from_byte", args=1)
def get_string_from_byte(call: Call) -> Value:
    number = call.integer(0)
    if not 0 <= number <= 255:
        call.fail(f"{number} is not a byte", 0)
    return Const(t.COMPTIME_STRING, bytes([number]))


def _bytes(call: Call, index: int) -> bytes:
    value = call.const(index)
    if value.type != t.COMPTIME_STRING:
        call.fail(f"expected type 'comptime_string', got: '{value.type.name}'", index)
    return bytes(value.data)


# ---------------------------------------------------------------------------------------------------- fields


@place(ast.BuiltinCall)
def builtin_place(frame: Frame, node: ast.BuiltinCall) -> places.Place:
    """`@field(s, "name")` is a location, any other builtin a value."""
    return field_target(frame, node) if node.name == "field" else places.ValuePlace(frame.expr(node))


def field_target(frame: Frame, node: ast.BuiltinCall) -> places.Place:
    """The place `@field(s, "name")`."""
    if len(node.args) != 2:
        fail(node.span, f"@field takes 2 arguments, got {len(node.args)}")
    name = Call(frame, node).string(1)
    return components.field_of(frame, places.place_of(frame, node.args[0]), name, node.args[1].span)


@builtin("field", args=2)
def field(call: Call) -> Value:
    return access.load(call.frame, field_target(call.frame, call.node), call.span)


@builtin("has_field", args=2)
def has_field(call: Call) -> Value:
    name = call.string(1)
    type_ = call.frame.type_of(call.node.args[0])
    if type_ == t.MODULE:
        module = call.const(0).data
        return bool_value(name in module.entries)
    if not isinstance(type_, t.StructType):
        call.fail(f"expected a struct, got: '{type_.name}'", 0)
    return bool_value(name in type_.index)


# ---------------------------------------------------------------------------------------------------- ranges


@builtin("range", args=(2, 4))
def make_range(call: Call) -> Value:
    parts = range_parts(call.frame, call.node)
    bounds = [part.data for part in parts[1:] if isinstance(part, Const)]
    if len(bounds) != 3:
        call.fail("a run-time range can only be used directly in 'for'", hint="for (@range(T, n)) |i| { ... }")
    return Const(t.RangeType(parts.type), tuple(bounds))


@builtin("range_start", "range_stop", "range_step", args=1)
def range_bound(call: Call) -> Value:
    value = call.const(0)
    if not isinstance(value.type, t.RangeType):
        call.fail(f"expected a range, got: '{value.type.name}'", 0)
    position = ("range_start", "range_stop", "range_step").index(call.name)
    return Const(value.type.element, value.data[position])


# ------------------------------------------------------------------------------------------------ intrinsics


#: Intrinsics that top-level comptime code of a PE may use: they set what a PE starts with.
_SETTINGS = frozenset({"task_priority", "main_priority", "control_transform_mask", "message_open"})


@builtin("__intrinsic", args=4, contexts="TR")
def intrinsic(call: Call) -> Value:
    """`@__intrinsic(T, "name", .{ args }, "text")`, for the system libraries only."""
    if not call.span.file.is_system:
        call.fail("@__intrinsic is reserved for system libraries")
    result, name, text = call.type(0), call.string(1), call.string(3)
    if name not in ir.INTRINSICS:
        call.fail(f"unknown intrinsic '{name}'", 1)
    node = call.node.args[2]
    if not isinstance(node, ast.InitList):
        call.fail("the arguments of an intrinsic must be a tuple literal", 2)
    operands = []
    for init in node.inits:
        operands.append(call.frame.operand(call.frame.expr(init.value), init.value.span))
    if call.frame.comptime:
        return _setting(call, name, operands)
    return call.intrinsic(name, tuple(operands), result, text)


def _setting(call: Call, name: str, operands: list[ir.Operand]) -> Value:
    """An intrinsic at the top level of a PE program: part of the state that the PE starts with."""
    if name not in _SETTINGS:
        call.fail("this is only possible at run time", hint="call it in a function or task")
    values = tuple(operand.value for operand in operands if isinstance(operand, ir.Imm))
    numbers = tuple(value for value in values if isinstance(value, int))
    assert len(numbers) == len(operands), "settings have comptime-known numbers"
    call.frame.unit.pe(call.span).settings.append((name, numbers))
    return VOID_VALUE
