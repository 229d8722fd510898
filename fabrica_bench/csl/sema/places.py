"""Locations: what can be assigned, indexed, or have its address taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema.dispatch import PLACES, place
from fabrica_bench.csl.sema.errors import already_reported
from fabrica_bench.csl.sema.names import predeclared, undeclared
from fabrica_bench.csl.values import Binding, Cell, Const, GlobalVar, MemVar, RegVar, Unknown, Value

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
        case Unknown():
            raise already_reported()
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
