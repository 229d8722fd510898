"""Recursive-descent parser for CSL statements and blocks, with recovery at statement level."""

from __future__ import annotations

from typing import Final, Literal, NoReturn

from fabrica_bench.csl import ast
from fabrica_bench.csl.expression_parser import ExpressionParser
from fabrica_bench.csl.lexer import Token
from fabrica_bench.csl.token_cursor import ParseFailureError, UnclosedBlockError, describe, track_bracket

ASSIGN_OPS: Final = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="))
#: After `return` or `break` these tokens mean that no value follows.
_NO_VALUE: Final = frozenset((";", "}", "else", ",", "eof"))
_LABELLED: Final = frozenset(("{", "for", "while", "inline", "if"))
_LOOP_HINT: Final = "a counted loop is `for (@range(u16, n)) |i| { ... }`"
_C_TYPES: Final = {"int": "i32", "unsigned": "u32", "float": "f32", "half": "f16", "char": "u8", "short": "i16"}

Body = ast.Expr | ast.Stmt


class StatementParser(ExpressionParser):
    """Adds statements to expressions.

    Statements in a place where `;` may be optional (branches, loop bodies) are parsed to a pair: the node, and whether
    it is complete, that is, ended with a block or has consumed its `;`.
    """

    def top_level(self) -> ast.TopLevel:
        """A top-level declaration."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ blocks

    def block(self, label: Token | None = None) -> ast.Block:
        opening = self.expect("{", "to open a block")
        start = opening.start if label is None else label.start
        stmts: list[ast.Stmt] = []
        while self.kind != "}":
            misplaced = self.starts_top_level()
            if self.kind == "eof" or (misplaced and self.column(self.token) <= self.item_column):
                self.unclosed(opening)
            depth, index = self.depth, self.index
            try:
                if misplaced:
                    self.misplaced_declaration()
                elif (statement := self.statement()) is not None:
                    stmts.append(statement)
            except UnclosedBlockError:
                raise
            except ParseFailureError:
                self.depth = depth
                self.skip_statement(index)
        self.advance()
        return ast.Block(self.span_from(start), stmts, label.text if label else None)

    def unclosed(self, opening: Token) -> NoReturn:
        """A block is still open at the end of the file, or where a top-level declaration starts."""
        what = "end of file" if self.kind == "eof" else f"'{self.kind}'"
        notes = (("this '{' is not closed", self.span(opening)),)
        self.report(f"expected '}}' before {what}", self.span(self.token), None, notes)
        raise UnclosedBlockError

    def misplaced_declaration(self) -> None:
        """A declaration that belongs at top level: reported, parsed, dropped."""
        hint = "declare it at top level, outside of any block"
        self.report(f"'{self.kind}' is not allowed inside a block", self.span(self.token), hint)
        self.top_level()

    # -------------------------------------------------------------------------------------------- statements

    def statement(self) -> ast.Stmt | None:
        """One statement with its `;`; None for an empty one."""
        start, kind = self.token.start, self.kind
        if kind == ";":
            self.advance()
            return None
        if kind in ("const", "var"):
            return self.variable(start)
        if kind == "comptime" and self.peek().kind in ("const", "var"):
            self.advance()
            return self.variable(start, is_comptime=True)
        node, complete = self.body()
        if not complete:
            self.expect_semicolon("the statement")
        return node if isinstance(node, ast.Stmt) else ast.ExprStmt(node.span, node)

    def body(self) -> tuple[Body, bool]:
        """A statement as a branch or loop body: its final `;` is not consumed when it belongs to the caller."""
        self.enter()
        result = self.compound() or (self.simple(), False)
        self.depth -= 1
        return result

    def complete_body(self) -> Body:
        node, complete = self.body()
        if not complete:
            self.expect_semicolon("the statement")
        return node

    def compound(self) -> tuple[Body, bool] | None:
        """A statement that ends with a block, or None if the next tokens start no such statement."""
        kind = self.kind
        label: Token | None = None
        if kind == "ident" and self.peek().kind == ":" and self.peek(2).kind in _LABELLED:
            label = self.advance()
            self.advance()
            kind = self.kind
        if kind == "{":
            return self.block(label), True
        if kind == "if":
            return self.if_statement(label)
        if kind in ("for", "while", "inline"):
            return self.loop(label), True
        if kind == "switch":
            return self.switch(), True
        if kind == "comptime":
            return self.comptime_statement()
        return None

    def comptime_statement(self) -> tuple[Body, bool] | None:
        """`comptime { ... }`, `comptime if ...` or `comptime switch ...`; other forms are plain expressions."""
        start = self.token.start
        following = self.peek().kind
        if following in ("for", "while"):
            hint = "write `inline for`, or put the loop in `comptime { ... }`"
            self.fail(f"'comptime {following}' is no statement", self.span(self.token), hint)
        if following == "{":
            self.advance()
            operand: Body = self.block()
            complete = True
        elif following == "if":
            self.advance()
            operand, complete = self.if_statement(None)
        elif following == "switch":
            self.advance()
            operand, complete = self.switch(), True
        else:
            return None
        assert isinstance(operand, ast.Expr)
        return ast.ComptimeExpr(self.span_from(start), operand), complete

    def simple(self) -> Body:
        """A statement without inner blocks, without its `;`."""
        kind, start = self.kind, self.token.start
        if kind == "return":
            self.advance()
            value = None if self.kind in _NO_VALUE else self.expression()
            return ast.Return(self.span_from(start), value)
        if kind == "break":
            self.advance()
            label = self.jump_label()
            value = None if self.kind in _NO_VALUE else self.expression()
            return ast.Break(self.span_from(start), label, value)
        if kind == "continue":
            self.advance()
            label = self.jump_label()
            return ast.Continue(self.span_from(start), label)
        if kind in ("const", "var", "param"):
            hint = "put braces around it" if kind != "param" else "declare it at top level"
            self.fail(f"'{kind}' is not allowed here", self.span(self.token), hint)
        return self.expression_or_assignment()

    def jump_label(self) -> str | None:
        return self.expect_name("a label after ':'").text if self.accept(":") else None

    def expression_or_assignment(self) -> Body:
        first, second = self.token, self.peek()
        if first.kind == second.kind == "ident" and "\n" not in self.source.text[first.end : second.start]:
            type_name = _C_TYPES.get(first.text, first.text)
            hint = f"declare a variable with `var {second.text}: {type_name} = value;`"
            self.fail(f"unexpected '{second.text}' after '{first.text}'", self.span(second), hint)
        expr = self.expression()
        if self.kind not in ASSIGN_OPS:
            return expr
        if not is_assignable(expr):
            hint = "a variable, a field, an element, or what a pointer points to can be assigned"
            self.report("the left side can't be assigned to", expr.span, hint)
        op = self.advance().kind
        value = self.expression()
        return ast.Assign(self.span_from(first.start), op, expr, value)

    # ------------------------------------------------------------------------------------------- control flow

    def arm_body(self) -> Body:
        if self.kind == "{" and not self.at_named_literal():
            return self.block()
        return self.body()[0]

    def if_statement(self, label: Token | None) -> tuple[ast.If, bool]:
        """`if` as a statement: branches are statements, with or without braces."""
        heads: list[tuple[int, ast.Expr, Body]] = []
        otherwise: Body | None = None
        while True:  # a loop, so that a long else-if chain is no recursion
            start = self.advance().start
            cond = self.condition("if")
            then, complete = self.body()
            heads.append((start, cond, then))
            self.note_chain(len(heads))
            if self.kind == ";" and not complete and self.peek().kind == "else":
                self.advance()
            if not self.accept("else"):
                break
            if self.kind != "if":
                otherwise, complete = self.body()
                break
        result: ast.If | None = None
        for start, cond, then in reversed(heads):
            result = ast.If(self.span_from(start), cond, then, result or otherwise)
        assert result is not None
        if label is not None:
            result.label = label.text
            result.span = self.span_from(label.start)
        return result, complete

    def loop(self, label: Token | None) -> ast.For | ast.While:
        start = self.token.start if label is None else label.start
        is_inline = self.accept("inline")
        name = label.text if label else None
        if self.kind == "for":
            return self.for_loop(start, is_inline, name)
        if self.kind == "while":
            return self.while_loop(start, is_inline, name)
        self.fail_expected("'for' or 'while' after 'inline'")

    def for_loop(self, start: int, is_inline: bool, label: str | None) -> ast.For:
        self.advance()
        opening = self.expect("(", "after 'for'", _LOOP_HINT)
        iterable = self.expression()
        if self.kind != ")":
            self.give_up_loop_header(opening)
        self.advance()
        self.expect("|", "after ')'", "name the element: `for (values) |v| { ... }`")
        item = self.expect_name("a name for the element").text
        index = self.expect_name("a name for the index").text if self.accept(",") else None
        self.expect("|", "after the loop variables")
        body = self.complete_body()
        return ast.For(self.span_from(start), iterable, item, index, body, is_inline, label)

    def give_up_loop_header(self, opening: Token) -> NoReturn:
        """Report a header that is not `(iterable)`; the body is still parsed, for its errors."""
        self.report(f"expected ')', got {describe(self.token)}", self.span(self.token), _LOOP_HINT)
        unclosed = [opening.kind]
        while self.kind not in ("{", "}", "eof") and unclosed:
            track_bracket(unclosed, self.kind)
            self.advance()
        if self.kind == "{":
            self.block()
        raise ParseFailureError

    def while_loop(self, start: int, is_inline: bool, label: str | None) -> ast.While:
        self.advance()
        cond = self.condition("while")
        step: ast.Assign | ast.ExprStmt | None = None
        if self.accept(":"):
            opening = self.expect("(", "after ':'", "the step is written `: (i += 1)`")
            node = self.expression_or_assignment()
            self.expect_closing(")", opening)
            if isinstance(node, ast.Assign):
                step = node
            else:
                assert isinstance(node, ast.Expr)
                step = ast.ExprStmt(node.span, node)
        body = self.complete_body()
        return ast.While(self.span_from(start), cond, step, body, is_inline, label)

    # -------------------------------------------------------------------------------------------- variables

    def variable(
        self, start: int, storage: Literal["export", "extern"] | None = None, is_comptime: bool = False
    ) -> ast.VarDecl:
        """`const`, `var` or `param`, with its `;`; the next token is that keyword."""
        kind = ast.VarKind(self.advance().kind)
        name = self.expect_name(f"a name after '{kind}'")
        if self.kind in ("ident", "[", "*") and not self.on_new_line(self.token):
            hint = f"write `{kind} {name.text}: T`"
            self.fail_expected(f"':' before the type of '{name.text}'", hint)
        type_expr = self.type_expression() if self.accept(":") else None
        attributes = ast.Attributes()
        self.attributes(attributes)
        init = None
        if self.accept("="):
            init = self.expression()
        elif self.kind == ":" and self.peek().kind == "=":
            self.fail_expected("'='", "write `name: T = value` or `name = value`")
        decl = ast.VarDecl(
            self.span_from(start), kind, name.text, self.span(name), type_expr, init, attributes, storage, is_comptime
        )
        self.expect_semicolon(f"the declaration of '{name.text}'")
        decl.span = self.span_from(start)
        return decl

    def attributes(self, into: ast.Attributes) -> None:
        """Any number of `align(...)`, `linksection(...)`, `linkname(...)`."""
        while self.kind in ("align", "linksection", "linkname"):
            name = self.advance()
            if getattr(into, name.kind) is not None:
                self.report(f"'{name.kind}' is given twice", self.span(name), "remove one of them")
            setattr(into, name.kind, self.condition(name.kind))


def is_assignable(expr: ast.Expr) -> bool:
    """Whether an expression has the form of an assignment's left side."""
    if isinstance(expr, ast.BuiltinCall):
        return expr.name == "field"
    return isinstance(expr, ast.Ident | ast.FieldAccess | ast.Index | ast.Deref)
