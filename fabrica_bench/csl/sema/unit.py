"""One unit of analysis: the layout, or one PE program with all modules it imports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.diagnostics import CslError, Diagnostic
from fabrica_bench.csl.sema import limits
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.modules import ModuleInstance
from fabrica_bench.csl.values import FnValue, GlobalVar, freeze

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.calls import FnInstance
    from fabrica_bench.csl.sema.layout import LayoutState
    from fabrica_bench.csl.sema.session import Session


@dataclass(slots=True)
class BoundTask:
    kind: str
    id: int
    function: FnValue
    span: ast.Span


@dataclass(slots=True)
class Export:
    """`@export_symbol`: a variable or function under the name the host knows."""

    name: str
    variable: GlobalVar | None
    function: FnInstance | None
    type: t.Type
    span: ast.Span


@dataclass(slots=True)
class PeState:
    """What top-level comptime code of a PE program asked for."""

    width: int = 1
    height: int = 1
    layout_colors: dict[int, ir.ColorConfig] = field(default_factory=dict)
    tasks: list[BoundTask] = field(default_factory=list)
    activated: list[ir.Operand] = field(default_factory=list)
    blocked: list[tuple[str, ir.Operand]] = field(default_factory=list)
    unblocked: list[tuple[str, ir.Operand]] = field(default_factory=list)
    queues: dict[tuple[str, int], tuple[ir.QueueInit, ast.Span]] = field(default_factory=dict)
    fifos: list[tuple[ir.Fifo, GlobalVar, ir.Operand | None, ir.Operand | None]] = field(default_factory=list)
    fifo_registers: dict[ir.DsrRef, int] = field(default_factory=dict)
    dsr_loads: list[ir.LoadDsr] = field(default_factory=list)
    settings: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    teardown: dict[int, tuple[str, ast.Span]] = field(default_factory=dict)
    empty_queue: dict[tuple[str, int], tuple[str, ast.Span]] = field(default_factory=dict)
    control_table: tuple[int, int] | None = None
    rotating: list[tuple[str, str, int, int, int]] = field(default_factory=list)
    local_colors: dict[int, ir.ColorConfig] = field(default_factory=dict)
    local_color_spans: dict[int, ast.Span] = field(default_factory=dict)
    exports: dict[str, Export] = field(default_factory=dict)
    config_words: dict[int, int] = field(default_factory=dict)
    rpc: ast.Span | None = None
    symbol_ids: dict[str, int] = field(default_factory=dict)


class Unit:
    """Everything found while analysing one layout or PE program."""

    def __init__(self, session: Session, *, layout: LayoutState | None = None, pe: PeState | None = None) -> None:
        self.session = session
        self.layout = layout
        self._pe = pe
        self.instances: list[ModuleInstance] = []
        self.globals: dict[str, GlobalVar] = {}
        self.functions: dict[Any, FnInstance] = {}
        self.function_names: dict[str, int] = {}
        self.worklist: list[FnInstance] = []
        self.lowering: FnInstance | None = None
        self.errors: list[Diagnostic] = []
        self.locations: list[tuple[str, int, int]] = [("", 0, 0)]
        self.location_spans: list[ast.Span | None] = [None]
        self._location_index: dict[tuple[int, int], int] = {}
        self._constants: dict[Any, GlobalVar] = {}
        self.signatures: dict[Any, Any] = {}
        self.literal_types: dict[ast.InitList, t.StructType] = {}

    def needed_functions(self) -> list[FnInstance]:
        """The functions that are part of the program."""
        return [instance for instance in self.functions.values() if instance.is_needed]

    @property
    def is_layout(self) -> bool:
        return self.layout is not None

    def pe(self, span: ast.Span) -> PeState:
        """State of the PE program; an error in the layout."""
        if self._pe is None:
            fail(span, "this belongs in the code of a PE, not in the layout")
        return self._pe

    @property
    def pe_state(self) -> PeState:
        assert self._pe is not None
        return self._pe

    # ------------------------------------------------------------------------------------------- storage

    def add_global(self, variable: GlobalVar) -> GlobalVar:
        """Register a variable under its symbol; `extern` and `export` of one symbol are the same variable."""
        previous = self.globals.get(variable.name)
        if previous is None:
            self.globals[variable.name] = variable
            return variable
        linked = (previous.is_export or previous.is_extern) and (variable.is_export or variable.is_extern)
        if not linked or (previous.is_export and variable.is_export):
            note = (("first defined here", previous.span),) if previous.span is not None else ()
            fail(variable.span, f"symbol '{variable.name}' is defined twice", notes=note)
        if previous.is_const != variable.is_const:
            kinds = ("const" if previous.is_const else "var", "const" if variable.is_const else "var")
            fail(variable.span, f"symbol '{variable.name}' is '{kinds[0]}' elsewhere, not '{kinds[1]}'")
        if previous.type != variable.type:
            fail(
                variable.span,
                f"symbol '{variable.name}' has type '{previous.type.name}' elsewhere, not '{variable.type.name}'",
            )
        if variable.is_export:
            previous.is_export, previous.is_extern = True, False
            previous.init, previous.is_const = variable.init, variable.is_const
            previous.alignment = max(previous.alignment, variable.alignment)
        return previous

    def constant(self, type_: t.Type, data: Any) -> GlobalVar:
        """A read-only variable that holds comptime data; equal data share one."""
        key = (type_, freeze(data))
        if key not in self._constants:
            name = f"$const{len(self._constants)}"
            variable = GlobalVar(name, type_, data, is_const=True, alignment=t.align_of(type_))
            self._constants[key] = self.add_global(variable)
        return self._constants[key]

    def location(self, span: ast.Span) -> int:
        """Index of a place in the table of source locations."""
        key = (id(span.file), span.start)
        found = self._location_index.get(key)
        if found is None:
            line, column = span.file.position(span.start)
            found = self._location_index[key] = len(self.locations)
            self.locations.append((span.file.path, line, column))
            self.location_spans.append(span)
        return found

    # ----------------------------------------------------------------------------------------- instances

    def add_instance(self, instance: ModuleInstance, *, with_imports: bool = True) -> None:
        """Register a module instance and make the modules it imports."""
        if len(self.instances) >= limits.MODULES:
            fail(instance.origin, f"a program has more than {limits.MODULES} module instances")
        self.instances.append(instance)
        if with_imports:
            self.make_imports(instance)

    def make_imports(self, instance: ModuleInstance) -> None:
        """Make the modules that an instance imports, those of which nothing is used included."""
        for name in instance.eager_globals():
            self.attempt(lambda name=name: instance.find(name))  # type: ignore[misc]

    def attempt(self, action: Callable[[], object]) -> None:
        """Run one independent piece of analysis, keeping its errors so that others can still be looked at."""
        if len(self.errors) >= limits.ERRORS:
            return
        try:
            action()
        except CslError as problem:
            self.errors.extend(problem.diagnostics)

    def raise_errors(self) -> None:
        if self.errors:
            raise CslError(self.errors)
