"""The table of builtins and what a builtin sees of its call.

A builtin is a function `(call: Call) -> Value` registered under its name:

    @builtin("strlen", args=1)
    def strlen(call: Call) -> Value:
        return int_value(len(call.string(0)))

`args` is the number of arguments, or (least, most); `contexts` says where the call is legal:
L layout evaluation, T top-level comptime of PE code, C any other comptime evaluation, R run time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema.spelling import did_you_mean
from fabrica_bench.csl.values import Const, Value

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame

UNBOUNDED: Final = 1000
ALL: Final = "LTCR"
_CONTEXT_NAMES = {
    "L": "the layout block",
    "T": "a top-level comptime block of PE code",
    "C": "comptime code",
    "R": "run-time code",
}


@dataclass(frozen=True)
class Builtin:
    """One entry of the table."""

    name: str
    run: Callable[[Call], Value]
    least: int
    most: int
    contexts: str


BUILTINS: dict[str, Builtin] = {}


def builtin(
    *names: str, args: int | tuple[int, int], contexts: str = ALL
) -> Callable[[Callable[[Call], Value]], Callable[[Call], Value]]:
    """Register the decorated function as the builtin(s) `names` (without `@`)."""
    least, most = (args, args) if isinstance(args, int) else args

    def register(function: Callable[[Call], Value]) -> Callable[[Call], Value]:
        for name in names:
            if name in BUILTINS:
                raise ValueError(f"builtin @{name} is registered twice")
            BUILTINS[name] = Builtin(name, function, least, most, contexts)
        return function

    return register


class Call:
    """A builtin call being analysed: its arguments on demand, and where it is."""

    __slots__ = ("frame", "hint", "node")

    def __init__(self, frame: Frame, node: ast.BuiltinCall, hint: t.Type | None = None) -> None:
        self.frame = frame
        self.node = node
        self.hint = hint

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def span(self) -> ast.Span:
        return self.node.span

    @property
    def count(self) -> int:
        return len(self.node.args)

    def arg_span(self, index: int) -> ast.Span:
        return self.node.args[index].span

    def fail(self, message: str, index: int | None = None, hint: str | None = None) -> NoReturn:
        """Report an error at argument `index`, or at the whole call."""
        from fabrica_bench.csl.sema.errors import fail

        fail(self.span if index is None else self.arg_span(index), message, hint)

    # ------------------------------------------------------------------------------------------ arguments

    def value(self, index: int, hint: t.Type | None = None) -> Value:
        """Argument `index`, comptime-known or not."""
        return self.frame.expr(self.node.args[index], hint)

    def typed(self, index: int, type_: t.Type) -> Value:
        """Argument `index` converted to `type_` by the implicit rules."""
        return self.frame.coerce(self.value(index, type_), type_, self.arg_span(index))

    def const(self, index: int, hint: t.Type | None = None) -> Const:
        """Argument `index`, which must be comptime-known."""
        return self.frame.comptime_expr(self.node.args[index], hint)

    def type(self, index: int) -> t.Type:
        """Argument `index`, which must be a type."""
        return self.frame.type_expr(self.node.args[index])

    def string(self, index: int) -> str:
        """Argument `index`, which must be a comptime string."""
        value = self.const(index)
        if value.type != t.COMPTIME_STRING:
            self.fail(f"expected type 'comptime_string', got: '{value.type.name}'", index)
        return bytes(value.data).decode("utf-8", "replace")

    def integer(self, index: int) -> int:
        """Argument `index`, which must be a comptime-known integer."""
        value = self.const(index)
        if not t.is_integer(value.type):
            self.fail(f"expected a comptime-known integer, got: '{value.type.name}'", index)
        return int(value.data)

    def operand(self, index: int, type_: t.Type) -> ir.Operand:
        """Argument `index` as a scalar operand of `type_`."""
        return self.frame.operand(self.typed(index, type_), self.arg_span(index))

    # ------------------------------------------------------------------------------------------- emission

    def emit(self, instr: ir.Instr) -> None:
        self.frame.at(self.span).emit(instr)

    def intrinsic(self, name: str, args: tuple[ir.Operand, ...] = (), result: t.Type = t.VOID, text: str = "") -> Value:
        """Emit an intrinsic and give its result."""
        return self.frame.intrinsic(name, args, result, text, self.span)


def context_error(entry: Builtin, context: str) -> str:
    """Message for a call of `entry` in a context where it is not legal."""
    legal = " or ".join(_CONTEXT_NAMES[code] for code in entry.contexts)
    return f"@{entry.name} is not allowed in {_CONTEXT_NAMES[context]}; use it in {legal}"


#: Builtins that users of Zig expect, and what CSL has instead.
OTHER_LANGUAGES: dict[str, str] = {
    **dict.fromkeys(
        ("intCast", "floatCast", "intToFloat", "floatToInt", "floatFromInt", "intFromFloat", "truncate"),
        "convert numbers with @as(T, value)",
    ),
    **dict.fromkeys(("enumToInt", "intFromEnum", "boolToInt", "intFromBool"), "take the number with @as(T, value)"),
    **dict.fromkeys(("intToEnum", "enumFromInt"), "make it of a number with @as(E, number)"),
    **dict.fromkeys(("bitCast", "ptrCast"), "CSL's are @bitcast and @ptrcast, and take the type first"),
    **dict.fromkeys(("TypeOf", "typeOf"), "CSL's is @type_of"),
    **dict.fromkeys(("import", "cImport"), 'write @import_module("file.csl"), or "<name>" for a library'),
    **dict.fromkeys(("sizeOf", "bitSizeOf"), "import <types>, and call its byte_size_of or bit_size_of"),
    **dict.fromkeys(("sqrt", "sin", "cos", "exp", "log", "abs", "min", "max", "floor", "ceil"), "import <math>"),
    **dict.fromkeys(("memcpy", "memset", "splat"), "copy and fill with @mov16, @mov32, @fmovh or @fmovs on DSDs"),
    "compileError": "write @comptime_assert(false, message)",
    "compileLog": "CSL's is @comptime_print",
    "hasField": "CSL's is @has_field",
    "mod": "write the operator '%'",
    "rem": "write the operator '%'",
    "divTrunc": "write the operator '/'",
}


def run_builtin(frame: Frame, node: ast.BuiltinCall, hint: t.Type | None) -> Value:
    """Analyse a builtin call: look it up, check context and argument count, run it."""
    from fabrica_bench.csl.sema.errors import fail

    entry = BUILTINS.get(node.name)
    if entry is None:
        remedy = OTHER_LANGUAGES.get(node.name) or did_you_mean(node.name, BUILTINS, "@")
        fail(node.name_span, f"unknown builtin '@{node.name}'", remedy)
    context = frame.context_code
    if context not in entry.contexts:
        fail(node.span, context_error(entry, context))
    if not entry.least <= len(node.args) <= entry.most:
        fail(node.span, f"@{node.name} takes {_count_text(entry)}, got {len(node.args)}")
    return entry.run(Call(frame, node, hint))


def _count_text(entry: Builtin) -> str:
    if entry.most >= UNBOUNDED:
        return f"at least {entry.least} argument(s)"
    if entry.least == entry.most:
        return f"{entry.least} argument(s)"
    return f"{entry.least} to {entry.most} arguments"
