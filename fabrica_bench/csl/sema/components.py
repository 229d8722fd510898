"""Parts of locations: fields, array elements, what a pointer points to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.registers import is_router_register
from fabrica_bench.csl.sema import lower
from fabrica_bench.csl.sema.access import load, read_path
from fabrica_bench.csl.sema.dispatch import place
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.places import (
    PE_MEMORY,
    CellPlace,
    ConstPlace,
    GlobalPlace,
    MemPlace,
    PackedPlace,
    Place,
    RegPlace,
    ValuePlace,
    global_place,
    place_of,
)
from fabrica_bench.csl.sema.spelling import did_you_mean
from fabrica_bench.csl.values import Const, Ref, Rt, UnionData, Value, field_value

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame
    from fabrica_bench.csl.sema.modules import ModuleInstance


@place(ast.FieldAccess)
def field_place(frame: Frame, node: ast.FieldAccess) -> Place:
    return field_of(frame, place_of(frame, node.base), node.name, node.name_span)


def field_of(frame: Frame, base: Place, name: str, span: ast.Span) -> Place:
    """The place `base.name`."""
    type_ = base.type
    if isinstance(type_, t.PointerType) and isinstance(type_.pointee, t.StructType):
        base = deref_place(frame, load(frame, base, span), span)
        type_ = base.type
    if isinstance(base, ValuePlace | ConstPlace) and isinstance(base.value, Const):
        found = _const_member(base.value, name, span)
        if found is not None:
            return found
    if not isinstance(type_, t.StructType):
        fail(span, f"type '{type_.name}' has no field '{name}'")
    position = type_.index.get(name)
    if position is None:
        known = ", ".join(f"'{known}'" for known in type_.index)
        fail(span, f"no field named '{name}' in '{type_.name}'", f"its fields are {known}" if known else None)
    return component(frame, base, position, span)


def _const_member(value: Const, name: str, span: ast.Span) -> Place | None:
    """Members of modules and enum types."""
    if value.type == t.MODULE:
        module: ModuleInstance = value.data
        entry = module.find(name)
        if entry is None:
            hint = did_you_mean(name, module.entries)
            fail(span, f"module '{module.source.path}' has no member '{name}'", hint)
        return global_place(module, entry)
    if value.type == t.TYPE and isinstance(value.data, t.EnumType):
        if name not in value.data.values:
            known = ", ".join(member for member, _ in value.data.members)
            fail(span, f"enum '{value.data.name}' has no member '{name}'", f"its members are {known}")
        return ValuePlace(Const(value.data, value.data.values[name]))
    return None


def component(frame: Frame, base: Place, position: int, span: ast.Span) -> Place:
    """Field `position` of a struct or union place."""
    type_ = base.type
    assert isinstance(type_, t.StructType)
    entry = type_.fields[position]
    if type_.kind == "union":
        return _union_component(frame, base, position, span)
    if isinstance(base, CellPlace):
        return CellPlace(base.cell, (*base.path, position), entry.type)
    if isinstance(base, ConstPlace):
        return ValuePlace(Const(entry.type, base.value.data[position]))
    if isinstance(base, ValuePlace):
        part = field_value(base.value, position)
        if part is not None:
            return ValuePlace(part)
    if type_.layout == "packed":
        return PackedPlace(base, entry.type, type_.bit_offsets[position])
    if entry.type == t.VOID:
        return ValuePlace(Const(t.VOID, None))
    return _at_offset(frame, base, entry.type, type_.offsets[position], span)


def _union_component(frame: Frame, base: Place, position: int, span: ast.Span) -> Place:
    type_ = base.type
    assert isinstance(type_, t.StructType)
    entry = type_.fields[position]
    whole = _known_data(base)
    if isinstance(whole, UnionData):
        if whole.active == position:
            return ValuePlace(Const(entry.type, whole.data))
        if type_.layout == "auto":
            active = type_.fields[whole.active].name
            fail(span, f"field '{entry.name}' of the union is not active; '{active}' is")
        bits = lower.bits_of(type_.fields[whole.active].type, whole.data)
        data = None if bits is None else lower.data_from_bits(entry.type, bits)
        if data is None:
            fail(span, f"reading '{entry.name}' of a union as another type is not supported at comptime")
        return ValuePlace(Const(entry.type, data))
    if type_.layout == "packed":
        return PackedPlace(base, entry.type, 0)
    return _at_offset(frame, base, entry.type, 0, span)


def _known_data(place_: Place) -> Any:
    if isinstance(place_, ConstPlace):
        return place_.value.data
    if isinstance(place_, ValuePlace) and isinstance(place_.value, Const):
        return place_.value.data
    if isinstance(place_, CellPlace):
        return read_path(place_.cell.data, place_.path)
    return None


def _at_offset(frame: Frame, base: Place, type_: t.Type, offset: int, span: ast.Span) -> Place:
    """Part of a place in memory, at a known byte offset."""
    match base:
        case GlobalPlace():
            return GlobalPlace(type_, base.variable, base.offset + offset, base.is_const)
        case ConstPlace():
            variable = base.module.variable_of(base.entry)
            return GlobalPlace(type_, variable, offset, True)
        case MemPlace():
            return MemPlace(type_, base.base, base.offset + offset, base.is_const)
        case ValuePlace(Rt() as value):
            return MemPlace(type_, value.operand, offset, True)
        case ValuePlace(value):
            return MemPlace(type_, lower.address(frame, value, span), offset, True)
        case RegPlace():
            fail(span, f"a part of '{base.type.name}' has no address")
    raise AssertionError(base)


@place(ast.Deref)
def deref(frame: Frame, node: ast.Deref) -> Place:
    return deref_place(frame, frame.expr(node.base), node.span)


def deref_place(frame: Frame, pointer: Value, span: ast.Span) -> Place:
    """The place `pointer.*`."""
    type_ = pointer.type
    if not isinstance(type_, t.PointerType):
        fail(span, f"cannot dereference a value of type '{type_.name}'")
    if type_.is_many:
        fail(
            span,
            f"cannot dereference '{type_.name}': a pointer to an unknown number of elements",
            "index it: pointer[0]",
        )
    if isinstance(type_.pointee, t.FnType):
        return ValuePlace(Const(type_.pointee, pointer.data) if isinstance(pointer, Const) else pointer)
    if type_.pointee == t.ANYOPAQUE:
        fail(span, "cannot dereference '*anyopaque'", "cast it with @ptrcast first")
    return pointee_place(frame, pointer, type_.pointee, type_.is_const, span)


def pointee_place(frame: Frame, pointer: Value, type_: t.Type, is_const: bool, span: ast.Span) -> Place:
    """Memory of `type_` that a pointer value points to."""
    if isinstance(pointer, Const):
        if isinstance(pointer.data, Ref):
            return GlobalPlace(type_, pointer.data.root, pointer.data.offset, is_const)
        size = t.size_of(type_)
        is_register = frame.unit.session.arch == "wse2" and is_router_register(pointer.data, size)
        if not 0 <= pointer.data <= PE_MEMORY - size and not is_register:
            hint = "registers are reached with @get_config and @set_config"
            fail(span, f"address {pointer.data:#x} is outside of the PE's memory", hint)
        return MemPlace(type_, ir.Imm(pointer.data), 0, is_const)
    return MemPlace(type_, lower.operand(frame, pointer, span), 0, is_const)


@place(ast.Index)
def index_place(frame: Frame, node: ast.Index) -> Place:
    base = place_of(frame, node.base)
    type_ = base.type
    if isinstance(type_, t.StructType) and type_.is_anonymous:
        return _tuple_element(frame, base, type_, node)
    if isinstance(type_, t.PointerType) and type_.is_many:
        pointer = load(frame, base, node.base.span)
        if len(node.indices) != 1:
            fail(node.span, f"'{type_.name}' takes 1 index, got {len(node.indices)}")
        start = pointee_place(frame, pointer, type_.pointee, type_.is_const, node.span)
        return _element(frame, start, type_.pointee, _index(frame, node.indices[0]), node.span)
    if isinstance(type_, t.PointerType) and isinstance(type_.pointee, t.ArrayType):
        # Documentation writes p.*[i]; the shorter p[i] means the same.
        base = deref_place(frame, load(frame, base, node.base.span), node.base.span)
        type_ = base.type
    if not isinstance(type_, t.ArrayType):
        fail(node.span, f"cannot index a value of type '{type_.name}'")
    if len(node.indices) != len(type_.dims):
        fail(node.span, f"'{type_.name}' takes {len(type_.dims)} index(es), got {len(node.indices)}")
    flat = _flat_index(frame, type_, node)
    return element_place(frame, base, type_, flat, node.span)


def _tuple_element(frame: Frame, base: Place, type_: t.StructType, node: ast.Index) -> Place:
    position = frame.comptime_expr(node.indices[0])
    if len(node.indices) != 1 or not t.is_integer(position.type):
        fail(node.span, "a tuple takes one comptime-known index")
    if not 0 <= position.data < len(type_.fields):
        fail(node.span, f"index {position.data} is out of bounds: the tuple has {len(type_.fields)} fields")
    return component(frame, base, position.data, node.span)


def _index(frame: Frame, node: ast.Expr) -> int | ir.Operand:
    value = frame.expr(node)
    if not t.is_integer(value.type):
        fail(node.span, f"an index must be an integer, got: '{value.type.name}'")
    return (
        value.data if isinstance(value, Const) else lower.operand(frame, _as_word(frame, value, node.span), node.span)
    )


def _as_word(frame: Frame, value: Value, span: ast.Span) -> Value:
    """An index as u16: addresses are 16 bits, so only the low bits of a wider index matter."""
    if isinstance(value.type, t.IntType) and value.type.bits == 16:
        return value
    from fabrica_bench.csl.sema.coerce import cast

    return cast(frame, value, t.I16 if isinstance(value.type, t.IntType) and value.type.signed else t.U16, span)


def _flat_index(frame: Frame, type_: t.ArrayType, node: ast.Index) -> int | ir.Operand:
    flat: int | ir.Operand = 0
    for extent, index_node in zip(type_.dims, node.indices, strict=True):
        index = _index(frame, index_node)
        if isinstance(index, int) and not 0 <= index < extent:
            fail(index_node.span, f"index {index} is out of bounds: the extent is {extent}")
        flat = _add(frame, _scale(frame, flat, extent, node.span), index, node.span)
    return flat


def _scale(frame: Frame, value: int | ir.Operand, factor: int, span: ast.Span) -> int | ir.Operand:
    if isinstance(value, int):
        return value * factor
    if factor == 1:
        return value
    return _emit(frame, "mul", value, ir.Imm(factor & 0xFFFF), span)


def _add(frame: Frame, a: int | ir.Operand, b: int | ir.Operand, span: ast.Span) -> int | ir.Operand:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0:
        return b
    if b == 0:
        return a
    left = ir.Imm(a & 0xFFFF) if isinstance(a, int) else a
    right = ir.Imm(b & 0xFFFF) if isinstance(b, int) else b
    return _emit(frame, "add", left, right, span)


def _emit(frame: Frame, op: ir.BinOp, a: ir.Operand, b: ir.Operand, span: ast.Span) -> ir.Reg:
    code = frame.code(span)
    dst = code.register(ir.U16)
    code.emit(ir.Bin(0, dst, op, ir.U16, a, b))
    return dst


def _element(frame: Frame, start: Place, type_: t.Type, index: int | ir.Operand, span: ast.Span) -> Place:
    """Element `index` of a run of elements that begins at `start`."""
    size = t.size_of(type_)
    if isinstance(index, int):
        return _at_offset(frame, start, type_, index * size, span)
    assert isinstance(start, MemPlace | GlobalPlace)
    delta = _scale(frame, index, size, span)
    assert not isinstance(delta, int)
    if isinstance(start, GlobalPlace):
        start.variable.is_runtime_used = True
        return MemPlace(
            type_, _emit(frame, "add", delta, ir.Sym(start.variable.name, start.offset), span), 0, start.is_const
        )
    return MemPlace(type_, _emit(frame, "add", start.base, delta, span), start.offset, start.is_const)


def element_place(frame: Frame, base: Place, type_: t.ArrayType, index: int | ir.Operand, span: ast.Span) -> Place:
    """Element `index` (row-major) of an array place."""
    if isinstance(index, int):
        if isinstance(base, CellPlace):
            return CellPlace(base.cell, (*base.path, index), type_.element)
        if isinstance(base, ConstPlace | ValuePlace) and isinstance(base.value, Const):
            return ValuePlace(Const(type_.element, base.value.data[index]))
    elif isinstance(base, CellPlace):
        base = ValuePlace(load(frame, base, span))
    start = _at_offset(frame, base, type_.element, 0, span)
    return _element(frame, start, type_.element, index, span)
