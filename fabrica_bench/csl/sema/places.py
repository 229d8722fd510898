"""Locations: what can be assigned, indexed, or have its address taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema import lower
from fabrica_bench.csl.sema.dispatch import PLACES, place
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.names import predeclared, undeclared
from fabrica_bench.csl.values import (
    Agg,
    Binding,
    Cell,
    Const,
    GlobalVar,
    MemVar,
    Ref,
    RegVar,
    Rt,
    UnionData,
    Value,
    copy_data,
    field_value,
)

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame
    from fabrica_bench.csl.sema.modules import GlobalEntry, ModuleInstance


#: Bytes of memory that pointers reach.
PE_MEMORY = 48 * 1024


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """Not a location: a value that is indexed or whose field is read."""

    value: Value

    @property
    def type(self) -> t.Type:
        return self.value.type


@dataclass(frozen=True, slots=True)
class CellPlace:
    """A comptime variable, or a part of one (`path`: list positions)."""

    cell: Cell
    path: tuple[int, ...]
    type: t.Type


@dataclass(frozen=True, slots=True)
class RegPlace:
    """A local in a register."""

    variable: RegVar

    @property
    def type(self) -> t.Type:
        return self.variable.type


@dataclass(frozen=True, slots=True)
class MemPlace:
    """Memory at `base + offset`."""

    type: t.Type
    base: ir.Operand
    offset: int = 0
    is_const: bool = False


@dataclass(frozen=True, slots=True)
class GlobalPlace:
    """A global variable, or a part of it at a known offset."""

    type: t.Type
    variable: GlobalVar
    offset: int = 0
    is_const: bool = False


@dataclass(frozen=True, slots=True)
class ConstPlace:
    """A global constant that gets an address only if it needs one."""

    module: ModuleInstance
    entry: GlobalEntry
    value: Const

    @property
    def type(self) -> t.Type:
        return self.value.type


@dataclass(frozen=True, slots=True)
class PackedPlace:
    """A field of a packed struct: bits `shift..` of the place that holds the whole."""

    whole: Place
    type: t.Type
    shift: int


Place = ValuePlace | CellPlace | RegPlace | MemPlace | GlobalPlace | ConstPlace | PackedPlace


def place_of(frame: Frame, node: ast.Expr) -> Place:
    """The location an expression names; any other expression is a `ValuePlace`."""
    handler = PLACES.get(type(node))
    return handler(frame, node) if handler is not None else ValuePlace(frame.expr(node))


def binding_place(binding: Binding) -> Place:
    """The place of a local name."""
    match binding:
        case Cell():
            return CellPlace(binding, (), binding.type)
        case RegVar():
            return RegPlace(binding)
        case MemVar():
            return MemPlace(binding.type, binding.address, 0, binding.is_const)
        case GlobalVar():
            return GlobalPlace(binding.type, binding, 0, binding.is_const)
    return ValuePlace(binding)


def global_place(module: ModuleInstance, entry: GlobalEntry) -> Place:
    """The place of a global."""
    if entry.variable is not None:
        return GlobalPlace(entry.variable.type, entry.variable, 0, entry.variable.is_const)
    assert entry.value is not None
    if isinstance(entry.decl, ast.VarDecl) and not entry.value.type.is_comptime_only:
        return ConstPlace(module, entry, entry.value)
    return ValuePlace(entry.value)


def find_name(frame: Frame, name: str, span: ast.Span) -> Place:
    """The place of an identifier."""
    local = frame.scope.find(name)
    if local is not None:
        return binding_place(local)
    entry = frame.module.find(name)
    if entry is not None:
        return global_place(frame.module, entry)
    known = predeclared(name)
    if known is None:
        undeclared(frame, name, span)
    return ValuePlace(known)


@place(ast.Ident)
def ident_place(frame: Frame, node: ast.Ident) -> Place:
    return find_name(frame, node.name, node.span)


# ------------------------------------------------------------------------------------------------ components


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
            fail(span, f"module '{module.source.path}' has no member '{name}'")
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
        return _read_path(place_.cell.data, place_.path)
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
        if not 0 <= pointer.data <= PE_MEMORY - t.size_of(type_):
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


# ---------------------------------------------------------------------------------------------- load, store


def _read_path(data: Any, path: tuple[int, ...]) -> Any:
    for position in path:
        data = data[position]
    return data


def load(frame: Frame, place_: Place, span: ast.Span) -> Value:
    """The value at a place."""
    match place_:
        case ValuePlace(value) | ConstPlace(value=value):
            return value
        case CellPlace(cell, path, type_):
            return Const(type_, copy_data(_read_path(cell.data, path)))
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
        fail(span, "unable to evaluate at comptime: the value is only known at run time")


def _load_global(frame: Frame, place_: GlobalPlace, span: ast.Span) -> Value:
    variable = place_.variable
    if variable.is_const and not variable.is_extern:
        found = _part_of(variable.type, variable.init, place_.offset, place_.type)
        if found is not None:
            return found
    if frame.comptime:
        fail(span, f"unable to evaluate at comptime: variable '{variable.name}' is not a constant")
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
    holder = _read_path(cell.data, path[:-1])
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
            return Const(t.PointerType(value.type, True), value.data)
        case ValuePlace(Agg() | Rt()) if not isinstance(place_.type, t.DsdType):
            fail(span, "the address of a temporary can't be taken", "store it in a variable first")
        case ValuePlace(Const() as value) if t.size_of(value.type) and not value.type.is_comptime_only:
            return Const(t.PointerType(value.type, True), Ref(frame.unit.constant(value.type, value.data)))
    fail(span, f"the address of a value of type '{place_.type.name}' can't be taken")
