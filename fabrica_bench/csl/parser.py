"""Parser: CSL text to the syntax tree of `fabrica_bench.csl.ast`.

Hand-written recursive descent in three layers over the token cursor: expressions, statements, declarations. After an
error the parser goes on at the next statement or declaration, so that one run reports several errors.
"""

from __future__ import annotations

import sys
from typing import Final, Literal, NoReturn, cast

from fabrica_bench.csl import ast
from fabrica_bench.csl.diagnostics import CslError, Diagnostic, Severity
from fabrica_bench.csl.lexer import MAX_LEXICAL_ERRORS, tokenize
from fabrica_bench.csl.statement_parser import StatementParser
from fabrica_bench.csl.token_cursor import (
    CHAIN_HINT,
    CHAIN_MESSAGE,
    MAX_TREE_DEPTH,
    ParseAbortedError,
    ParseFailureError,
    describe,
    track_bracket,
)

#: Python frames that parsing, and walking the deepest accepted tree, may need.
RECURSION_LIMIT: Final = 10_000

_DECLARATION_KEYWORDS: Final = frozenset(("const", "var", "param", "comptime", "layout", "export", "extern", "inline"))

_FOREIGN_WORDS: Final = {
    "pub": "everything in a module is visible to its importers; remove 'pub'",
    "static": "use 'var' or 'const' at top level",
    "let": "use 'const' or 'var'",
    "def": "functions are declared with 'fn'",
    "func": "functions are declared with 'fn'",
    "function": "functions are declared with 'fn'",
    "import": 'write `const name = @import_module("<name>", .{ ... });`',
    "include": 'write `const name = @import_module("file.csl");`',
    "__global__": "write `fn name() void { ... }` and export it, or `task name() void { ... }`",
    "__device__": "write `fn name() void { ... }`",
    "void": "write `fn name() void { ... }`",
}


def parse_file(source: ast.SourceFile) -> ast.File:
    """The syntax tree of a file.

    Raises:
        CslError: With every lexical and syntax error found, sorted by place.
    """
    tree, diagnostics = parse_with_diagnostics(source)
    if any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics):
        raise CslError(diagnostics)
    return tree


def parse_with_diagnostics(source: ast.SourceFile) -> tuple[ast.File, list[Diagnostic]]:
    """What could be parsed, and every diagnostic (unsorted). With errors the tree lacks the faulty parts."""
    if sys.getrecursionlimit() < RECURSION_LIMIT:
        sys.setrecursionlimit(RECURSION_LIMIT)
    lexed = tokenize(source)
    parser = Parser(source, lexed)
    tree = ast.File(ast.Span(source, 0, len(source.text)), [], lexed.comments)
    try:
        if len(lexed.diagnostics) >= MAX_LEXICAL_ERRORS:
            parser.give_up(lexed.diagnostics[-1].span)
        parser.file(tree.items)
    except ParseAbortedError:
        pass
    else:
        if parser.deepest + parser.longest_chain > 50:
            parser.diagnostics += _depth_errors(tree)
    return tree, parser.diagnostics


class Parser(StatementParser):
    """Adds top-level declarations to statements."""

    layout: ast.LayoutBlock | None = None

    def file(self, items: list[ast.TopLevel]) -> None:
        """All declarations up to the end of the file, appended to `items`."""
        while self.kind != "eof":
            index = self.index
            self.item_column = self.column(self.token)
            try:
                items.append(self.top_level())
            except ParseFailureError:
                self.depth = 0
                self.skip_declaration(index)

    def skip_declaration(self, start: int) -> None:
        """Go to where the next declaration can start, past the one whose first token has index `start`."""
        if self.index > start:
            self.skip_statement(start)
            return
        # Code outside of any declaration, perhaps because a block was closed too early: one error for all of it.
        unclosed: list[str] = []
        while self.kind != "eof":
            track_bracket(unclosed, self.kind)
            self.advance()
            if self.starts_top_level() or (not unclosed and self.restarts()):
                return

    def restarts(self) -> bool:
        """Whether skipped code outside of any declaration ends here."""
        foreign = self.token.text in _FOREIGN_WORDS and self.column(self.token) == 1
        return foreign or self.kind in _DECLARATION_KEYWORDS

    def top_level(self) -> ast.TopLevel:
        start, kind = self.token.start, self.kind
        if kind in ("export", "extern"):
            storage = cast(Literal["export", "extern"], self.advance().kind)
            return self.stored_declaration(start, storage)
        if kind in ("const", "var", "param"):
            return self.variable(start)
        if kind == "inline":
            self.advance()
            if self.kind != "fn":
                self.fail_expected("'fn' after 'inline'", "loops belong in a function, 'comptime' or 'layout' block")
            return self.function(start, None, is_inline=True)
        if kind in ("fn", "task"):
            return self.function(start, None)
        if kind == "comptime":
            return self.comptime_block()
        if kind == "layout":
            return self.layout_block()
        if kind == "ident" and self.token.text == "color" and self.peek().kind == "ident":
            return self.color_declaration()
        self.no_declaration()

    def no_declaration(self) -> NoReturn:
        token = self.token
        if token.kind == "}":
            self.fail("unexpected '}'", self.span(token), "no block is open here; remove it")
        if token.kind == ";":
            self.fail("unexpected ';'", self.span(token), "no ';' is needed after a block; remove it")
        hint = _FOREIGN_WORDS.get(token.text)
        if hint is None and (token.kind == "builtin" or token.kind in ("if", "for", "while", "switch", "return")):
            hint = "statements belong in a function, 'comptime' or 'layout' block"
        self.fail_expected("a declaration", hint)

    def stored_declaration(self, start: int, storage: Literal["export", "extern"]) -> ast.TopLevel:
        if self.kind in ("const", "var"):
            return self.variable(start, storage=storage)
        is_inline = self.accept("inline")
        if self.kind == "fn":
            return self.function(start, storage, is_inline)
        hint = None
        if self.kind in ("param", "task"):
            hint = f"a '{self.kind}' can't be declared '{storage}'"
        self.fail_expected(f"'const', 'var' or 'fn' after '{storage}'", hint)

    def comptime_block(self) -> ast.ComptimeBlock:
        start = self.advance().start
        if self.kind != "{":
            self.fail_expected("'{' after 'comptime'", "at top level only `comptime { ... }` is allowed")
        body = self.block()
        result = ast.ComptimeBlock(self.span_from(start), body)
        self.accept(";")
        return result

    def layout_block(self) -> ast.LayoutBlock:
        keyword = self.advance()
        if self.kind != "{":
            self.fail_expected("'{' after 'layout'")
        body = self.block()
        block = ast.LayoutBlock(self.span_from(keyword.start), body)
        if self.layout is not None:
            first = ast.Span(self.source, self.layout.span.start, self.layout.span.start + len("layout"))
            self.report("a file has at most one layout block", self.span(keyword), None, (("the first one", first),))
        else:
            self.layout = block
        return block

    def color_declaration(self) -> ast.ColorDecl:
        start = self.advance().start
        name = self.advance()
        self.expect_semicolon(f"the declaration of '{name.text}'")
        return ast.ColorDecl(self.span_from(start), name.text, self.span(name))

    # -------------------------------------------------------------------------------------------- functions

    def function(self, start: int, storage: Literal["export", "extern"] | None, is_inline: bool = False) -> ast.FnDecl:
        kind: Literal["fn", "task"] = "task" if self.advance().kind == "task" else "fn"
        name = self.expect_name(f"a name after '{kind}'")
        opening = self.expect("(", f"after '{kind} {name.text}'")
        params = self.comma_list(opening, ")", lambda: self.parameter(allow_bare=storage == "extern"))
        attributes = ast.Attributes()
        self.attributes(attributes)
        result = self.return_type(name.text)
        self.attributes(attributes)
        body: ast.Block | None = None
        if self.kind == "{":
            body = self.block()
        elif storage == "extern":
            self.expect_semicolon(f"the declaration of '{name.text}'")
        else:
            hint = "only an 'extern fn' has no body" if self.kind == ";" else None
            self.fail_expected(f"'{{' to open the body of '{name.text}'", hint)
        if storage == "extern" and body is not None:
            self.report(f"extern function '{name.text}' has a body", self.span(name), "remove the body or 'extern'")
        return ast.FnDecl(
            self.span_from(start),
            kind,
            name.text,
            self.span(name),
            params,
            result,
            body,
            attributes,
            storage,
            is_inline,
        )

    def return_type(self, name: str) -> ast.Expr:
        if self.kind == "->":
            self.report("unexpected '->'", self.span(self.token), "the return type follows ')' directly")
            self.advance()
        if self.kind in ("{", ";"):
            end = self.previous.end
            hint = "write 'void' if it returns nothing"
            self.report(f"'{name}' has no return type", ast.Span(self.source, end, end), hint)
            return ast.Ident(ast.Span(self.source, end, end), "void")
        return self.type_expression()

    def parameter(self, allow_bare: bool) -> ast.ParamDecl:
        start = self.token.start
        is_comptime = self.accept("comptime")
        if self.kind == "ident" and self.peek().kind == ":":
            name = self.advance().text
            self.advance()
            type_expr = None if self.accept("anytype") else self.type_expression()
            return ast.ParamDecl(self.span_from(start), name, type_expr, is_comptime)
        if allow_bare:
            type_expr = self.type_expression()
            return ast.ParamDecl(self.span_from(start), None, type_expr, is_comptime)
        name_token = self.expect_name("a parameter name")
        hint = f"a parameter is written `{name_token.text}: T`"
        if self.kind == "ident":
            hint = f"a parameter is written `{self.token.text}: {name_token.text}`"
        self.fail(f"expected ':' after the parameter name, got {describe(self.token)}", self.span(self.token), hint)


# ---------------------------------------------------------------------------------------------- tree depth


def _depth_errors(tree: ast.File) -> list[Diagnostic]:
    """One error if the tree is deeper than later passes, which recurse over it, can take."""
    stack: list[tuple[ast.Node, int]] = [(item, 1) for item in tree.items]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_TREE_DEPTH:
            return [Diagnostic(Severity.ERROR, CHAIN_MESSAGE, node.span, CHAIN_HINT)]
        for name in node.__dataclass_fields__:
            value = getattr(node, name)
            if isinstance(value, ast.Node):
                stack.append((value, depth + 1))
            elif isinstance(value, list):
                stack += [(child, depth + 1) for child in value if isinstance(child, ast.Node)]
    return []
