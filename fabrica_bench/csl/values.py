"""Values of the analyser: comptime-known, run-time, or a mixture field by field.

Every expression of CSL is analysed to a `Value`. What `Const.data` holds depends on the type:

    integers, ids, directions, enums   int (an enum holds its tag value)
    floats, comptime_float             float, exactly representable in the type
    bool                               bool
    void                               None
    comptime_string                    bytes
    type                               types.Type
    array                              list of element data, row-major
    struct, tuple                      list of field data in field order
    union                              UnionData
    pointer                            Ref (to a variable), FnValue (to a function) or int (an absolute address)
    fn, task                           FnValue
    imported_module                    the module instance
    DSD                                ir.Dsd (its base may be an ir.Sym)
    DSR                                ir.DsrRef;  xdsr, sr: int;  FIFO: FifoRef
    range                              (start, stop, step)

Lists inside `Const.data` are never changed in place, except by the `Cell` that owns them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.modules import ModuleInstance


@dataclass(frozen=True, slots=True)
class Const:
    """Comptime-known value."""

    type: t.Type
    data: Any


@dataclass(frozen=True, slots=True)
class Rt:
    """Run-time value: the scalar itself, or for arrays and structs the address of memory that holds it."""

    type: t.Type
    operand: ir.Operand


@dataclass(frozen=True, slots=True)
class Agg:
    """A struct literal some of whose fields are only known at run time; `fields` in the order of the type."""

    type: t.StructType
    fields: tuple[Value, ...]


Value = Const | Rt | Agg

VOID_VALUE = Const(t.VOID, None)
TRUE, FALSE = Const(t.BOOL, True), Const(t.BOOL, False)


def bool_value(flag: bool) -> Const:
    return TRUE if flag else FALSE


def int_value(number: int) -> Const:
    return Const(t.COMPTIME_INT, number)


class UnionData(NamedTuple):
    """Active variant of a comptime-known union and its data."""

    active: int
    data: Any


@dataclass(frozen=True, slots=True)
class FnValue:
    """A function or task of a module instance."""

    module: ModuleInstance
    decl: ast.FnDecl


class FifoRef(NamedTuple):
    """A FIFO: its number, the position in `Image.fifos`."""

    number: int
    name: str


@dataclass(eq=False, slots=True)
class GlobalVar:
    """A variable with an address in PE memory. `init` is comptime data of `type`, or None for zeros.

    `name` is the symbol. `is_const` variables keep `init`, so that reading them folds. `is_extern`: defined elsewhere.
    """

    name: str
    type: t.Type
    init: Any = None
    is_const: bool = False
    is_export: bool = False
    is_extern: bool = False
    alignment: int = 1
    section: str = ""
    span: ast.Span | None = None
    is_runtime_used: bool = False


class Ref(NamedTuple):
    """Address of a variable plus a byte offset."""

    root: GlobalVar
    offset: int = 0


@dataclass(eq=False, slots=True)
class Cell:
    """A comptime variable. `depth` is the nesting of run-time control flow where it was declared."""

    type: t.Type
    data: Any
    depth: int = 0


@dataclass(eq=False, slots=True)
class RegVar:
    """A run-time local that lives in a register."""

    type: t.Type
    reg: ir.Reg


@dataclass(eq=False, slots=True)
class MemVar:
    """A run-time local that lives in the frame."""

    type: t.Type
    address: ir.Operand
    is_const: bool = False


class Unknown(Enum):
    """Stands for a local whose declaration has an error, so that its uses say nothing more."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN

Binding = Const | Rt | Agg | Cell | RegVar | MemVar | GlobalVar | Unknown


def copy_data(data: Any) -> Any:
    """A copy that shares no list with `data`."""
    if type(data) is list:
        return [copy_data(item) if type(item) is list else item for item in data]
    return data


def freeze(data: Any) -> Hashable:
    """A hashable image of comptime data; equal data give equal keys."""
    kind = type(data)
    if kind is int:
        return int(data)
    if kind is list:
        return ("list", tuple([freeze(item) for item in data]))
    if isinstance(data, UnionData):
        return ("union", data.active, freeze(data.data))
    if isinstance(data, float):
        return ("float", data.hex())
    if isinstance(data, bool):
        return ("bool", data)
    return data if isinstance(data, Hashable) else id(data)


def const_key(value: Const) -> Hashable:
    return (value.type, freeze(value.data))


def zero_data(type_: t.Type) -> Any:
    """Data of a zero-initialised variable."""
    match type_:
        case t.ArrayType():
            element = zero_data(type_.element)
            if type(element) is list:
                return [copy_data(element) for _ in range(type_.count)]
            return [element] * type_.count
        case t.StructType(kind="union"):
            return UnionData(0, zero_data(type_.fields[0].type)) if type_.fields else UnionData(0, None)
        case t.StructType():
            return [zero_data(entry.type) for entry in type_.fields]
        case t.FloatType():
            return 0.0
        case t.DsdType(kind):
            return ir.Dsd(kind, (0,))
    if isinstance(type_, t.SimpleType):
        return {t.BOOL: False, t.VOID: None, t.COMPTIME_FLOAT: 0.0, t.COMPTIME_STRING: b""}.get(type_, 0)
    return 0


def field_value(value: Value, position: int) -> Value | None:
    """Field `position` of a struct value that is not in memory; None if it is."""
    if isinstance(value, Agg):
        return value.fields[position]
    if isinstance(value, Const) and isinstance(value.type, t.StructType):
        return Const(value.type.fields[position].type, value.data[position])
    return None
