"""Syntax tree of a CSL file.

Every node carries the `Span` of source text it came from. Nodes are compared by identity, so that a node can key a
cache of what the analyser found out about it. The tree is purely syntactic: no name is resolved here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal


@dataclass(eq=False)
class SourceFile:
    """One file as read from disk (or a virtual one, e.g. `<empty>`): display path, text, absolute path."""

    path: str
    text: str
    absolute: str
    is_system: bool = False

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        for offset, char in enumerate(self.text):
            if char == "\n":
                starts.append(offset + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """1-based (line, column) of a character offset."""
        from bisect import bisect_right

        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """Text of a 1-based line, without its newline."""
        starts = self._line_starts
        if not 0 < line <= len(starts):
            return ""
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].rstrip("\r")


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A half-open range of characters `[start, end)` in a file."""

    file: SourceFile
    start: int
    end: int

    def __str__(self) -> str:
        line, column = self.file.position(self.start)
        return f"{self.file.path}:{line}:{column}"

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.file, self.start, other.end)


@dataclass(eq=False, slots=True)
class Node:
    span: Span


# ---------------------------------------------------------------------------------------------- expressions


@dataclass(eq=False, slots=True)
class Expr(Node):
    pass


@dataclass(eq=False, slots=True)
class IntLit(Expr):
    """Decimal, hexadecimal, binary or character literal (a character is its byte value)."""

    value: int


@dataclass(eq=False, slots=True)
class FloatLit(Expr):
    value: float


@dataclass(eq=False, slots=True)
class StringLit(Expr):
    value: bytes


@dataclass(eq=False, slots=True)
class BoolLit(Expr):
    value: bool


@dataclass(eq=False, slots=True)
class VoidLit(Expr):
    """`{}` where a value is expected."""


@dataclass(eq=False, slots=True)
class Ident(Expr):
    """A name: a declaration, a local, or a predeclared type or value (`f32`, `color`, `NORTH`, ...)."""

    name: str


@dataclass(eq=False, slots=True)
class BuiltinCall(Expr):
    """`@name(args)`; `name` is stored without the `@`."""

    name: str
    args: list[Expr]
    name_span: Span


@dataclass(eq=False, slots=True)
class Unary(Expr):
    """Prefix operator: `-`, `!`, `~` or `&` (address of)."""

    op: Literal["-", "!", "~", "&"]
    operand: Expr


@dataclass(eq=False, slots=True)
class Binary(Expr):
    """Infix operator, including `and` and `or`."""

    op: str
    lhs: Expr
    rhs: Expr
    op_span: Span


@dataclass(eq=False, slots=True)
class FieldAccess(Expr):
    base: Expr
    name: str
    name_span: Span


@dataclass(eq=False, slots=True)
class Deref(Expr):
    """`base.*`"""

    base: Expr


@dataclass(eq=False, slots=True)
class Index(Expr):
    """`base[i, j, ...]`"""

    base: Expr
    indices: list[Expr]


@dataclass(eq=False, slots=True)
class Call(Expr):
    callee: Expr
    args: list[Expr]


@dataclass(eq=False, slots=True)
class FieldInit(Node):
    """`.name = value`, or a bare `value` when `name` is None (tuple and array literals)."""

    name: str | None
    value: Expr


@dataclass(eq=False, slots=True)
class InitList(Expr):
    """`.{ ... }` when `type_expr` is None; otherwise `T { ... }` (array, named struct or union)."""

    type_expr: Expr | None
    inits: list[FieldInit]


@dataclass(eq=False, slots=True)
class ArrayType(Expr):
    """`[d0, d1, ...]T`"""

    dims: list[Expr]
    element: Expr


@dataclass(eq=False, slots=True)
class PointerType(Expr):
    """`*T`, `*const T`, `[*]T`, `[*]const T`"""

    element: Expr
    is_const: bool
    is_many: bool


@dataclass(eq=False, slots=True)
class FnTypeExpr(Expr):
    """`fn(A, B) R` or `task(A) R`"""

    kind: Literal["fn", "task"]
    params: list[Expr]
    result: Expr


class Layout(StrEnum):
    AUTO = "auto"
    EXTERN = "extern"
    PACKED = "packed"


@dataclass(eq=False, slots=True)
class FieldDecl(Node):
    name: str
    type_expr: Expr


@dataclass(eq=False, slots=True)
class StructTypeExpr(Expr):
    """`struct {...}` or `union {...}`, with its layout keyword."""

    kind: Literal["struct", "union"]
    layout: Layout
    fields: list[FieldDecl]


@dataclass(eq=False, slots=True)
class EnumMember(Node):
    name: str
    value: Expr | None


@dataclass(eq=False, slots=True)
class EnumTypeExpr(Expr):
    tag: Expr | None
    members: list[EnumMember]


@dataclass(eq=False, slots=True)
class If(Expr):
    """`if` as statement or expression. Branches are expressions or statements (`if (c) x = 1;`)."""

    cond: Expr
    then: Expr | Stmt
    otherwise: Expr | Stmt | None
    label: str | None = None


@dataclass(eq=False, slots=True)
class SwitchCase(Node):
    """`values` is empty for `else`."""

    values: list[Expr]
    body: Expr | Stmt


@dataclass(eq=False, slots=True)
class Switch(Expr):
    value: Expr
    cases: list[SwitchCase]


@dataclass(eq=False, slots=True)
class Block(Expr):
    """`{ ... }` or `label: { ... }`"""

    stmts: list[Stmt]
    label: str | None = None


@dataclass(eq=False, slots=True)
class ComptimeExpr(Expr):
    """`comptime expr` or `comptime { ... }`"""

    operand: Expr


@dataclass(eq=False, slots=True)
class TensorAccess(Expr):
    """`|i, j|{4, 8} -> base[e0, e1]`; `base` is everything before the final index list."""

    variables: list[str]
    extents: list[Expr]
    base: Expr
    indices: list[Expr]


@dataclass(eq=False, slots=True)
class AsmExpr(Expr):
    """Inline assembly: parsed so that it can be refused with its place."""

    text: str


# ----------------------------------------------------------------------------------------------- statements


@dataclass(eq=False, slots=True)
class Stmt(Node):
    pass


class VarKind(StrEnum):
    CONST = "const"
    VAR = "var"
    PARAM = "param"


@dataclass(eq=False, slots=True)
class Attributes:
    """Attributes of a declaration, as written."""

    align: Expr | None = None
    linksection: Expr | None = None
    linkname: Expr | None = None


@dataclass(eq=False, slots=True)
class VarDecl(Stmt):
    kind: VarKind
    name: str
    name_span: Span
    type_expr: Expr | None
    init: Expr | None
    attributes: Attributes
    storage: Literal["export", "extern"] | None = None
    is_comptime: bool = False


@dataclass(eq=False, slots=True)
class ExprStmt(Stmt):
    """An expression evaluated for its effect, including `if`, `switch` and blocks in statement position."""

    expr: Expr


@dataclass(eq=False, slots=True)
class Assign(Stmt):
    """`target op value`; `op` is `=` or a compound such as `+=`."""

    op: str
    target: Expr
    value: Expr


@dataclass(eq=False, slots=True)
class For(Stmt):
    """`for (iterable) |item, index| body`"""

    iterable: Expr
    item: str
    index: str | None
    body: Stmt | Expr
    is_inline: bool = False
    label: str | None = None


@dataclass(eq=False, slots=True)
class While(Stmt):
    cond: Expr
    step: Assign | ExprStmt | None
    body: Stmt | Expr
    is_inline: bool = False
    label: str | None = None


@dataclass(eq=False, slots=True)
class Return(Stmt):
    value: Expr | None


@dataclass(eq=False, slots=True)
class Break(Stmt):
    label: str | None
    value: Expr | None


@dataclass(eq=False, slots=True)
class Continue(Stmt):
    label: str | None


# ------------------------------------------------------------------------------------------------- top level


@dataclass(eq=False, slots=True)
class ParamDecl(Node):
    """A function parameter. `type_expr` is None for `anytype`; `name` is None in bare `extern fn` parameters."""

    name: str | None
    type_expr: Expr | None
    is_comptime: bool = False


@dataclass(eq=False, slots=True)
class FnDecl(Node):
    """`fn` or `task`. `body` is None only for `extern fn`."""

    kind: Literal["fn", "task"]
    name: str
    name_span: Span
    params: list[ParamDecl]
    result: Expr
    body: Block | None
    attributes: Attributes
    storage: Literal["export", "extern"] | None = None
    is_inline: bool = False


@dataclass(eq=False, slots=True)
class ComptimeBlock(Node):
    """`comptime { ... }` at top level."""

    body: Block


@dataclass(eq=False, slots=True)
class LayoutBlock(Node):
    """`layout { ... }`"""

    body: Block


@dataclass(eq=False, slots=True)
class ColorDecl(Node):
    """Legacy `color name;`"""

    name: str
    name_span: Span


TopLevel = VarDecl | FnDecl | ComptimeBlock | LayoutBlock | ColorDecl


@dataclass(eq=False, slots=True)
class Comment:
    """A `//` comment, kept for the formatter."""

    span: Span
    text: str


@dataclass(eq=False, slots=True)
class File(Node):
    items: list[TopLevel]
    comments: list[Comment] = field(default_factory=list)
