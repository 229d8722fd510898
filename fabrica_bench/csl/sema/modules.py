"""Module instances and their globals, analysed on demand.

Each occurrence of `@import_module` makes an instance of its own. A global is looked at when something first needs it,
so that what only pruned branches mention is never checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from fabrica_bench.csl import ast
from fabrica_bench.csl import types as t
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.sema.errors import already_reported, fail, noted
from fabrica_bench.csl.sema.frame import Frame
from fabrica_bench.csl.sema.spelling import did_you_mean
from fabrica_bench.csl.sema.walk import allocates_registers, contains_import
from fabrica_bench.csl.values import Const, FnValue, GlobalVar, Value, freeze

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.unit import Unit

MAX_IMPORT_DEPTH = 64

Declaration = ast.VarDecl | ast.FnDecl | ast.ColorDecl


@dataclass(eq=False, slots=True)
class GlobalEntry:
    """A declared global and what is known about it.

    `value` is set for constants, params, functions; `variable` for what has an address (constants get one on demand).
    """

    decl: Declaration
    state: Literal["new", "busy", "done", "failed"] = "new"
    value: Const | None = None
    variable: GlobalVar | None = None


class ModuleInstance:
    """One instance of a file: its globals and the values its params were bound to."""

    def __init__(
        self, unit: Unit, file: ast.File, label: str, params: Mapping[str, Const], depth: int, origin: ast.Span | None
    ) -> None:
        self.unit = unit
        self.file = file
        self.source = file.span.file
        self.label = label
        self.params = dict(params)
        self.depth = depth
        self.origin = origin
        self.entries: dict[str, GlobalEntry] = {}
        for item in file.items:
            if isinstance(item, Declaration):
                self._declare(item)

    def __repr__(self) -> str:
        return f"module '{self.source.path}'"

    def _declare(self, item: Declaration) -> None:
        previous = self.entries.get(item.name)
        if previous is not None:
            note = (("first declared here", previous.decl.name_span),)
            fail(item.name_span, f"redefinition of '{item.name}'", notes=note)
        self.entries[item.name] = GlobalEntry(item)

    def symbol(self, name: str) -> str:
        """Symbol of a global: its name behind the path of the module."""
        return f"{self.label}{name}"

    def frame(self, context: str | None = None) -> Frame:
        """A comptime frame at the top level of this module."""
        return Frame(self.unit, self, context=context or ("L" if self.unit.is_layout else "C"))

    # --------------------------------------------------------------------------------------------- params

    def param_names(self) -> set[str]:
        return {
            item.name
            for item in self.file.items
            if isinstance(item, ast.ColorDecl) or (isinstance(item, ast.VarDecl) and item.kind is ast.VarKind.PARAM)
        }

    # -------------------------------------------------------------------------------------------- globals

    def find(self, name: str) -> GlobalEntry | None:
        """The global called `name`, analysed; None if there is none."""
        entry = self.entries.get(name)
        if entry is None or entry.state == "done":
            return entry
        if entry.state == "failed":
            raise already_reported()
        if entry.state == "busy":
            fail(entry.decl.name_span, f"the value of '{name}' depends on itself")
        entry.state = "busy"
        try:
            self._resolve(entry)
        except CslError as problem:
            entry.state = "failed"
            self.unit.errors.extend(problem.diagnostics)
            raise already_reported() from None
        except BaseException:
            entry.state = "failed"
            raise
        entry.state = "done"
        return entry

    def _resolve(self, entry: GlobalEntry) -> None:
        decl = entry.decl
        if isinstance(decl, ast.FnDecl):
            from fabrica_bench.csl.sema.calls import fn_type

            function = FnValue(self, decl)
            entry.value = Const(fn_type(self.unit, function), function)
        elif isinstance(decl, ast.ColorDecl):
            bound = self.params.get(decl.name)
            if bound is None:
                fail(decl.name_span, f"color '{decl.name}' is not bound", "give it with --colors or a param struct")
            entry.value = self._typed(bound, t.COLOR, decl.name_span)
        elif decl.kind is ast.VarKind.PARAM:
            entry.value = self._param(decl)
        else:
            self._variable(entry, decl)

    def _param(self, decl: ast.VarDecl) -> Const:
        frame = self.frame()
        type_ = frame.type_expr(decl.type_expr) if decl.type_expr is not None else None
        bound = self.params.get(decl.name)
        if bound is None:
            if decl.init is None:
                self._unbound(decl, type_)
            bound = frame.comptime_expr(decl.init, type_)
        if type_ is None:
            return bound
        try:
            return self._typed(bound, type_, decl.name_span)
        except CslError as problem:
            if self.origin is None or decl.name not in self.params:
                raise
            raise noted(problem, f"'{decl.name}' was bound here", self.origin) from None

    def _unbound(self, decl: ast.VarDecl, type_: t.Type | None) -> NoReturn:
        message = f"param '{decl.name}' is not bound to a value"
        if self.origin is not None or not self.unit.is_layout:
            notes = (("used here", self.origin),) if self.origin is not None else ()
            fail(decl.name_span, message, "bind it where the module is used", notes=notes)
        flag = f"--colors={decl.name}:NUMBER" if type_ == t.COLOR else f"--params={decl.name}:NUMBER"
        fail(decl.name_span, message, f"give it on the command line: {flag}")

    def _typed(self, value: Const, type_: t.Type, span: ast.Span) -> Const:
        result = self.frame().coerce(value, type_, span)
        if not isinstance(result, Const):
            fail(span, "expected a comptime-known value")
        return result

    def _variable(self, entry: GlobalEntry, decl: ast.VarDecl) -> None:
        frame = self.frame()
        frame.decl_name = decl.name
        type_ = frame.type_expr(decl.type_expr) if decl.type_expr is not None else None
        if decl.storage == "extern" and decl.init is not None:
            fail(decl.init.span, f"extern variable '{decl.name}' can't have an initial value")
        value: Const | None = None
        if decl.init is not None:
            value = frame.comptime_expr(decl.init, type_)
            if type_ is not None:
                value = self._typed(value, type_, decl.init.span)
            value = with_label(value, decl.name)
        elif type_ is None:
            fail(decl.name_span, f"'{decl.name}' needs a type or an initial value")
        elif decl.kind is ast.VarKind.CONST and decl.storage is None:
            fail(decl.name_span, f"constant '{decl.name}' has no value")
        found = value.type if value is not None else type_
        assert found is not None
        from fabrica_bench.csl.sema.lower import check_runtime_type

        is_const = decl.kind is ast.VarKind.CONST
        if is_const:
            entry.value = value
        if not is_const or decl.storage is not None:
            if found.is_comptime_only or found == t.VOID:
                hint = "give it a run-time type, or make it a const"
                fail(decl.name_span, f"variable of type '{found.name}' must be comptime-known", hint)
            if decl.storage is not None and not is_exportable(found):
                fail(
                    decl.name_span,
                    f"'{decl.name}' of type '{found.name}' can't be {decl.storage}",
                    "numbers, bool, color, enums, pointers, extern and packed structs, and arrays of those can",
                )
            check_runtime_type(frame, found, decl.name_span)
            entry.variable = self.make_variable(decl, found, None if value is None else value.data)

    def make_variable(self, decl: ast.VarDecl, type_: t.Type, init: Any) -> GlobalVar:
        """Give a declared global an address."""
        frame = self.frame()
        attributes = decl.attributes
        alignment = t.align_of(type_)
        if attributes.align is not None:
            asked = frame.comptime_expr(attributes.align)
            if not t.is_integer(asked.type) or asked.data <= 0 or asked.data & (asked.data - 1):
                fail(attributes.align.span, "an alignment must be a power of two")
            alignment = max(alignment, asked.data)
        name = decl.name if decl.storage is not None else self.symbol(decl.name)
        if attributes.linkname is not None:
            name = self._string(attributes.linkname)
        section = self._string(attributes.linksection) if attributes.linksection is not None else ""
        variable = GlobalVar(
            name,
            type_,
            init,
            is_const=decl.kind is ast.VarKind.CONST,
            is_export=decl.storage == "export",
            is_extern=decl.storage == "extern",
            alignment=alignment,
            section=section,
            span=decl.name_span,
        )
        return self.unit.add_global(variable)

    def _string(self, node: ast.Expr) -> str:
        value = self.frame().comptime_expr(node)
        if value.type != t.COMPTIME_STRING:
            fail(node.span, f"expected type 'comptime_string', got: '{value.type.name}'")
        return bytes(value.data).decode("utf-8", "replace")

    def variable_of(self, entry: GlobalEntry) -> GlobalVar:
        """The variable of a global, made now if it is a constant that had no address yet."""
        if entry.variable is None:
            assert entry.value is not None
            if not isinstance(entry.decl, ast.VarDecl) or entry.value.type.is_comptime_only:
                fail(entry.decl.name_span, f"'{entry.decl.name}' has no address at run time")
            init = entry.value.data
            entry.variable = self.make_variable(entry.decl, entry.value.type, init)
            entry.variable.is_const = True
        return entry.variable

    # -------------------------------------------------------------------------------------------- imports

    def eager_globals(self) -> Iterator[str]:
        """Constants that take effect even if nothing uses their name: imports, and FIFOs reached by register."""
        for item in self.file.items:
            if not isinstance(item, ast.VarDecl) or item.kind is not ast.VarKind.CONST:
                continue
            if contains_import(item.init) or allocates_registers(item.init):
                yield item.name

    def comptime_blocks(self) -> Iterator[ast.ComptimeBlock]:
        return (item for item in self.file.items if isinstance(item, ast.ComptimeBlock))


def import_module(frame: Frame, path: Path, params: Mapping[str, Const], span: ast.Span) -> ModuleInstance:
    """Make an instance of the file at `path`."""
    importer = frame.module
    if importer.depth >= MAX_IMPORT_DEPTH:
        fail(
            span, f"modules are imported more than {MAX_IMPORT_DEPTH} levels deep", "do two modules import each other?"
        )
    unit = frame.unit
    file = unit.session.parse(path)
    name = frame.decl_name or f"module{len(unit.instances)}"
    instance = ModuleInstance(unit, file, f"{importer.label}{name}.", params, importer.depth + 1, span)
    known = instance.param_names()
    for param in params:
        if param not in known:
            hint = did_you_mean(param, sorted(known))
            unit.session.warn(span, f"module '{instance.source.path}' has no param named '{param}'", hint)
    unit.add_instance(instance)
    return instance


def is_exportable(type_: t.Type) -> bool:
    """Whether a variable can be `export` or `extern` (Cerebras SDK docs, "Storage Classes", 1.4 and 2.10 together)."""
    match type_:
        case t.ArrayType():
            return is_exportable(type_.element)
        case t.StructType():
            return type_.layout != "auto" and all(is_exportable(entry.type) for entry in type_.fields)
        case t.IdType():
            return type_ == t.COLOR
    return type_ == t.BOOL or isinstance(type_, t.IntType | t.FloatType | t.EnumType | t.PointerType)


def with_label(value: Const, name: str) -> Const:
    """Name a struct, union or enum type after the constant it is bound to, for messages."""
    found = value.data
    if isinstance(found, t.StructType | t.EnumType) and found.site and not found.label:
        return Const(t.TYPE, replace(found, label=name))
    return value


def params_key(params: Mapping[str, Value]) -> tuple[Any, ...]:
    """Hashable image of a binding of params."""
    return tuple(
        (name, value.type, freeze(value.data)) for name, value in sorted(params.items()) if isinstance(value, Const)
    )
