"""The parser's view of the token list: look ahead, consume, report, recover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from fabrica_bench.csl.ast import SourceFile, Span
from fabrica_bench.csl.diagnostics import Diagnostic, Severity
from fabrica_bench.csl.lexer import KEYWORDS, Lexed, Token

#: Deepest nesting of expressions and statements. Real programs stay below 30; the limit bounds recursion.
MAX_NESTING: Final = 200
#: Deepest syntax tree that is accepted. Chains (`a + b + ...`, `else if`) deepen the tree without nesting the source.
MAX_TREE_DEPTH: Final = 500
#: After this many errors the rest of a file is not worth reading.
MAX_ERRORS: Final = 50

CHAIN_MESSAGE: Final = f"an expression or statement chain is more than {MAX_TREE_DEPTH} levels deep"
CHAIN_HINT: Final = "split it into several statements"

_CLOSING: Final = {")": "(", "]": "[", "}": "{"}
#: After the closing brace of a skipped part these tokens continue its statement.
_CONTINUES: Final = frozenset((";", ",", ")", "]", "else"))

T = TypeVar("T")


class ParseFailureError(Exception):
    """An error was reported; the nearest enclosing statement or declaration is given up."""


class UnclosedBlockError(ParseFailureError):
    """A top-level declaration starts inside a block; all open blocks are given up."""


class ParseAbortedError(Exception):
    """The rest of the file is given up."""


def describe(token: Token) -> str:
    """A token as messages name it."""
    if token.kind == "eof":
        return "end of file"
    text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    return f"keyword '{text}'" if token.kind in KEYWORDS else f"'{text}'"


class TokenCursor:
    """A position in the tokens of one file, and the errors found so far.

    `token` is the next token and `kind` its kind; `previous` is the one consumed last.
    """

    def __init__(self, source: SourceFile, lexed: Lexed) -> None:
        self.source = source
        self.tokens = lexed.tokens
        self.diagnostics: list[Diagnostic] = list(lexed.diagnostics)
        self.lexical = {error.span.start: error.message for error in lexed.diagnostics if error.span is not None}
        self.index = 0
        self.token: Token = self.tokens[0]
        self.kind: str = self.token.kind
        self.previous: Token = Token("eof", "", 0, 0)
        self.depth = 0
        self.deepest = 0
        self.longest_chain = 0
        #: Column of the top-level declaration being parsed: a declaration no further right is not part of it.
        self.item_column = 1
        self.last_error = -1

    # ------------------------------------------------------------------------------------------ consuming

    def advance(self) -> Token:
        """Consume the next token and return it. The final `eof` is never consumed."""
        token = self.previous = self.token
        if token.kind != "eof":
            self.index += 1
            self.token = self.tokens[self.index]
            self.kind = self.token.kind
        return token

    def peek(self, ahead: int = 1) -> Token:
        """The token `ahead` places after the next one."""
        index = self.index + ahead
        return self.tokens[index] if index < len(self.tokens) else self.tokens[-1]

    def accept(self, kind: str) -> bool:
        """Consume the next token if it is of this kind."""
        if self.kind == kind:
            self.advance()
            return True
        return False

    def expect(self, kind: str, where: str, hint: str | None = None) -> Token:
        """Consume a token of this kind, or report that it is missing `where` (e.g. `after the condition`)."""
        if self.kind != kind:
            self.fail_expected(f"'{kind}' {where}", hint)
        return self.advance()

    def expect_closing(self, kind: str, opening: Token, hint: str | None = None) -> Token:
        """Consume the bracket that closes `opening`."""
        if self.kind != kind:
            self.fail_unclosed(f"'{kind}'", opening, hint)
        return self.advance()

    def expect_name(self, what: str) -> Token:
        """Consume an identifier that declares or names `what`."""
        if self.kind != "ident":
            hint = f"'{self.token.text}' is a keyword and can't be a name" if self.kind in KEYWORDS else None
            self.fail_expected(what, hint)
        return self.advance()

    def expect_member_name(self, what: str, hint: str | None = None) -> Token:
        """Consume a field name: an identifier or a keyword."""
        if not self.is_name(self.token):
            self.fail_expected(what, hint)
        return self.advance()

    def expect_semicolon(self, what: str) -> None:
        """Consume the `;` that ends `what`. When only it is missing, say so and go on."""
        if self.kind == ";":
            self.advance()
            return
        end = self.previous.end
        alone = self.kind in ("}", "eof") or self.on_new_line(self.token)
        got = "" if alone else f", got {describe(self.token)}"
        self.report(f"expected ';' after {what}{got}", Span(self.source, end, end))
        if not alone:
            raise ParseFailureError

    @staticmethod
    def is_name(token: Token) -> bool:
        """Whether the token can be a field name."""
        return token.kind == "ident" or token.kind in KEYWORDS

    def comma_list(self, opening: Token, close: str, item: Callable[[], T], hint: str | None = None) -> list[T]:
        """Items separated by commas up to and including `close`; a trailing comma is allowed.

        With a `hint`, which must say that commas separate them, a `;` is reported and taken as a comma.
        """
        items: list[T] = []
        while self.kind != close:
            items.append(item())
            if self.kind == ";" and hint is not None:
                self.report(f"expected ',' or '{close}', got ';'", self.span(self.token), hint)
                self.advance()
            elif self.kind == ",":
                self.advance()
            elif self.kind != close:
                self.fail_unclosed(f"',' or '{close}'", opening)
        self.advance()
        return items

    # -------------------------------------------------------------------------------------------- places

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    def span_from(self, start: int) -> Span:
        """From a character offset to the end of the last consumed token."""
        return Span(self.source, start, self.previous.end)

    def on_new_line(self, token: Token) -> bool:
        """Whether a line break lies between the last consumed token and this one."""
        return "\n" in self.source.text[self.previous.end : token.start]

    def column(self, token: Token) -> int:
        """1-based column of a token."""
        return self.source.position(token.start)[1]

    # -------------------------------------------------------------------------------------------- errors

    def report(
        self, message: str, span: Span, hint: str | None = None, notes: tuple[tuple[str, Span], ...] = ()
    ) -> None:
        """Record an error; a consequence of one that was already found is dropped.

        That is a second one at the same place, or one right after a stray character or an unterminated string.
        """
        if span.start == self.last_error or self.follows_lexical_error():
            return
        self.last_error = span.start
        self.diagnostics.append(Diagnostic(Severity.ERROR, message, span, hint, notes))
        if len(self.diagnostics) >= MAX_ERRORS:
            self.give_up(span)

    def give_up(self, span: Span | None) -> NoReturn:
        """Stop at this place, after too many errors."""
        note = f"{len(self.diagnostics)} errors; the rest of the file was not read"
        self.diagnostics.append(Diagnostic(Severity.NOTE, note, span))
        raise ParseAbortedError

    def follows_lexical_error(self) -> bool:
        if not self.lexical:
            return False
        gap = range(self.previous.end, self.token.start)
        unterminated = self.lexical.get(self.previous.start, "").startswith("unterminated")
        return unterminated or any(place in gap for place in self.lexical)

    def fail(
        self, message: str, span: Span, hint: str | None = None, notes: tuple[tuple[str, Span], ...] = ()
    ) -> NoReturn:
        """Record an error and give up the current statement or declaration."""
        self.report(message, span, hint, notes)
        raise ParseFailureError

    def fail_expected(self, what: str, hint: str | None = None) -> NoReturn:
        self.fail(f"expected {what}, got {describe(self.token)}", self.span(self.token), hint)

    def fail_unclosed(self, what: str, opening: Token, hint: str | None = None) -> NoReturn:
        notes: tuple[tuple[str, Span], ...] = ()
        if self.source.position(opening.start)[0] != self.source.position(self.token.start)[0]:
            notes = ((f"to close this '{opening.text}'", self.span(opening)),)
        self.fail(f"expected {what}, got {describe(self.token)}", self.span(self.token), hint, notes)

    def enter(self) -> None:
        """One level deeper; balanced by `self.depth -= 1`, or by restoring the depth when recovering."""
        self.depth += 1
        if self.depth > self.deepest:
            self.deepest = self.depth
            if self.depth > MAX_NESTING:
                message = f"code is nested more than {MAX_NESTING} levels deep"
                self.report(message, self.span(self.token), "move inner parts to functions or constants")
                raise ParseAbortedError

    def note_chain(self, length: int) -> None:
        """A construct has repeated `length` times, such as the operators of a sum: the tree is at least that deep."""
        if length > self.longest_chain:
            self.longest_chain = length
            if length > MAX_TREE_DEPTH:
                self.report(CHAIN_MESSAGE, self.span(self.previous), CHAIN_HINT)
                raise ParseAbortedError

    # ------------------------------------------------------------------------------------------- recovery

    def starts_top_level(self) -> bool:
        """Whether the next token can only start a top-level declaration, wherever it stands."""
        kind, following = self.kind, self.peek().kind
        if kind in ("fn", "task"):
            return following == "ident"
        if kind == "layout":
            return following == "{"
        if kind in ("export", "extern"):
            return following in ("const", "var", "fn", "inline")
        return kind == "param" and following == "ident"

    def skip_statement(self, start: int) -> None:
        """Give up the statement or declaration whose first token has index `start`.

        Goes past its `;` or closing brace, or in front of the `}` of the enclosing block, or of the next declaration.
        Brackets opened since `start` are matched; a `;` shows that parentheses before it were never closed.
        """
        if self.kind == ";" and self.peek().start > self.token.end and self.line_ends_after(self.token):
            self.advance()
            return
        unclosed = self.open_brackets(start)
        if self.previous.kind == "}" and not unclosed and self.index > start and self.on_new_line(self.token):
            return
        while self.kind != "eof":
            if self.index > start and self.starts_top_level() and self.column(self.token) <= self.item_column:
                return
            kind = self.kind
            if kind == "}" and "{" not in unclosed:
                return
            self.advance()
            track_bracket(unclosed, kind)
            if kind == ";" and "{" not in unclosed:
                return
            if kind == "}" and not unclosed and self.kind not in _CONTINUES and self.on_new_line(self.token):
                return

    def open_brackets(self, start: int) -> list[str]:
        """The brackets opened and not closed between the token of index `start` and the next one."""
        unclosed: list[str] = []
        for token in self.tokens[start : self.index]:
            track_bracket(unclosed, token.kind)
        return unclosed

    def line_ends_after(self, token: Token) -> bool:
        """Whether only spaces or a comment follow on the token's line."""
        end = self.source.text.find("\n", token.end)
        rest = self.source.text[token.end : end if end >= 0 else None].strip()
        return not rest or rest.startswith("//")


def track_bracket(unclosed: list[str], kind: str) -> None:
    """Push an opening bracket; pop its opening for a closing one, with unclosed brackets inside it."""
    if kind in _CLOSING.values():
        unclosed.append(kind)
    elif kind in _CLOSING and _CLOSING[kind] in unclosed:
        while unclosed.pop() != _CLOSING[kind]:
            pass
