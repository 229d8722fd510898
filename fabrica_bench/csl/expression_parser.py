"""Recursive-descent parser for CSL expressions and types (types are expressions in CSL).

Precedence, tightest first: postfix; prefix `- ! ~ & comptime`; `* / %`; `+ -`; `<< >>`; `& ^ |`; comparisons, which do
not chain; `and`; `or`. Bit operators bind tighter than comparisons: `n & 1 == 0` is `(n & 1) == 0`.
"""

from __future__ import annotations

from typing import Final, Literal, NoReturn, cast

from fabrica_bench.csl import ast
from fabrica_bench.csl.lexer import Token
from fabrica_bench.csl.token_cursor import TokenCursor

COMPARISONS: Final = frozenset(("==", "!=", "<", "<=", ">", ">="))
_LEVELS: Final = (("or",), ("and",), tuple(COMPARISONS), ("&", "^", "|"), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
#: operator -> binding strength, 1 is loosest
PRECEDENCE: Final = {operator: level for level, row in enumerate(_LEVELS, 1) for operator in row}
_COMPARISON: Final = PRECEDENCE["=="]
#: keywords that a program may try to use as names
_MISTAKEN_FOR_NAMES: Final = frozenset(("param", "layout", "align", "export", "linkname", "linksection", "volatile"))
_PREFIX: Final = frozenset("-!~&")
#: how far to look for the end of a list of elements
_MAX_LIST_TOKENS: Final = 100_000
#: operators of C that are written twice, and the word that CSL has for them
_DOUBLED: Final = {"&": "and", "|": "or"}


class ExpressionParser(TokenCursor):
    """Parses expressions. Statements inside blocks are the subclass's business.

    The flag `brace` of several methods says whether `{` after a type may start a literal; it may not after the return
    type of a function, where it starts the body.
    """

    def block(self, label: Token | None = None) -> ast.Block:
        """A `{ ... }` block; the next token is its brace."""
        raise NotImplementedError

    def arm_body(self) -> ast.Expr | ast.Stmt:
        """What follows `=>` in a `switch`."""
        raise NotImplementedError

    def expression(self) -> ast.Expr:
        return self.binary(1)

    def type_expression(self) -> ast.Expr:
        """A type, as in declarations: no infix operators, and no literal braces."""
        return self.unary(brace=False)

    # -------------------------------------------------------------------------------------------- operators

    def binary(self, lowest: int) -> ast.Expr:
        start = self.token.start
        lhs = self.unary()
        chain = 0
        compared = False
        while True:
            operator = self.token
            name = operator.kind
            level = PRECEDENCE.get(name)
            if level is None:
                return lhs
            doubled = name in _DOUBLED and self.peek().kind == name and self.peek().start == operator.end
            if doubled:
                level = PRECEDENCE[_DOUBLED[name]]
            if level < lowest:
                return lhs
            if level == _COMPARISON:
                if compared:
                    hint = "write `a < b and b < c`, or add parentheses"
                    self.report("comparisons can't be chained", self.span(operator), hint)
                compared = True
            self.advance()
            if doubled:
                self.advance()
                name = _DOUBLED[name]
                self.report(f"CSL has no '{operator.kind * 2}'", self.span_from(operator.start), f"write '{name}'")
            op_span = self.span_from(operator.start)
            rhs = self.binary(level + 1)
            lhs = ast.Binary(self.span_from(start), name, lhs, rhs, op_span)
            chain += 1
            self.note_chain(chain)

    def unary(self, brace: bool = True) -> ast.Expr:
        kind, start = self.kind, self.token.start
        self.enter()
        result: ast.Expr
        if kind in _PREFIX:
            self.advance()
            operand = self.unary(brace)
            result = ast.Unary(self.span_from(start), cast(Literal["-", "!", "~", "&"], kind), operand)
        elif kind == "comptime":
            self.advance()
            operand = self.block() if self.kind == "{" else self.unary(brace)
            result = ast.ComptimeExpr(self.span_from(start), operand)
        elif kind == "*":
            self.advance()
            is_const = self.accept("const")
            element = self.unary(brace=False)
            result = ast.PointerType(self.span_from(start), element, is_const, False)
        else:
            result = self.postfix(brace)
        self.depth -= 1
        return result

    def postfix(self, brace: bool = True) -> ast.Expr:
        start = self.token.start
        base = self.primary(brace)
        chain = 0
        while True:
            kind = self.kind
            if kind == ".":
                base = self.field_access(base, start)
            elif kind == "(":
                opening = self.advance()
                args = self.comma_list(opening, ")", self.expression)
                base = ast.Call(self.span_from(start), base, args)
            elif kind == "[":
                opening = self.advance()
                indices = self.comma_list(opening, "]", self.expression)
                if not indices:
                    self.report("an index is missing between '[' and ']'", self.span_from(opening.start))
                base = ast.Index(self.span_from(start), base, indices)
            elif kind == ".*":
                self.advance()
                base = ast.Deref(self.span_from(start), base)
            elif kind == "{" and brace and (self.at_named_literal() or self.at_list(base)):
                base = self.init_list(base, start)
            else:
                return base
            chain += 1
            self.note_chain(chain)

    def at_named_literal(self) -> bool:
        """Whether the next tokens are `{ .name =`."""
        return self.peek(1).kind == "." and self.is_name(self.peek(2)) and self.peek(3).kind == "="

    def at_list(self, base: ast.Expr) -> bool:
        """Whether the next tokens are the elements of an array whose type `base` names: braces without a `;`."""
        if not isinstance(base, ast.Ident | ast.FieldAccess | ast.Call) or self.peek(1).kind == "}":
            return False
        depth = 0
        for ahead in range(_MAX_LIST_TOKENS):
            kind = self.peek(ahead).kind
            if kind in (";", "eof"):
                return False
            depth += (kind in ("{", "(", "[")) - (kind in ("}", ")", "]"))
            if not depth:
                return True
        return False

    def field_access(self, base: ast.Expr, start: int) -> ast.FieldAccess:
        self.advance()
        hint = None
        if self.kind == "." and self.peek(1).kind == ".":
            hint = "a case of a switch lists its values: `0, 1, 2 => ...`"
        elif self.kind == ".":
            hint = "CSL has no '..'; a counted loop is `for (@range(u16, n)) |i| { ... }`"
        elif isinstance(base, ast.IntLit) and base.span.end == self.previous.start:
            hint = f"a float literal needs digits on both sides of the point: '{base.value}.0'"
        elif self.kind == "{":
            hint = "write `T { .field = value }` without '.' after the type, or `.{ ... }` without a type"
        name = self.expect_member_name("a field name after '.'", hint)
        return ast.FieldAccess(self.span_from(start), base, name.text, self.span(name))

    # ----------------------------------------------------------------------------------------------- primary

    def primary(self, brace: bool) -> ast.Expr:
        token, kind = self.token, self.kind
        if kind == "ident":
            if self.peek().kind == ":" and self.peek(2).kind == "{":
                self.advance()
                self.advance()
                return self.block(label=token)
            self.advance()
            return ast.Ident(self.span(token), token.text)
        if kind == "builtin":
            return self.builtin_call()
        literal = self.literal()
        if literal is not None:
            return literal
        if kind == "(":
            opening = self.advance()
            inner = self.expression()
            self.expect_closing(")", opening)
            return inner
        if kind == "[":
            return self.array_or_pointer(brace)
        if kind == ".":
            return self.anonymous_literal()
        if kind == "{":
            return self.braces()
        if kind == "|":
            return self.tensor_access()
        return self.keyword_expression()

    def keyword_expression(self) -> ast.Expr:
        kind = self.kind
        if kind == "if":
            return self.if_expression()
        if kind == "switch":
            return self.switch()
        if kind in ("struct", "union", "extern", "packed"):
            return self.aggregate_type()
        if kind == "enum":
            return self.enum_type()
        if kind in ("fn", "task"):
            return self.function_type()
        if kind == "asm":
            return self.inline_assembly()
        self.no_expression()

    def no_expression(self) -> NoReturn:
        before = self.tokens[self.index - 2] if self.index >= 2 else self.previous
        hint = None
        if self.kind == "+" and self.previous.kind != "+":
            hint = "CSL has no unary '+'"
        elif self.previous.kind == self.kind == "+" or (self.previous.kind == before.kind == "-" and self.kind != "-"):
            sign = self.previous.kind
            hint = f"CSL has no '{sign}{sign}'; write `x {sign}= 1`"
        elif self.kind in ("for", "while"):
            hint = "a loop is a statement, not a value"
        elif self.kind in _MISTAKEN_FOR_NAMES:
            hint = f"'{self.kind}' is a keyword and can't be a name"
        self.fail_expected("an expression", hint)

    def literal(self) -> ast.Expr | None:
        """A literal of one token, or None."""
        token, kind = self.token, self.kind
        if kind in ("int", "char"):
            self.advance()
            return ast.IntLit(self.span(token), cast(int, token.value))
        if kind == "float":
            self.advance()
            return ast.FloatLit(self.span(token), cast(float, token.value))
        if kind == "string":
            self.advance()
            return ast.StringLit(self.span(token), cast(bytes, token.value))
        if kind in ("true", "false"):
            self.advance()
            return ast.BoolLit(self.span(token), kind == "true")
        return None

    def builtin_call(self) -> ast.BuiltinCall:
        name = self.advance()
        if self.kind != "(":
            self.fail_expected(f"'(' after '{name.text}'", "a builtin can only be called, it is not a value")
        args = self.comma_list(self.advance(), ")", self.expression)
        return ast.BuiltinCall(self.span_from(name.start), cast(str, name.value), args, self.span(name))

    def braces(self) -> ast.Expr:
        """`{}` is the void value, otherwise a block."""
        start = self.token.start
        if self.peek().kind == "}":
            self.advance()
            self.advance()
            return ast.VoidLit(self.span_from(start))
        if self.at_named_literal():
            self.report("a struct literal starts with '.{'", self.span(self.token), "write `.{ .name = value }`")
            return self.init_list(None, start)
        return self.block()

    # ----------------------------------------------------------------------------------------- init lists

    def anonymous_literal(self) -> ast.InitList:
        dot = self.advance()
        if self.kind == "{":
            return self.init_list(None, dot.start)
        hint = None
        if self.kind in ("int", "float"):
            hint = f"a float literal needs digits on both sides of the point: '0.{self.token.text}'"
        elif self.is_name(self.token):
            hint = "name the value first, as in `value.field` or `Enum.member`"
        self.fail_expected("'{' after '.'", hint)

    def init_list(self, type_expr: ast.Expr | None, start: int) -> ast.InitList:
        """`{ ... }` of a literal; the next token is its brace."""
        opening = self.advance()
        hint = None
        inits: list[ast.FieldInit] = []
        while self.kind != "}":
            inits.append(self.field_init())
            if self.kind == ",":
                self.advance()
            elif self.kind != "}":
                name = inits[-1].value
                if self.kind in ("=", ":") and isinstance(name, ast.Ident):
                    hint = f"write `.{name.name} = value`"
                self.fail_unclosed("',' or '}'", opening, hint)
        self.advance()
        self.check_uniform(inits)
        return ast.InitList(self.span_from(start), type_expr, inits)

    def check_uniform(self, inits: list[ast.FieldInit]) -> None:
        for init in inits:
            if (init.name is None) != (inits[0].name is None):
                message = "a literal has either named or nameless elements, not both"
                return self.report(message, init.span, None, (("the first element", inits[0].span),))

    def field_init(self) -> ast.FieldInit:
        start = self.token.start
        if self.kind == "." and self.is_name(self.peek()) and self.peek(2).kind == "=":
            self.advance()
            name = self.advance()
            self.advance()
            value = self.expression()
            return ast.FieldInit(self.span_from(start), name.text, value)
        if self.kind == "." and self.is_name(self.peek()) and self.peek(2).kind == ":":
            self.advance()
            name = self.advance()
            self.fail_expected("'=' after the field name", f"write `.{name.text} = value`")
        value = self.expression()
        return ast.FieldInit(self.span_from(start), None, value)

    # ---------------------------------------------------------------------------------------------- types

    def array_or_pointer(self, brace: bool) -> ast.Expr:
        """`[*]T`, `[*]const T`, `[dims]T`, or an array literal `[dims]T { ... }`."""
        opening = self.advance()
        if self.kind == "*" and self.peek().kind == "]":
            self.advance()
            self.advance()
            is_const = self.accept("const")
            element = self.unary(brace=False)
            return ast.PointerType(self.span_from(opening.start), element, is_const, True)
        dims = self.comma_list(opening, "]", self.expression)
        if not dims:
            hint = "write `[n]T`; an array literal gives its length too, and `[*]T` is a pointer to many"
            self.report("an array type needs its length", self.span_from(opening.start), hint)
        element = self.unary(brace=False)
        array = ast.ArrayType(self.span_from(opening.start), dims, element)
        if brace and self.kind == "{":
            return self.init_list(array, opening.start)
        return array

    def function_type(self) -> ast.FnTypeExpr:
        kind = self.advance()
        opening = self.expect("(", f"after '{kind.text}' in a function type")
        params = self.comma_list(opening, ")", self.type_expression)
        result = self.type_expression()
        return ast.FnTypeExpr(self.span_from(kind.start), cast(Literal["fn", "task"], kind.kind), params, result)

    def aggregate_type(self) -> ast.StructTypeExpr:
        start = self.token.start
        layout = ast.Layout.AUTO
        if self.kind in ("extern", "packed"):
            layout = ast.Layout(self.advance().kind)
        if self.kind not in ("struct", "union"):
            self.fail_expected(f"'struct' or 'union' after '{layout}'")
        kind = cast(Literal["struct", "union"], self.advance().kind)
        opening = self.expect("{", f"after '{kind}'")
        fields = self.comma_list(opening, "}", self.field_decl, "fields are separated by ','")
        return ast.StructTypeExpr(self.span_from(start), kind, layout, fields)

    def field_decl(self) -> ast.FieldDecl:
        hint = None
        if self.kind in ("fn", "const", "var"):
            hint = "a type holds nothing but fields; functions and constants stand beside it in the file"
            if self.is_name(self.peek(1)):
                self.fail_expected("a field name", hint)
        name = self.expect_member_name("a field name")
        self.expect(":", "after the field name")
        type_expr = self.type_expression()
        return ast.FieldDecl(self.span_from(name.start), name.text, type_expr)

    def enum_type(self) -> ast.EnumTypeExpr:
        start = self.advance().start
        tag = None
        if self.kind == "(":
            opening = self.advance()
            tag = self.expression()
            self.expect_closing(")", opening)
        brace = self.expect("{", "after 'enum'")
        members = self.comma_list(brace, "}", self.enum_member, "members are separated by ','")
        return ast.EnumTypeExpr(self.span_from(start), tag, members)

    def enum_member(self) -> ast.EnumMember:
        name = self.expect_member_name("a member name")
        value = self.expression() if self.accept("=") else None
        return ast.EnumMember(self.span_from(name.start), name.text, value)

    # ---------------------------------------------------------------------------------------- control flow

    def condition(self, keyword: str) -> ast.Expr:
        """`( expr )` after a keyword."""
        opening = self.expect("(", f"after '{keyword}'")
        value = self.expression()
        if self.kind == "=":
            self.fail_unclosed("')'", opening, "a comparison is written '=='")
        self.expect_closing(")", opening)
        return value

    def if_expression(self) -> ast.If:
        """`if` where a value is wanted: the branches are expressions."""
        heads: list[tuple[int, ast.Expr, ast.Expr]] = []
        otherwise: ast.Expr | None = None
        while True:  # a loop, so that a long else-if chain is no recursion
            start = self.advance().start
            cond = self.condition("if")
            heads.append((start, cond, self.expression()))
            self.note_chain(len(heads))
            if not self.accept("else"):
                break
            if self.kind != "if":
                otherwise = self.expression()
                break
        result: ast.If | None = None
        for start, cond, then in reversed(heads):
            result = ast.If(self.span_from(start), cond, then, result or otherwise)
        assert result is not None
        return result

    def switch(self) -> ast.Switch:
        start = self.advance().start
        value = self.condition("switch")
        opening = self.expect("{", "after the value of 'switch'")
        cases: list[ast.SwitchCase] = []
        while self.kind != "}":
            cases.append(self.switch_case())
            if self.kind == ",":
                self.advance()
            elif self.kind == ";":
                hint = "cases are separated by ','"
                self.report("expected ',' or '}' after the case, got ';'", self.span(self.token), hint)
                self.advance()
            elif self.kind != "}" and self.previous.kind != "}":
                self.fail_unclosed("',' or '}' after the case", opening)
        self.advance()
        return ast.Switch(self.span_from(start), value, cases)

    def switch_case(self) -> ast.SwitchCase:
        start = self.token.start
        values: list[ast.Expr] = []
        if not self.accept("else"):
            while self.kind != "=>":
                values.append(self.expression())
                if not self.accept(","):
                    break
        hint = "a case is `value, value => body,`; 'else' stands for all other values"
        if not values and self.previous.kind != "else":
            self.fail_expected("a case value or 'else'", hint)
        self.expect("=>", "after the case values", hint)
        body = self.arm_body()
        return ast.SwitchCase(self.span_from(start), values, body)

    # ------------------------------------------------------------------------------- tensor access, assembly

    def tensor_access(self) -> ast.TensorAccess:
        """`|i, j|{4, 8} -> base[e0, e1]`"""
        bar = self.advance()
        hint = "a tensor access is `|i, j|{4, 8} -> array[i, j]`"
        variables = [self.expect_name("an index variable after '|'").text]
        while self.accept(","):
            variables.append(self.expect_name("an index variable").text)
        self.expect("|", "after the index variables", hint)
        opening = self.expect("{", "before the extents", hint)
        extents = self.comma_list(opening, "}", self.expression)
        self.expect("->", "after the extents", hint)
        target = self.postfix(brace=False)
        if not isinstance(target, ast.Index):
            self.fail("the right side of '->' must be an indexed array", target.span, hint)
        return ast.TensorAccess(self.span_from(bar.start), variables, extents, target.base, target.indices)

    def inline_assembly(self) -> ast.AsmExpr:
        """Skipped over, so that the analyser can refuse it with its place."""
        start = self.advance().start
        self.accept("volatile")
        opening = self.expect("(", "after 'asm'")
        depth = 1
        while depth:
            if self.kind in ("eof", ";"):
                self.fail_unclosed("')'", opening)
            depth += (self.kind == "(") - (self.kind == ")")
            self.advance()
        span = self.span_from(start)
        return ast.AsmExpr(span, self.source.text[span.start : span.end])
