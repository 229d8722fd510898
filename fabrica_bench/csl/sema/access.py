"""Reading, writing and taking the address of locations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema import limits, lower
from fabrica_bench.csl.sema.coerce import check_function_address
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.places import (
    CellPlace,
    ConstPlace,
    GlobalPlace,
    MemPlace,
    PackedPlace,
    Place,
    RegPlace,
    ValuePlace,
)
from fabrica_bench.csl.values import Agg, Cell, Const, Ref, Rt, Value, copy_data

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame

KNOWN_BEFORE = "declare it with 'const' or 'param' if its value is known before the program runs"


def read_path(data: Any, path: tuple[int, ...]) -> Any:
    """The part of comptime data at a path of list positions."""
    for position in path:
        data = data[position]
    return data


def load(frame: Frame, place_: Place, span: ast.Span) -> Value:
    """The value at a place."""
    if isinstance(place_, CellPlace):  # what comptime loops mostly ask
        if isinstance(place_.type, t.ArrayType | t.StructType):
            frame.unit.session.step(span, limits.bulk_steps(t.leaf_count(place_.type)))
        return Const(place_.type, copy_data(read_path(place_.cell.data, place_.path)))
    match place_:
        case ValuePlace(value) | ConstPlace(value=value):
            return value
        case RegPlace(variable):
            _need_runtime(frame, span)
            return Rt(variable.type, variable.reg)
        case GlobalPlace():
            return _load_global(frame, place_, span)
        case MemPlace(type_, base, offset):
            _need_runtime(frame, span)
            return _load_memory(frame, type_, base, offset, span)
        case PackedPlace():
            return _load_packed(frame, place_, span)


def _need_runtime(frame: Frame, span: ast.Span) -> None:
    if frame.comptime:
        fail(span, "unable to evaluate at comptime: the value is only known at run time", KNOWN_BEFORE)


def _load_global(frame: Frame, place_: GlobalPlace, span: ast.Span) -> Value:
    variable = place_.variable
    if variable.is_const and not variable.is_extern:
        found = _part_of(variable.type, variable.init, place_.offset, place_.type)
        if found is not None:
            return found
    if frame.comptime:
        message = f"unable to evaluate at comptime: variable '{variable.name}' is not a constant"
        fail(span, message, KNOWN_BEFORE)
    variable.is_runtime_used = True
    return _load_memory(frame, place_.type, ir.Sym(variable.name), place_.offset, span)


def _part_of(whole: t.Type, data: Any, offset: int, type_: t.Type) -> Const | None:
    """The part of comptime data that lies at a byte offset; None if nothing of that type starts there."""
    while True:
        if offset == 0 and whole == type_:
            return Const(type_, data)
        if isinstance(whole, t.ArrayType) and data is not None:
            size = t.size_of(whole.element)
            position, offset = divmod(offset, size) if size else (0, offset)
            if not 0 <= position < whole.count:
                return None
            whole, data = whole.element, data[position]
        elif isinstance(whole, t.StructType) and whole.kind == "struct" and whole.layout != "packed" and data:
            inside = [k for k, at in enumerate(whole.offsets) if at <= offset < at + t.size_of(whole.fields[k].type)]
            if not inside:
                return None
            offset -= whole.offsets[inside[0]]
            whole, data = whole.fields[inside[0]].type, data[inside[0]]
        else:
            return None


def _load_memory(frame: Frame, type_: t.Type, base: ir.Operand, offset: int, span: ast.Span) -> Value:
    if type_ == t.VOID:
        return Const(t.VOID, None)
    lower.check_runtime_type(frame, type_, span)
    scalar = t.scalar_type(type_)
    if scalar is None:
        return Rt(type_, lower.advance(frame, base, offset, span))
    code = frame.code(span)
    dst = code.register(scalar)
    code.emit(ir.Load(0, dst, scalar, base, offset))
    return Rt(type_, dst)


def store(frame: Frame, place_: Place, value: Value, span: ast.Span) -> None:
    """Assign a value of exactly the place's type."""
    match place_:
        case CellPlace(cell, path):
            _store_cell(frame, cell, path, value, span)
        case RegPlace(variable):
            code = frame.code(span)
            source = lower.operand(frame, value, span)
            frame.code(span)
            code.emit(ir.Move(0, variable.reg, source))
        case GlobalPlace(type_, variable, offset, is_const):
            if is_const:
                fail(span, "cannot assign to a constant")
            if frame.comptime:
                fail(span, f"global variable '{variable.name}' can't be written at comptime")
            variable.is_runtime_used = True
            lower.store(frame, ir.Sym(variable.name), offset, type_, value, span)
        case MemPlace(type_, base, offset, is_const):
            if is_const:
                fail(span, "cannot assign to a constant")
            lower.store(frame, base, offset, type_, value, span)
        case PackedPlace():
            _store_packed(frame, place_, value, span)
        case _:
            fail(span, "cannot assign to a constant")


def _store_cell(frame: Frame, cell: Cell, path: tuple[int, ...], value: Value, span: ast.Span) -> None:
    if not isinstance(value, Const):
        fail(span, "a comptime variable can only be assigned a comptime-known value")
    if frame.depth != cell.depth:
        fail(span, "a comptime variable can't be assigned under run-time control flow")
    data = copy_data(value.data)
    if not path:
        cell.data = data
        return
    holder = read_path(cell.data, path[:-1])
    holder[path[-1]] = data


def _load_packed(frame: Frame, place_: PackedPlace, span: ast.Span) -> Value:
    whole = load(frame, place_.whole, span)
    width, backing = t.bit_width(place_.type), t.scalar_type(whole.type)
    assert width is not None
    assert backing is not None
    if isinstance(whole, Const):
        bits = lower.bits_of(whole.type, whole.data) or 0
        return Const(place_.type, lower.data_from_bits(place_.type, (bits >> place_.shift) & ((1 << width) - 1)))
    code = frame.code(span)
    moved = code.register(backing)
    code.emit(ir.Bin(0, moved, "shr", backing, lower.operand(frame, whole, span), ir.Imm(place_.shift)))
    raw_type = ir.int_type(width, False)
    raw = code.register(raw_type)
    code.emit(ir.Cast(0, raw, raw_type, backing, moved))
    scalar = t.scalar_type(place_.type)
    assert scalar is not None
    dst = code.register(scalar)
    code.emit(ir.Bitcast(0, dst, scalar, raw_type, raw))
    return Rt(place_.type, dst)


def _store_packed(frame: Frame, place_: PackedPlace, value: Value, span: ast.Span) -> None:
    whole = load(frame, place_.whole, span)
    width, backing, scalar = t.bit_width(place_.type), t.scalar_type(whole.type), t.scalar_type(place_.type)
    assert width is not None
    assert backing is not None
    assert scalar is not None
    mask = ((1 << width) - 1) << place_.shift
    code = frame.code(span)
    raw_type = ir.int_type(width, False)
    raw, wide, moved, kept, joined = (code.register(type_) for type_ in (raw_type, backing, backing, backing, backing))
    code.emit(ir.Bitcast(0, raw, raw_type, scalar, lower.operand(frame, value, span)))
    code.emit(ir.Cast(0, wide, backing, raw_type, raw))
    code.emit(ir.Bin(0, moved, "shl", backing, wide, ir.Imm(place_.shift)))
    keep = ir.Imm(((1 << backing.bits) - 1) & ~mask)
    code.emit(ir.Bin(0, kept, "and", backing, lower.operand(frame, whole, span), keep))
    code.emit(ir.Bin(0, joined, "or", backing, kept, moved))
    store(frame, place_.whole, Rt(whole.type, joined), span)


def pointer_to(frame: Frame, place_: Place, span: ast.Span) -> Value:
    """`&place`."""
    match place_:
        case ConstPlace():
            variable = place_.module.variable_of(place_.entry)
            return Const(t.PointerType(variable.type, True), Ref(variable))
        case GlobalPlace(type_, variable, offset, is_const):
            return Const(t.PointerType(type_, is_const), Ref(variable, offset))
        case MemPlace(type_, base, offset, is_const):
            return Rt(t.PointerType(type_, is_const), lower.advance(frame, base, offset, span))
        case CellPlace():
            fail(span, "the address of a comptime variable can't be taken")
        case PackedPlace():
            fail(span, "address of packed struct field is unsupported")
        case ValuePlace(Const() as value) if isinstance(value.type, t.FnType):
            check_function_address(value.data, span)
            return Const(t.PointerType(value.type, True), value.data)
        case ValuePlace(Agg() | Rt()) if not isinstance(place_.type, t.DsdType):
            fail(span, "the address of a temporary can't be taken", "store it in a variable first")
        case ValuePlace(Const() as value) if t.size_of(value.type) and not value.type.is_comptime_only:
            return Const(t.PointerType(value.type, True), Ref(frame.unit.constant(value.type, value.data)))
    fail(span, f"the address of a value of type '{place_.type.name}' can't be taken")
