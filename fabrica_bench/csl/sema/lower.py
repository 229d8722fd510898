"""From analysed values to IR operands and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ast, floats, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.values import Agg, Const, FifoRef, FnValue, GlobalVar, MemVar, Ref, Rt, UnionData, Value

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame

FP16_FORMATS = ("f16", "bf16", "cb16")
_NUMBERS = frozenset((int, float, bool))


def check_runtime_type(frame: Frame, type_: t.Type, span: ast.Span) -> None:
    """Refuse types that no run-time value of this program can have."""
    if isinstance(type_, t.FloatType) and type_.bits == 16 and type_ != frame.unit.session.fp16:
        selected = f"the 16-bit float of this program is '{frame.unit.session.fp16.name}' (--fp16-format, @fp16())"
        fail(span, f"variable of type '{type_.name}' must be comptime-known", selected)
    if type_.is_comptime_only:
        hint = "give it a type of fixed width" if type_ in (t.COMPTIME_INT, t.COMPTIME_FLOAT) else None
        fail(span, f"variable of type '{type_.name}' must be comptime-known", hint)
    if isinstance(type_, t.IntType) and type_.bits > 64:
        fail(span, f"run-time integers wider than 64 bits are not supported: '{type_.name}'")
    if isinstance(type_, t.ArrayType):
        check_runtime_type(frame, type_.element, span)


def operand(frame: Frame, value: Value, span: ast.Span) -> ir.Operand:
    """A scalar value as an operand."""
    if isinstance(value, Rt):
        return value.operand
    if isinstance(value, Agg):
        return _packed_operand(frame, value, span)
    check_runtime_type(frame, value.type, span)
    if t.scalar_type(value.type) is None:
        fail(span, f"expected a scalar value, got: '{value.type.name}'")
    return const_operand(frame, value, span)


def const_operand(frame: Frame, value: Const, span: ast.Span) -> ir.Operand:
    """A comptime-known scalar as an operand; functions pointed to are queued for lowering."""
    data = value.data
    if isinstance(data, Ref):
        data.root.is_runtime_used = True
        return ir.Sym(data.root.name, data.offset)
    if isinstance(data, FnValue):
        from fabrica_bench.csl.sema.calls import runtime_instance

        return ir.FnAddr(runtime_instance(frame.unit, data, span).name)
    if isinstance(data, ir.Dsd):
        mark_used(frame, data)
        return ir.Imm(data)
    if isinstance(value.type, t.StructType):
        return ir.Imm(pack_bits(value.type, data))
    return ir.Imm(int(data) if isinstance(data, bool) else data)


def mark_used(frame: Frame, dsd: ir.Dsd) -> None:
    """Note that run-time code reaches the memory of a descriptor."""
    if isinstance(dsd.base, ir.Sym):
        frame.unit.globals[dsd.base.name].is_runtime_used = True


def address(frame: Frame, value: Value, span: ast.Span) -> ir.Operand:
    """Address of memory that holds an array or struct value."""
    if isinstance(value, Rt):
        return value.operand
    check_runtime_type(frame, value.type, span)
    if isinstance(value, Const):
        variable = frame.unit.constant(value.type, value.data)
        variable.is_runtime_used = True
        return ir.Sym(variable.name)
    slot = frame_memory(frame, value.type, span)
    store(frame, slot, 0, value.type, value, span)
    return slot


def frame_memory(frame: Frame, type_: t.Type, span: ast.Span) -> ir.Reg:
    """Reserve frame memory for `type_`; returns a register with its address."""
    code = frame.code(span)
    dst = code.register(ir.U16)
    code.emit(ir.FrameAddr(0, dst, code.frame_slot(t.size_of(type_), t.align_of(type_))))
    return dst


def store(frame: Frame, base: ir.Operand, offset: int, type_: t.Type, value: Value, span: ast.Span) -> None:
    """Store a value of exactly `type_` at `base + offset`."""
    code = frame.code(span)
    if type_ == t.VOID:
        return
    scalar = t.scalar_type(type_)
    if scalar is not None:
        code.emit(ir.Store(0, scalar, base, operand(frame, value, span), offset))
        return
    if isinstance(value, Agg):
        for entry, at, part in zip(value.type.fields, value.type.offsets, value.fields, strict=True):
            store(frame, base, offset + at, entry.type, part, span)
        return
    size = t.size_of(type_)
    if size:
        source = address(frame, value, span)
        code.emit(ir.CopyMem(0, advance(frame, base, offset, span), source, size))


def advance(frame: Frame, base: ir.Operand, offset: int, span: ast.Span) -> ir.Operand:
    """`base + offset` as an address."""
    if offset == 0:
        return base
    if isinstance(base, ir.Sym):
        return ir.Sym(base.name, base.offset + offset)
    if isinstance(base, ir.Imm) and isinstance(base.value, int):
        return ir.Imm(base.value + offset)
    code = frame.code(span)
    dst = code.register(ir.U16)
    code.emit(ir.Bin(0, dst, "add", ir.U16, base, ir.Imm(offset & 0xFFFF)))
    return dst


def copy_to_register(frame: Frame, value: Value, span: ast.Span) -> Value:
    """The value itself, or a copy if it is a variable's register, which may be assigned later."""
    if isinstance(value, Agg):
        return Agg(value.type, tuple(copy_to_register(frame, part, span) for part in value.fields))
    if not isinstance(value, Rt):
        return value
    scalar = t.scalar_type(value.type)
    code = frame.code(span)
    if scalar is None:
        slot = frame_memory(frame, value.type, span)
        if t.size_of(value.type):
            code.emit(ir.CopyMem(0, slot, value.operand, t.size_of(value.type)))
        return Rt(value.type, slot)
    if isinstance(value.operand, ir.Reg) and value.operand.index in code.variables:
        dst = code.register(scalar)
        code.emit(ir.Move(0, dst, value.operand))
        return Rt(value.type, dst)
    return value


def bind_value(frame: Frame, name: str, value: Value, span: ast.Span) -> None:
    """Declare an immutable local: in frame memory if the function takes its address somewhere."""
    if isinstance(value, Rt) and t.scalar_type(value.type) and name in frame.activation.address_taken:
        slot = frame_memory(frame, value.type, span)
        store(frame, slot, 0, value.type, value, span)
        frame.declare(name, MemVar(value.type, slot, is_const=True), span)
    else:
        frame.declare(name, value, span)


# --------------------------------------------------------------------------------------------- bit images


def bits_of(type_: t.Type, data: Any) -> int | None:
    """Bit pattern of comptime-known data; None if the type has none or it is an unresolved address."""
    if isinstance(data, bool):
        return int(data)
    if isinstance(type_, t.FloatType):
        return floats.encode(type_.format, data)
    if isinstance(type_, t.StructType) and type_.layout == "packed":
        return pack_bits(type_, data)
    width = t.bit_width(type_)
    if width is None or not isinstance(data, int):
        return None
    return data & ((1 << width) - 1)


def data_from_bits(type_: t.Type, bits: int) -> Any:
    """Comptime data of `type_` with this bit pattern; None if the type has no bit pattern."""
    if type_ == t.BOOL:
        return bool(bits & 1)
    match type_:
        case t.IntType():
            return type_.wrap(bits)
        case t.FloatType():
            return floats.decode(type_.format, bits)
        case t.EnumType():
            return type_.tag.wrap(bits)
        case t.IdType() | t.PointerType():
            return bits & 0xFFFF
        case t.StructType(layout="packed"):
            parts = []
            for entry, at in zip(type_.fields, type_.bit_offsets, strict=True):
                width = t.bit_width(entry.type) or 0
                parts.append(data_from_bits(entry.type, (bits >> at) & ((1 << width) - 1)))
            return UnionData(0, parts[0]) if type_.kind == "union" else parts
    return None


def pack_bits(type_: t.StructType, data: Any) -> int:
    """Backing integer of a packed struct or union."""
    if isinstance(data, UnionData):
        return bits_of(type_.fields[data.active].type, data.data) or 0
    total = 0
    for entry, at, part in zip(type_.fields, type_.bit_offsets, data, strict=True):
        total |= (bits_of(entry.type, part) or 0) << at
    return total


def _packed_operand(frame: Frame, value: Agg, span: ast.Span) -> ir.Operand:
    """Backing integer of a packed struct literal with run-time fields."""
    backing = t.scalar_type(value.type)
    if backing is None:
        fail(span, f"expected a scalar value, got: '{value.type.name}'")
    code = frame.code(span)
    total: ir.Operand = ir.Imm(0)
    for entry, at, part in zip(value.type.fields, value.type.bit_offsets, value.fields, strict=True):
        scalar = t.scalar_type(entry.type)
        width = t.bit_width(entry.type)
        assert scalar is not None
        assert width is not None
        raw = code.register(ir.int_type(width, False))
        code.emit(ir.Bitcast(0, raw, ir.int_type(width, False), scalar, operand(frame, part, span)))
        wide, moved, joined = (code.register(backing) for _ in range(3))
        code.emit(ir.Cast(0, wide, backing, ir.int_type(width, False), raw))
        code.emit(ir.Bin(0, moved, "shl", backing, wide, ir.Imm(at)))
        code.emit(ir.Bin(0, joined, "or", backing, total, moved))
        total = joined
    return total


# ------------------------------------------------------------------------------------- initial memory images


class Relocation:
    """A 16-bit word of a global that holds an address: of a variable, or of a function."""

    __slots__ = ("offset", "target")

    def __init__(self, offset: int, target: ir.Sym | ir.FnAddr) -> None:
        self.offset = offset
        self.target = target


def memory_image(
    frame: Frame, variable: GlobalVar, span: ast.Span
) -> tuple[bytearray, list[Relocation], list[tuple[int, ir.Dsd]]]:
    """Initial bytes of a variable, the words that await addresses, and the descriptors that await a base."""
    image = bytearray(t.size_of(variable.type))
    relocations: list[Relocation] = []
    descriptors: list[tuple[int, ir.Dsd]] = []

    def encode(type_: t.Type, data: Any) -> bytes:
        bits = bits_of(type_, data)
        if bits is None:
            fail(span, f"a value of type '{type_.name}' can't be stored in memory")
        size = t.size_of(type_)
        return (bits & ((1 << (8 * size)) - 1)).to_bytes(size, "little")

    def place_array(type_: t.ArrayType, data: list[Any], at: int) -> None:
        size = t.size_of(type_.element)
        distinct = dict(zip(map(id, data), data, strict=True))
        if {type(item) for item in distinct.values()} <= _NUMBERS and type_.element != t.VOID:
            # Arrays are large, and mostly of one number: each object is encoded once.
            encoded = {key: encode(type_.element, item) for key, item in distinct.items()}
            if len(encoded) == 1:
                content = next(iter(encoded.values())) * len(data)
            else:
                content = b"".join(map(encoded.__getitem__, map(id, data)))
            image[at : at + size * len(data)] = content
            return
        for position, item in enumerate(data):
            place(type_.element, item, at + position * size)

    def place(type_: t.Type, data: Any, at: int) -> None:
        if isinstance(type_, t.ArrayType):
            place_array(type_, data, at)
        elif isinstance(type_, t.StructType) and type_.layout != "packed":
            if isinstance(data, UnionData):
                place(type_.fields[data.active].type, data.data, at)
                return
            for entry, offset, item in zip(type_.fields, type_.offsets, data, strict=True):
                place(entry.type, item, at + offset)
        elif isinstance(data, Ref):
            data.root.is_runtime_used = True
            relocations.append(Relocation(at, ir.Sym(data.root.name, data.offset)))
        elif isinstance(data, FnValue):
            target = const_operand(frame, Const(type_, data), span)
            assert isinstance(target, ir.FnAddr)
            relocations.append(Relocation(at, target))
        elif isinstance(data, ir.Dsd):
            mark_used(frame, data)
            descriptors.append((at, data))
        elif isinstance(data, FifoRef):
            fail(span, "a FIFO can't be stored in memory")
        elif type_ != t.VOID:
            image[at : at + t.size_of(type_)] = encode(type_, data)

    if variable.init is not None:
        place(variable.type, variable.init, 0)
    return image, relocations, descriptors


def check_runtime_result(frame: Frame, type_: t.Type, span: ast.Span) -> None:
    """Refuse result types that a run-time function can't have."""
    if type_ != t.VOID:
        check_runtime_type(frame, type_, span)
