"""Where an expression is analysed: module, scope, comptime or run time, and the function being built."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema import limits
from fabrica_bench.csl.sema.dispatch import EXPRESSIONS, STATEMENTS
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.values import VOID_VALUE, Binding, Const, Rt, Value

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.builder import FnBuilder
    from fabrica_bench.csl.sema.control import Target
    from fabrica_bench.csl.sema.modules import ModuleInstance
    from fabrica_bench.csl.sema.unit import Unit


class Scope:
    """Local names, innermost first."""

    __slots__ = ("names", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        self.names: dict[str, Binding] = {}
        self.parent = parent

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None


class BreakSignal(Exception):
    """Comptime `break`, on its way to its target."""

    def __init__(self, target: Target, value: Value) -> None:
        self.target = target
        self.value = value


class ContinueSignal(Exception):
    """Comptime `continue`."""

    def __init__(self, target: Target) -> None:
        self.target = target


class ReturnSignal(Exception):
    """Comptime `return`."""

    def __init__(self, value: Value, span: ast.Span) -> None:
        self.value = value
        self.span = span


@dataclass(slots=True)
class Activation:
    """The function (or block) whose body is being analysed."""

    name: str
    result: t.Type = t.VOID
    address_taken: frozenset[str] = frozenset()
    result_address: ir.Operand | None = None
    targets: list[Target] = field(default_factory=list)
    inline_return: Target | None = None
    is_runtime: bool = False


class Frame:
    """One context of analysis. Statements push and pop `scope`; everything else stays.

    context: "L" layout, "T" top-level comptime of PE code, "C" other comptime. Only meaningful if `comptime`.
    depth: nesting of run-time control flow, which comptime variables must not be changed under.
    """

    __slots__ = ("activation", "builder", "comptime", "context", "decl_name", "depth", "module", "scope", "unit")

    def __init__(
        self,
        unit: Unit,
        module: ModuleInstance,
        *,
        scope: Scope | None = None,
        builder: FnBuilder | None = None,
        comptime: bool = True,
        context: str = "C",
        activation: Activation | None = None,
    ) -> None:
        self.unit = unit
        self.module = module
        self.scope = scope if scope is not None else Scope()
        self.builder = builder
        self.comptime = comptime
        self.context = context
        self.activation = activation if activation is not None else Activation("")
        self.depth = 0
        self.decl_name = ""

    @property
    def context_code(self) -> str:
        """Context letter of the builtin table."""
        return self.context if self.comptime else "R"

    def at_comptime(self) -> Frame:
        """The same place, evaluating at comptime."""
        if self.comptime:
            return self
        inner = Frame(
            self.unit,
            self.module,
            scope=self.scope,
            comptime=True,
            context="C",
            activation=self.activation,
        )
        inner.depth = self.depth
        return inner

    # ------------------------------------------------------------------------------------------- names

    def declare(self, name: str, binding: Binding, span: ast.Span) -> None:
        """Bind a local name; it must not be a local name already."""
        if name == "_":
            return
        if self.scope.find(name) is not None:
            fail(span, f"redefinition of '{name}'", "names may not be reused in a nested scope")
        self.scope.names[name] = binding

    # -------------------------------------------------------------------------------------- expressions

    def expr(self, node: ast.Expr, hint: t.Type | None = None) -> Value:
        """Analyse an expression."""
        return EXPRESSIONS[type(node)](self, node, hint)

    def comptime_expr(self, node: ast.Expr, hint: t.Type | None = None) -> Const:
        """Evaluate an expression that must be comptime-known."""
        value = self.at_comptime().expr(node, hint)
        if not isinstance(value, Const):
            fail(node.span, "expected a comptime-known value", "the value depends on run-time data")
        return value

    def type_expr(self, node: ast.Expr) -> t.Type:
        """Evaluate an expression that must be a type. A value that is named like a predeclared type, as in
        `param color: color`, doesn't hide the type here."""
        if isinstance(node, ast.Ident):
            from fabrica_bench.csl.sema.names import predeclared

            known = predeclared(node.name)
            if known is not None and known.type == t.TYPE and self._names_value(node.name):
                return known.data  # type: ignore[no-any-return]
        value = self.comptime_expr(node, t.TYPE)
        if value.type != t.TYPE:
            fail(node.span, f"expected a type, got a value of type '{value.type.name}'")
        found: t.Type = value.data
        return found

    def _names_value(self, name: str) -> bool:
        """Whether a name was declared, and not as a type."""
        local = self.scope.find(name)
        if local is not None:
            return getattr(local, "type", None) != t.TYPE
        entry = self.module.entries.get(name)
        if entry is not None and entry.state == "new":
            entry = self.module.find(name)
        if entry is None:
            return False
        return entry.value is None or entry.value.type != t.TYPE

    def type_of(self, node: ast.Expr) -> t.Type:
        """Type of an expression that is analysed but has no effect."""
        from fabrica_bench.csl.sema.builder import FnBuilder

        if isinstance(node, ast.Ident | ast.FieldAccess):
            from fabrica_bench.csl.sema.places import place_of

            return place_of(self, node).type
        scratch = Frame(
            self.unit,
            self.module,
            scope=self.scope,
            builder=FnBuilder(),
            comptime=False,
            context=self.context,
            activation=self.activation,
        )
        return (self if self.comptime and not self.activation.is_runtime else scratch).expr(node).type

    def execute(self, node: ast.Stmt | ast.Expr) -> None:
        """Analyse a statement, or an expression for its effect."""
        STATEMENTS[type(node)](self, node)

    # ------------------------------------------------------------------------------------------ values

    def coerce(self, value: Value, type_: t.Type, span: ast.Span) -> Value:
        from fabrica_bench.csl.sema.coerce import coerce

        return coerce(self, value, type_, span)

    def operand(self, value: Value, span: ast.Span) -> ir.Operand:
        """A scalar value as an IR operand."""
        from fabrica_bench.csl.sema.lower import operand

        return operand(self, value, span)

    # -------------------------------------------------------------------------------------------- code

    def code(self, span: ast.Span) -> FnBuilder:
        """The builder, positioned at `span`; an error at comptime."""
        if self.builder is None or self.comptime:
            fail(span, "this operation needs run time and can't be evaluated at comptime")
        if self.builder.size > limits.FUNCTION_INSTRUCTIONS:
            fail(span, "the function is too large: its instructions alone would fill PE memory several times")
        self.builder.loc = self.unit.location(span)
        return self.builder

    at = code

    def intrinsic(self, name: str, args: tuple[ir.Operand, ...], result: t.Type, text: str, span: ast.Span) -> Value:
        """Emit `ir.Intrinsic`; its value has type `result`."""
        code = self.code(span)
        scalar = t.scalar_type(result)
        if scalar is None:
            if result != t.VOID:
                fail(span, f"an intrinsic can't give a value of type '{result.name}'")
            code.emit(ir.Intrinsic(0, None, name, args, text))
            return VOID_VALUE
        dst = code.register(scalar)
        code.emit(ir.Intrinsic(0, dst, name, args, text))
        return Rt(result, dst)
