"""Formatter for CSL source text.

It changes white space only: every token and every comment stays, in its order, so a formatted program means the same.
Line breaks inside a statement are the author's; the formatter sets those between statements and around blocks, the
indentation, the spaces between tokens, and at most one blank line in a row. The syntax tree tells what each ambiguous
token is: `{` of a block or of a literal, `-` and `&` as prefix or infix, `|` as operator or bar, `[` of a type or an
index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fabrica_bench.csl import ast
from fabrica_bench.csl.lexer import Token, tokenize
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.source import virtual_source

INDENT: Final = 2
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
#: Never a space before these.
_TIGHT_BEFORE: Final = frozenset((")", "]", ",", ";", ".*"))
#: `(` right after these is not separated.
_CALL_LIKE: Final = frozenset(("ident", "builtin", "align", "linksection", "linkname", "fn", "task", "enum"))


def format_source(text: str, name: str = "<source>") -> str:
    """The formatted text; formatting it again changes nothing.

    Args:
        text: A CSL file.
        name: Its path, for diagnostics.

    Raises:
        CslError: The text has syntax errors; there is no formatted form then.
    """
    source = virtual_source(name, text)
    tree = parse_file(source)
    result = _Printer(source, tree).run()
    if _content(result) != _content(text):
        raise AssertionError(f"formatting {name} changed more than white space; please report this as a bug")
    return result


def _content(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """The tokens and comments of a text, without their places."""
    lexed = tokenize(virtual_source("", text))
    return [(token.kind, token.text) for token in lexed.tokens], [comment.text.rstrip() for comment in lexed.comments]


# ------------------------------------------------------------------------------------------------ token roles


@dataclass
class _Roles:
    """What the syntax tree says about tokens, by character offset."""

    prefix: set[int] = field(default_factory=set)
    infix: set[int] = field(default_factory=set)
    block_ends: dict[int, int] = field(default_factory=dict)  # offset of '}' -> number of statements
    call_ends: set[int] = field(default_factory=set)
    type_brackets: set[int] = field(default_factory=set)
    field_names: set[int] = field(default_factory=set)
    statement_ends: set[int] = field(default_factory=set)
    tensor_bars: set[int] = field(default_factory=set)
    assembly: list[ast.Span] = field(default_factory=list)


def _children(node: ast.Node) -> Iterator[ast.Node]:
    for name in node.__dataclass_fields__:
        value = getattr(node, name)
        if isinstance(value, ast.Node):
            yield value
        elif isinstance(value, list):
            yield from (child for child in value if isinstance(child, ast.Node))
        elif isinstance(value, ast.Attributes):
            yield from (expr for expr in (value.align, value.linksection, value.linkname) if expr is not None)


def _roles(tree: ast.File) -> _Roles:
    roles = _Roles()
    stack: list[ast.Node] = [tree]
    while stack:
        node = stack.pop()
        _note_role(node, roles)
        stack += _children(node)
    return roles


def _note_role(node: ast.Node, roles: _Roles) -> None:
    span = node.span
    match node:
        case ast.Unary():
            roles.prefix.add(span.start)
        case ast.Binary():
            roles.infix.add(node.op_span.start)
        case ast.PointerType():
            (roles.type_brackets if node.is_many else roles.prefix).add(span.start)
        case ast.ArrayType():
            roles.type_brackets.add(span.start)
        case ast.FieldAccess():
            roles.field_names.add(node.name_span.start)
        case ast.Call():
            roles.call_ends.add(span.end - 1)
        case ast.Block():
            roles.block_ends[span.end - 1] = len(node.stmts)
            roles.statement_ends.update(stmt.span.end for stmt in node.stmts)
        case ast.File():
            roles.statement_ends.update(item.span.end for item in node.items)
        case ast.TensorAccess():
            roles.tensor_bars.add(span.start)
        case ast.AsmExpr():
            roles.assembly.append(span)


# ---------------------------------------------------------------------------------------------------- printer


class _Piece(NamedTuple):
    """A token or a comment, with how it follows the piece before it in the source."""

    kind: str
    text: str
    start: int
    end: int
    line_breaks: int


@dataclass
class _Bracket:
    """An open bracket: its role, the indentation of the line it belongs to, and whether its content stands on lines of
    its own."""

    role: str  # block, inline block, tensor, list
    line_indent: int
    spread: bool


class _Printer:
    def __init__(self, source: ast.SourceFile, tree: ast.File) -> None:
        self.roles = _roles(tree)
        self.pieces = _pieces(source, tree, self.roles)
        self.partner = _match_brackets(self.pieces)
        self.brackets: list[_Bracket] = []
        self.bars: dict[int, str] = _classify_bars(self.pieces, self.roles)
        self.lines: list[str] = []
        self.line = ""
        self.indent = 0

    def run(self) -> str:
        last = -1  # index of the last token
        for index, piece in enumerate(self.pieces):
            closes = piece.kind in _CLOSING
            bracket = self.brackets.pop() if closes else None
            breaks = self.breaks_before(index, last, bracket)
            if index == 0 or breaks:
                self.start_line(breaks, self.indent_of(index, last, bracket))
                self.line += piece.text
            else:
                self.line += self.space_before(index, last) + piece.text
            if bracket is not None:
                self.indent = bracket.line_indent  # what follows belongs to the line that opened it
            if piece.kind in _OPENING:
                self.brackets.append(self.open_bracket(index))
            if piece.kind != "comment":
                last = index
        self.lines.append(self.line)
        text = "\n".join(line.rstrip() for line in self.lines).strip("\n")
        return text + "\n" if text else ""

    def start_line(self, breaks: int, indent: int) -> None:
        self.lines.append(self.line)
        if breaks > 1:
            self.lines.append("")
        self.indent = indent
        self.line = " " * indent

    def open_bracket(self, index: int) -> _Bracket:
        piece = self.pieces[index]
        after = self.pieces[index + 1]
        role = "list"
        if piece.kind == "{":
            close = self.pieces[self.partner[index]]
            if close.start in self.roles.block_ends:
                role = "inline block" if self.is_inline(index) else "block"
            elif index and self.bars.get(index - 1) == "tensor close":
                role = "tensor"
        return _Bracket(role, self.indent, piece.kind == "{" and after.kind != "comment" and after.line_breaks > 0)

    def is_inline(self, index: int) -> bool:
        """Whether a block stays on one line: the author wrote it so, and no block in it has two statements."""
        inside = range(index + 1, self.partner[index] + 1)
        return all(
            self.pieces[i].line_breaks == 0
            and self.pieces[i].kind != "comment"
            and self.roles.block_ends.get(self.pieces[i].start, 0) <= 1
            for i in inside
        )

    # ------------------------------------------------------------------------------------------- line breaks

    def breaks_before(self, index: int, last: int, closed: _Bracket | None) -> int:
        """0: same line, 1: new line, 2: new line after a blank one."""
        piece = self.pieces[index]
        if index == 0:
            return 0
        before = self.pieces[index - 1]
        wanted = min(piece.line_breaks, 2)
        if before.kind == "comment":
            wanted = max(wanted, 1)
        elif piece.kind == "comment":
            pass
        elif self.joins(index, last, closed):
            return 0
        elif self.forces_break(index, last, closed):
            wanted = max(wanted, 1)
        if wanted == 2 and ((before.kind in _OPENING and last == index - 1) or closed is not None):
            wanted = 1
        return wanted

    def joins(self, index: int, last: int, closed: _Bracket | None) -> bool:
        """Whether the token goes on the line of the one before it, whatever the author did."""
        piece, previous = self.pieces[index], self.pieces[last]
        if previous.kind in _OPENING and closed is not None:
            return True  # nothing in between
        if piece.kind in (";", ","):
            return True
        if piece.kind == "else":
            is_case = self.pieces[index + 1].kind == "=>"
            return previous.kind == "}" and not is_case and previous.end not in self.roles.statement_ends
        return piece.kind == "{" and not self.at_element_start(last)

    def forces_break(self, index: int, last: int, closed: _Bracket | None) -> bool:
        """Whether the token starts a line, whatever the author did."""
        previous = self.pieces[last]
        if closed is not None:
            return closed.role == "block" or closed.spread
        inside = self.brackets[-1] if self.brackets else None
        if inside is not None and inside.role != "block":
            return False
        if previous.kind == "{" and inside is not None and self.partner[last] > index:
            return True
        return previous.kind == ";" or (previous.kind == "}" and previous.end in self.roles.statement_ends)

    # ------------------------------------------------------------------------------------------- indentation

    def at_element_start(self, last: int) -> bool:
        """Whether a new statement, list element or declaration follows the token of index `last`."""
        if last < 0:
            return True
        previous = self.pieces[last]
        if previous.kind in _OPENING:
            return True
        role = self.brackets[-1].role if self.brackets else "block"
        if role in ("block", "inline block"):
            return previous.kind == ";" or (previous.kind == "}" and previous.end in self.roles.statement_ends)
        return previous.kind == "," or (previous.kind == "}" and previous.start in self.roles.block_ends)

    def indent_of(self, index: int, last: int, closed: _Bracket | None) -> int:
        """Indentation of a line that starts with this piece."""
        if closed is not None:
            return closed.line_indent
        base = self.brackets[-1].line_indent + INDENT if self.brackets else 0
        while index + 1 < len(self.pieces) and self.pieces[index].kind == "comment":
            index += 1  # a comment stands like what it precedes
        hangs = not self.at_element_start(last) and self.pieces[index].kind not in ("else", "{")
        return base + INDENT if hangs else base

    # ------------------------------------------------------------------------------------------------ spaces

    def space_before(self, index: int, last: int) -> str:
        piece = self.pieces[index]
        if piece.kind == "comment":
            return "  "
        return "" if self.is_tight(index, self.pieces[last], piece) else " "

    def is_tight(self, index: int, left: _Piece, right: _Piece) -> bool:
        """Whether two neighbours on a line are not separated."""
        roles, kind = self.roles, right.kind
        if kind in _TIGHT_BEFORE or left.kind in ("(", "[", "."):
            return True
        if left.start in roles.prefix:
            return True
        if left.kind == "]" and self.pieces[self.partner[index - 1]].start in roles.type_brackets:
            return True
        if kind == ".":
            return self.pieces[index + 1].start in roles.field_names
        if kind == "[":
            return right.start not in roles.type_brackets
        if kind == "(":
            close = self.pieces[self.partner[index]].start
            return close in roles.call_ends or (left.kind in _CALL_LIKE and left.start not in roles.field_names)
        if kind == ":" or left.kind == ":":
            return self.is_tight_colon(index)
        if kind in "{}" or left.kind == "{":
            return self.is_tight_brace(index, left, right)
        return "open" in self.bars.get(index - 1, "") or "close" in self.bars.get(index, "")

    def is_tight_colon(self, index: int) -> bool:
        if self.pieces[index].kind == ":":
            return self.pieces[index - 1].kind not in (")", "break", "continue")
        return self.pieces[index - 2].kind in ("break", "continue")

    def is_tight_brace(self, index: int, left: _Piece, right: _Piece) -> bool:
        if left.kind == "{" and right.kind == "}":
            return True
        if right.kind == "{":
            return left.kind == "{" or self.bars.get(index - 1) == "tensor close"
        open_index = index - 1 if left.kind == "{" else self.partner[index]
        return open_index > 0 and self.bars.get(open_index - 1) == "tensor close"


# ------------------------------------------------------------------------------------------------ preparation


def _pieces(source: ast.SourceFile, tree: ast.File, roles: _Roles) -> list[_Piece]:
    """Tokens and comments in order; inline assembly is one piece, kept as it is."""
    tokens = tokenize(source).tokens[:-1]
    inside = [(span.start, span.end) for span in roles.assembly]

    def is_free(start: int) -> bool:
        return not any(low <= start < high for low, high in inside)

    items: list[Token] = [token for token in tokens if is_free(token.start)]
    items += [
        Token("comment", comment.text.rstrip(), comment.span.start, comment.span.end)
        for comment in tree.comments
        if is_free(comment.span.start)
    ]
    items += [Token("asm", source.text[low:high], low, high) for low, high in inside]
    items.sort(key=lambda item: item.start)
    pieces: list[_Piece] = []
    end = 0
    for item in items:
        breaks = source.text.count("\n", end, item.start)
        pieces.append(_Piece(item.kind, item.text, item.start, item.end, breaks))
        end = item.end
    return pieces


def _match_brackets(pieces: list[_Piece]) -> dict[int, int]:
    """Index of each bracket -> index of its partner."""
    partner: dict[int, int] = {}
    unclosed: list[int] = []
    for index, piece in enumerate(pieces):
        if piece.kind in _OPENING:
            unclosed.append(index)
        elif piece.kind in _CLOSING:
            partner[index] = unclosed.pop()
            partner[partner[index]] = index
    return partner


def _classify_bars(pieces: list[_Piece], roles: _Roles) -> dict[int, str]:
    """Index of each `|` that is no operator -> `open`, `close`, `tensor open` or `tensor close`."""
    bars: dict[int, str] = {}
    kind = ""
    for index, piece in enumerate(pieces):
        if piece.kind == "|" and piece.start not in roles.infix:
            if kind:
                bars[index], kind = f"{kind}close", ""
            else:
                kind = "tensor " if piece.start in roles.tensor_bars else " "
                bars[index] = f"{kind}open"
    return bars
