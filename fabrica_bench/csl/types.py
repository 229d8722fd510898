"""Static types of CSL.

Types are immutable values compared by structure, except that named structs, unions and enums also carry the place of
their definition (`site`). `Type.name` is the spelling used in messages. Sizes are bytes in PE memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Literal

from fabrica_bench.csl import ir


class Type:
    """Base of all types. `is_comptime_only`: no value of the type can exist at run time."""

    is_comptime_only = False

    @property
    def name(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class SimpleType(Type):
    """A type that its name says all about: `void`, `bool`, `comptime_int`, `type`, ..."""

    spelling: str

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, SimpleType) and self.spelling == other.spelling)

    @property
    def name(self) -> str:
        return self.spelling

    @property
    def is_comptime_only(self) -> bool:  # type: ignore[override]
        return self.spelling in _COMPTIME_ONLY


_COMPTIME_ONLY = {
    "comptime_int",
    "comptime_float",
    "comptime_string",
    "comptime_struct",
    "type",
    "imported_module",
    "xdsr",
    "sr",
}

VOID = SimpleType("void")
BOOL = SimpleType("bool")
COMPTIME_INT = SimpleType("comptime_int")
COMPTIME_FLOAT = SimpleType("comptime_float")
COMPTIME_STRING = SimpleType("comptime_string")
COMPTIME_STRUCT = SimpleType("comptime_struct")
TYPE = SimpleType("type")
MODULE = SimpleType("imported_module")
ANYOPAQUE = SimpleType("anyopaque")
XDSR = SimpleType("xdsr")
SR = SimpleType("sr")


@dataclass(frozen=True, repr=False)
class IntType(Type):
    bits: int
    signed: bool

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, IntType) and self.bits == other.bits and self.signed == other.signed)

    @property
    def name(self) -> str:
        return f"{'i' if self.signed else 'u'}{self.bits}"

    @cached_property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed and self.bits else 0

    @cached_property
    def high(self) -> int:
        return (1 << (self.bits - 1)) - 1 if self.signed and self.bits else (1 << self.bits) - 1

    def fits(self, value: int) -> bool:
        return self.low <= value <= self.high

    def wrap(self, value: int) -> int:
        """`value` reduced to the range of the type (two's complement)."""
        if self.low <= value <= self.high:
            return value
        value &= (1 << self.bits) - 1
        if self.signed and self.bits and value >> (self.bits - 1):
            value -= 1 << self.bits
        return value


I8, I16, I32, I64 = (IntType(bits, True) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (IntType(bits, False) for bits in (8, 16, 32, 64))


@dataclass(frozen=True, repr=False)
class FloatType(Type):
    format: Literal["f16", "bf16", "cb16", "f32"]

    @property
    def name(self) -> str:
        return self.format

    @property
    def bits(self) -> int:
        return 32 if self.format == "f32" else 16


F16, BF16, CB16, F32 = FloatType("f16"), FloatType("bf16"), FloatType("cb16"), FloatType("f32")


@dataclass(frozen=True, repr=False)
class IdType(Type):
    """A small number with a type of its own: colors, task ids, queues, directions. One 16-bit word at run time."""

    spelling: Literal[
        "color",
        "direction",
        "data_task_id",
        "local_task_id",
        "control_task_id",
        "input_queue",
        "output_queue",
        "ut_id",
    ]

    @property
    def name(self) -> str:
        return self.spelling


COLOR, DIRECTION = IdType("color"), IdType("direction")
DATA_TASK_ID, LOCAL_TASK_ID = IdType("data_task_id"), IdType("local_task_id")
CONTROL_TASK_ID = IdType("control_task_id")
INPUT_QUEUE, OUTPUT_QUEUE, UT_ID = IdType("input_queue"), IdType("output_queue"), IdType("ut_id")


@dataclass(frozen=True, repr=False)
class DsdType(Type):
    """A DSD. `element` is the element type of the tensor that a memory DSD was made for, where the analyser can tell:
    strides are counted in elements, but a DSD itself does not record their size. It is no part of the type's identity.
    """

    kind: ir.DsdKind
    element: Type | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return f"{self.kind}_dsd"


MEM1D, MEM4D, CIRCBUF = DsdType("mem1d"), DsdType("mem4d"), DsdType("circbuf")
FABIN, FABOUT = DsdType("fabin"), DsdType("fabout")


@dataclass(frozen=True, repr=False)
class DsrType(Type):
    """An explicit register: `dsr_dest`, `dsr_src0`, `dsr_src1`; `is_fifo` for the `dsr_fifo_*` forms."""

    file: ir.DsrFile
    is_fifo: bool = False
    is_comptime_only = True

    @property
    def name(self) -> str:
        return f"dsr_{'fifo_' if self.is_fifo else ''}{self.file}"


DSR_DEST, DSR_SRC0, DSR_SRC1 = DsrType("dest"), DsrType("src0"), DsrType("src1")
DSR_FIFO_DEST, DSR_FIFO_SRC1 = DsrType("dest", True), DsrType("src1", True)


@dataclass(frozen=True, repr=False)
class FifoType(Type):
    """Result of `@allocate_fifo`; a comptime-known constant."""

    element: Type
    is_comptime_only = True

    @property
    def name(self) -> str:
        return "fifo_dsd"


@dataclass(frozen=True, repr=False)
class RangeType(Type):
    element: Type

    @property
    def name(self) -> str:
        return f"range({self.element.name})"

    @property
    def is_comptime_only(self) -> bool:  # type: ignore[override]
        return self.element.is_comptime_only


@dataclass(frozen=True, repr=False)
class ArrayType(Type):
    """`[d0, d1, ...]T`, row-major."""

    dims: tuple[int, ...]
    element: Type

    @property
    def name(self) -> str:
        return f"[{', '.join(map(str, self.dims))}]{self.element.name}"

    @property
    def count(self) -> int:
        return prod(self.dims)

    @property
    def is_comptime_only(self) -> bool:  # type: ignore[override]
        return self.element.is_comptime_only


@dataclass(frozen=True, repr=False)
class PointerType(Type):
    """`*T` or, with `is_many`, `[*]T`."""

    pointee: Type
    is_const: bool = False
    is_many: bool = False

    @property
    def name(self) -> str:
        return f"{'[*]' if self.is_many else '*'}{'const ' if self.is_const else ''}{self.pointee.name}"


@dataclass(frozen=True, repr=False)
class FnType(Type):
    """Type of a function or task value. A parameter type is None where the parameter is generic."""

    kind: Literal["fn", "task"]
    params: tuple[Type | None, ...]
    result: Type | None
    is_comptime_only = True

    @property
    def name(self) -> str:
        params = ", ".join("anytype" if param is None else param.name for param in self.params)
        return f"{self.kind}({params}) {'anytype' if self.result is None else self.result.name}"


@dataclass(frozen=True, repr=False)
class Field:
    """A field; `name` is None in tuples."""

    name: str | None
    type: Type


@dataclass(frozen=True, repr=False)
class StructType(Type):
    """A struct or union. Anonymous structs and tuples have `site == 0` and are compared by their fields alone."""

    kind: Literal["struct", "union"]
    layout: Literal["auto", "extern", "packed"]
    fields: tuple[Field, ...]
    site: int = 0
    label: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.layout, self.fields, self.site))

    @property
    def is_anonymous(self) -> bool:
        return self.site == 0

    @property
    def is_tuple(self) -> bool:
        return self.is_anonymous and all(entry.name is None for entry in self.fields)

    @property
    def name(self) -> str:
        if self.label:
            return self.label
        prefix = "" if self.layout == "auto" else f"{self.layout} "
        inner = ", ".join(
            f"{entry.name}: {entry.type.name}" if entry.name else entry.type.name for entry in self.fields
        )
        return f"{prefix}{self.kind} {{ {inner} }}" if self.fields else f"{prefix}{self.kind} {{}}"

    @cached_property
    def leaves(self) -> int:
        """Values that are no aggregates, in all fields together."""
        return sum(leaf_count(entry.type) for entry in self.fields)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each named field."""
        return {entry.name: position for position, entry in enumerate(self.fields) if entry.name is not None}

    @cached_property
    def is_comptime_only(self) -> bool:  # type: ignore[override]
        return any(entry.type.is_comptime_only for entry in self.fields)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Byte offset of each field (unpacked layouts)."""
        if self.kind == "union":
            return (0,) * len(self.fields)
        offsets, at = [], 0
        for entry in self.fields:
            at = align_up(at, align_of(entry.type))
            offsets.append(at)
            at += size_of(entry.type)
        return tuple(offsets)

    @cached_property
    def bit_offsets(self) -> tuple[int, ...]:
        """Bit offset of each field of a packed layout, least significant first."""
        if self.kind == "union":
            return (0,) * len(self.fields)
        offsets, at = [], 0
        for entry in self.fields:
            offsets.append(at)
            at += bit_width(entry.type) or 0
        return tuple(offsets)

    @property
    def backing(self) -> IntType:
        """Integer that holds a packed struct or union."""
        widths = [bit_width(entry.type) or 0 for entry in self.fields]
        return IntType(max(widths, default=0) if self.kind == "union" else sum(widths), False)


EMPTY_STRUCT = StructType("struct", "auto", ())


@dataclass(frozen=True, repr=False)
class EnumType(Type):
    tag: IntType
    members: tuple[tuple[str, int], ...]
    site: int
    label: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        return self.label or f"enum({self.tag.name}) {{ {', '.join(name for name, _ in self.members)} }}"

    @cached_property
    def values(self) -> dict[str, int]:
        return dict(self.members)

    def member_name(self, value: int) -> str | None:
        return next((name for name, member in self.members if member == value), None)


def align_up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def scalar_type(type_: Type) -> ir.ScalarType | None:
    """Register type of a scalar; None for aggregates and comptime-only types."""
    match type_:
        case IntType(bits, signed):
            return ir.int_type(bits, signed)
        case FloatType(name):
            return {"f16": ir.F16, "bf16": ir.BF16, "cb16": ir.CB16, "f32": ir.F32}[name]
        case EnumType():
            return ir.int_type(type_.tag.bits, type_.tag.signed)
        case IdType() | PointerType():
            return ir.U16
        case DsdType():
            return ir.DSD
        case StructType(layout="packed"):
            return ir.int_type(type_.backing.bits, False)
    return ir.BOOL if type_ == BOOL else None


def size_of(type_: Type) -> int:
    """Bytes in PE memory. Types without a run-time representation take none."""
    scalar = scalar_type(type_)
    if scalar is not None:
        return scalar.size
    match type_:
        case ArrayType():
            return type_.count * size_of(type_.element)
        case StructType():
            ends = [at + size_of(entry.type) for at, entry in zip(type_.offsets, type_.fields, strict=True)]
            return align_up(max(ends, default=0), align_of(type_))
        case RangeType():
            return 3 * size_of(type_.element)
    return 0


def leaf_count(type_: Type) -> int:
    """Values that are no aggregates in a value of the type: what it takes to hold it at comptime."""
    if isinstance(type_, ArrayType):
        return type_.count * leaf_count(type_.element)
    return type_.leaves if isinstance(type_, StructType) else 1


def align_of(type_: Type) -> int:
    """Alignment in bytes: natural, at most 4 (the widest memory access)."""
    match type_:
        case ArrayType():
            return align_of(type_.element)
        case StructType(layout="auto" | "extern"):
            return max((align_of(entry.type) for entry in type_.fields), default=1)
        case DsdType():
            return 2
        case RangeType():
            return align_of(type_.element)
    scalar = scalar_type(type_)
    return 1 if scalar is None else max(1, min(scalar.size, 4))


def bit_width(type_: Type) -> int | None:
    """Bits of a value inside a packed struct or a bit cast; None where the type has no fixed bit pattern."""
    match type_:
        case IntType(bits):
            return bits
        case FloatType():
            return type_.bits
        case EnumType():
            return type_.tag.bits
        case PointerType() | IdType():
            return 16
        case StructType(layout="packed"):
            return type_.backing.bits
    return 1 if type_ == BOOL else None


def is_numeric(type_: Type) -> bool:
    return isinstance(type_, IntType | FloatType) or type_ in (COMPTIME_INT, COMPTIME_FLOAT)


def is_integer(type_: Type) -> bool:
    return isinstance(type_, IntType) or type_ is COMPTIME_INT or type_ == COMPTIME_INT


def is_float(type_: Type) -> bool:
    return isinstance(type_, FloatType) or type_ == COMPTIME_FLOAT


def is_fn_pointer(type_: Type) -> bool:
    return isinstance(type_, PointerType) and isinstance(type_.pointee, FnType)
