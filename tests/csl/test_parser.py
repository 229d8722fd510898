"""The grammar: what each construct becomes in the syntax tree."""

from __future__ import annotations

import time

import pytest
from helpers.csl_syntax import brief, dump, expression, parse, statements
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.csl import ast
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.parser import parse_file, parse_with_diagnostics
from fabrica_bench.csl.source import virtual_source
from fabrica_bench.csl.token_cursor import MAX_ERRORS, MAX_NESTING, MAX_TREE_DEPTH

# ----------------------------------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", "(+ a (* b c))"),
        ("a - b - c", "(- (- a b) c)"),
        ("a * b / c % d", "(% (/ (* a b) c) d)"),
        ("n & 1 == 0", "(== (& n 1) 0)"),
        ("a << 2 + b", "(<< a (+ 2 b))"),
        ("a | b << 1", "(| a (<< b 1))"),
        ("a & b ^ c | d", "(| (^ (& a b) c) d)"),
        ("a < b and c >= d or e", "(or (and (< a b) (>= c d)) e)"),
        ("a or b and c", "(or a (and b c))"),
        ("!a and ~b != -c", "(and (! a) (!= (~ b) (- c)))"),
        ("(a + b) * c", "(* (+ a b) c)"),
        ("-a.b", "(- (. a b))"),
        ("- -1", "(- (- 1))"),
        ("&a[1]", "(& (index a 1))"),
        ("a and comptime f(x) + 1", "(and a (+ (comptime (call f x)) 1))"),
        ("p.*[i, j]", "(index (deref p) i j)"),
        ("p.*.x", "(. (deref p) x)"),
        ("a.b(1)(2).c", "(. (call (call (. a b) 1) 2) c)"),
        ("f(a, b,)", "(call f a b)"),
        ("@get_dsd(mem1d_dsd, .{})", "(@get_dsd mem1d_dsd (init .))"),
        ("cfg.color.align.fn", "(. (. (. cfg color) align) fn)"),
        ("if (c) 1 else 2 + 3", "(if c 1 (+ 2 3))"),
        ("if (a) 1 else if (b) 2", "(if a 1 (if b 2))"),
        ("if (c) x else {}", "(if c x {})"),
        ("switch (m) { 1, 2 => a, else => b }", "(switch m [1 2] a [] b)"),
        ("blk: { break :blk 4; }", "(block:blk (break:blk 4))"),
        ("{}", "{}"),
        ("true and false", "(and true false)"),
        ("'a' + 0x10", "(+ 97 16)"),
        ("|i|{N} -> A[i]", "(access [i] [N] A [i])"),
        ("|i, j|{4, 8} -> p.*[2 * i, j]", "(access [i j] [4 8] (deref p) [(* 2 i) j])"),
        (".{ .tensor_access = |i|{n | 1} -> v[i | 2] }", "(init . tensor_access=(access [i] [(| n 1)] v [(| i 2)]))"),
    ],
)
def test_expressions(text: str, tree: str) -> None:
    assert expression(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        (".{ .a = 1, .color = c, }", "(init . a=1 color=c)"),
        (".{ 1, 2.0, NORTH }", "(init . 1 2.0 NORTH)"),
        ("[3]i16 { 1, 2, 3 }", "(init (array [3] i16) 1 2 3)"),
        ("[2, 3]f32{}", "(init (array [2 3] f32))"),
        ("[2]m.T{ .{ .x = 1 }, y }[0]", "(index (init (array [2] (. m T)) (init . x=1) y) 0)"),
        ("T { .f = v }", "(init T f=v)"),
        ("m.Pair(i16) { .f = v }.f", "(. (init (call (. m Pair) i16) f=v) f)"),
        ("if (c) T { .f = 1 } else d", "(if c (init T f=1) d)"),
    ],
)
def test_literals_of_aggregates(text: str, tree: str) -> None:
    assert expression(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("*T", "(ptr T)"),
        ("*const [4]f32", "(ptr const (array [4] f32))"),
        ("[*]f32", "(many f32)"),
        ("[*]const *T", "(many const (ptr T))"),
        ("[n + 1, 2]m.T", "(array [(+ n 1) 2] (. m T))"),
        ("*const fn(i16, [*]f32) f32", "(ptr const (fn [i16 (many f32)] f32))"),
        ("fn ()void", "(fn [] void)"),
        ("task () void", "(task [] void)"),
    ],
)
def test_types(text: str, tree: str) -> None:
    assert expression(text) == tree
    (item,) = parse(f"var x: {text} = y;").items
    assert isinstance(item, ast.VarDecl)
    assert brief(item.type_expr) == tree


def test_struct_union_and_enum_types() -> None:
    text = "const A = extern struct { a: i16, align: [2]f32, }; const B = packed union { x: u8 }; const C = struct {};"
    a, b, c = (item.init for item in parse(text).items if isinstance(item, ast.VarDecl))
    assert dump(a) == (
        "StructTypeExpr",
        ("kind", "struct"),
        ("layout", "extern"),
        (
            "fields",
            [
                ("FieldDecl", ("name", "a"), ("type_expr", ("Ident", ("name", "i16")))),
                (
                    "FieldDecl",
                    ("name", "align"),
                    (
                        "type_expr",
                        (
                            "ArrayType",
                            ("dims", [("IntLit", ("value", 2))]),
                            ("element", ("Ident", ("name", "f32"))),
                        ),
                    ),
                ),
            ],
        ),
    )
    assert isinstance(b, ast.StructTypeExpr)
    assert (b.kind, b.layout, len(b.fields)) == ("union", ast.Layout.PACKED, 1)
    assert isinstance(c, ast.StructTypeExpr)
    assert (c.kind, c.layout, c.fields) == ("struct", ast.Layout.AUTO, [])


def test_enum_types_have_a_tag_and_values() -> None:
    (item,) = parse("const E = enum(u16) { a, b = 2, task, };").items
    assert isinstance(item, ast.VarDecl)
    enum = item.init
    assert isinstance(enum, ast.EnumTypeExpr)
    assert brief(enum.tag) == "u16"
    assert [(member.name, member.value and brief(member.value)) for member in enum.members] == [
        ("a", None),
        ("b", "2"),
        ("task", None),
    ]


def test_assembly_is_taken_as_text() -> None:
    text = 'asm volatile ("add %[o], (1)" : [o] "=r" (v) : [i] "r" (f(x)) : "r6")'
    (item,) = parse(f"fn f() void {{ {text}; }}").items
    assert isinstance(item, ast.FnDecl)
    assert item.body is not None
    (stmt,) = item.body.stmts
    assert isinstance(stmt, ast.ExprStmt)
    assert isinstance(stmt.expr, ast.AsmExpr)
    assert stmt.expr.text == text


# ------------------------------------------------------------------------------------------------ statements


@pytest.mark.parametrize(
    ("text", "trees"),
    [
        ("x = 1; a[i].b += 2; p.* <<= 3; @field(s, \"n\") = 4;",
         ["(= x 1)", "(+= (. (index a i) b) 2)", "(<<= (deref p) 3)", "(= (@field s b'n') 4)"]),
        ("const a = 1; var b: f32; comptime var c = 2;", ["(const a 1)", "(var b :f32)", "(comptime-var c 2)"]),
        (";; f();", ["(call f)"]),
        ("{ x = 1; } {}", ["(block (= x 1))", "(block)"]),
        ("if (c) x = 1;", ["(if c (= x 1))"]),
        ("if (c) f(x) else g(x);", ["(if c (call f x) (call g x))"]),
        ("if (c) x = 1; else x = 2;", ["(if c (= x 1) (= x 2))"]),
        ("if (c) { f(); } else if (d) return 1; else { g(); } h();",
         ["(if c (block (call f)) (if d (return 1) (block (call g))))", "(call h)"]),
        ("if (a) if (b) x = 1 else x = 2;", ["(if a (if b (= x 1) (= x 2)))"]),
        ("if (c) return; g();", ["(if c (return))", "(call g)"]),
        ("l: if (c) { break :l; }", ["(if:l c (block (break:l)))"]),
        ("for (@range(u16, n)) |i| f(i);", ["(for (@range u16 n) i (call f i))"]),
        ("l: inline for (a) |v, i| { continue :l; }", ["(inline-for:l a v i (block (continue:l)))"]),
        ("while (i < n) : (i += 1) { x = i; }", ["(while (< i n) (+= i 1) (block (= x i)))"]),
        ("inline while (c) : (f()) g();", ["(inline-while c (call f) (call g))"]),
        ("while (c) for (a) |v| if (v) return; else break;", ["(while c (for a v (if v (return) (break))))"]),
        ("switch (x) { 1 => { f(); } 2, A.b => y = 2, else => return }",
         ["(switch x [1] (block (call f)) [2 (. A b)] (= y 2) [] (return))"]),
        ("comptime { f(); }; comptime { g(); } comptime h();",
         ["(comptime (block (call f)))", "(comptime (block (call g)))", "(comptime (call h))"]),
        ("comptime if (c) { f(); } g();", ["(comptime (if c (block (call f))))", "(call g)"]),
        ("b: { break :b x + 1; }", ["(block:b (break:b (+ x 1)))"]),
        ("const v = if (c) a: { break :a 1; } else 2; break; continue;",
         ["(const v (if c (block:a (break:a 1)) 2))", "(break)", "(continue)"]),
        ("return if (c) .{ .x = 1 } else y;", ["(return (if c (init . x=1) y))"]),
        ("return [2]u16 { 1, 2 };", ["(return (init (array [2] u16) 1 2))"]),
        ("(f)(x);", ["(call f x)"]),
    ],
)  # fmt: skip
def test_statements(text: str, trees: list[str]) -> None:
    assert statements(text) == trees


# ---------------------------------------------------------------------------------------------- declarations


def test_variables_carry_storage_attributes_and_type() -> None:
    array = 'export var a: [4]f32 align(16) linksection(".x") = @zeros([4]f32);'
    a, b, c, d = parse(array + "extern const b: u16; param c; param d: u16 = 2;").items
    assert isinstance(a, ast.VarDecl)
    assert (a.storage, a.kind, a.name) == ("export", ast.VarKind.VAR, "a")
    assert brief(a.attributes.align) == "16"
    assert brief(a.attributes.linksection) == "b'.x'"
    assert isinstance(b, ast.VarDecl)
    assert (b.storage, b.init) == ("extern", None)
    assert isinstance(c, ast.VarDecl)
    assert (c.kind, c.type_expr, c.init) == (ast.VarKind.PARAM, None, None)
    assert isinstance(d, ast.VarDecl)
    assert brief(d) == "(param d :u16 2)"


def test_functions_carry_parameters_result_and_attributes() -> None:
    text = (
        'export fn f(a: *[2]i16, comptime T: type, x: anytype,) linkname("g") [2]@type_of(x) align(4) { return a.*; }'
    )
    (f,) = parse(text).items
    assert isinstance(f, ast.FnDecl)
    assert (f.kind, f.storage, f.is_inline, f.name) == ("fn", "export", False, "f")
    assert [(p.name, p.is_comptime, p.type_expr and brief(p.type_expr)) for p in f.params] == [
        ("a", False, "(ptr (array [2] i16))"),
        ("T", True, "type"),
        ("x", False, None),
    ]
    assert brief(f.result) == "(array [2] (@type_of x))"
    assert (brief(f.attributes.linkname), brief(f.attributes.align)) == ("b'g'", "4")
    assert f.body is not None


def test_extern_functions_may_omit_parameter_names() -> None:
    (f,) = parse("extern fn f(i16, *const f32, n: u16) void;").items
    assert isinstance(f, ast.FnDecl)
    assert (f.storage, f.body) == ("extern", None)
    assert [p.name for p in f.params] == [None, None, "n"]


def test_tasks_inline_functions_blocks_and_legacy_colors() -> None:
    functions = "task t(x: f32) void {} inline fn g() void {}"
    blocks = "comptime {}; comptime { } layout { @set_rectangle(1, 1); }"
    t, g, first, second, layout, color = parse(functions + blocks + "color red;").items
    assert isinstance(t, ast.FnDecl)
    assert t.kind == "task"
    assert isinstance(g, ast.FnDecl)
    assert g.is_inline
    assert isinstance(first, ast.ComptimeBlock)
    assert isinstance(second, ast.ComptimeBlock)
    assert isinstance(layout, ast.LayoutBlock)
    assert brief(layout.body) == "(block (@set_rectangle 1 1))"
    assert isinstance(color, ast.ColorDecl)
    assert color.name == "red"


def test_an_array_result_is_not_a_literal() -> None:
    (f,) = parse("fn f() [2]u16 { return a; }").items
    assert isinstance(f, ast.FnDecl)
    assert brief(f.result) == "(array [2] u16)"
    assert brief(f.body) == "(block (return a))"


def test_spans_cover_the_text_of_their_node() -> None:
    text = "const x = (a + b).c * f(1);"
    (item,) = parse(text).items
    assert isinstance(item, ast.VarDecl)
    assert isinstance(item.init, ast.Binary)

    def shown(span: ast.Span) -> str:
        return text[span.start : span.end]

    assert shown(item.span) == text
    assert shown(item.name_span) == "x"
    assert shown(item.init.span) == "(a + b).c * f(1)"
    assert shown(item.init.op_span) == "*"
    assert shown(item.init.lhs.span) == "(a + b).c"
    assert shown(item.init.rhs.span) == "f(1)"
    assert str(item.init.rhs.span) == "t.csl:1:23"


def test_a_file_keeps_its_comments() -> None:
    assert [comment.text for comment in parse("// a\nparam x; // b\n").comments] == ["// a", "// b"]


# ------------------------------------------------------------------------------------------------ properties

NAMES = st.sampled_from(["a", "b", "cd"])
LEVELS = [["or"], ["and"], ["==", "<", ">="], ["&", "^", "|"], ["<<", ">>"], ["+", "-"], ["*", "/", "%"]]
STRENGTH = {operator: level for level, row in enumerate(LEVELS) for operator in row}


def minimal(tree: object, lowest: int = 0) -> str:
    """The text of a tree of tuples with only the necessary parentheses."""
    match tree:
        case str():
            return tree
        case (str(operator), operand):
            return f"{operator}{minimal(operand, 9)}"
        case (str(operator), left, right):
            level = STRENGTH[operator]
            # comparisons don't chain, so their left side needs parentheses too
            text = f"{minimal(left, level + (level == 2))} {operator} {minimal(right, level + 1)}"
            return f"({text})" if level < lowest else text
    raise AssertionError(tree)


def lisp(tree: object) -> str:
    return tree if isinstance(tree, str) else f"({' '.join(map(lisp, tree))})"  # type: ignore[call-overload]


TREES = st.recursive(
    NAMES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("!~"), inner), st.tuples(st.sampled_from(sorted(STRENGTH)), inner, inner)
    ),
    max_leaves=12,
)


@given(TREES)
def test_precedence_agrees_with_minimal_parentheses(tree: object) -> None:
    text = minimal(tree)
    assert expression(text) == lisp(tree)


@given(st.text(alphabet="abfn(){}[];:.,=|&*@\"'/ \n-+<>10x", max_size=60) | st.text(max_size=30))
def test_any_text_is_parsed_or_reported(text: str) -> None:
    tree, diagnostics = parse_with_diagnostics(virtual_source("t", text))
    assert isinstance(tree, ast.File)
    for diagnostic in diagnostics:
        assert diagnostic.span is not None
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text)


VOCABULARY = (
    "const var param fn task layout comptime export extern inline struct enum if else for while switch break continue "
    'return and or asm x y f32 @as 1 2.0 "s" ( ) [ ] { } .{ . .* , ; : = == += + - * & | ! -> =>'
)


@given(st.lists(st.sampled_from(VOCABULARY.split()), max_size=40))
def test_any_tokens_are_parsed_or_reported(words: list[str]) -> None:
    text = " ".join(words)
    _, diagnostics = parse_with_diagnostics(virtual_source("t", text))
    places = [diagnostic.span.start for diagnostic in diagnostics if diagnostic.span is not None]
    assert len(places) == len(set(places)), "no place is reported twice"


PROGRAM = """\
param n: u16;
const m = @import_module("<memcpy/memcpy>", .{ .x = 1 });
var a: [n]f32 = @zeros([n]f32);
fn f(x: *[4]f32, comptime k: i16) f32 {
  for (@range(u16, n)) |i| {
    if (i == k) { a[i] += x.*[i] * 2.0; } else return 1.0;
  }
  switch (n) { 1 => g(), else => {} }
  return 0.0;
}
comptime { @export_symbol(f); }
"""


@given(st.integers(0, len(PROGRAM) - 1), st.integers(1, 8), st.sampled_from(["", "{", "}", ";", "fn", "("]))
def test_one_damage_gives_a_few_errors_at_most(place: int, length: int, inserted: str) -> None:
    text = PROGRAM[:place] + inserted + PROGRAM[place + length :]
    _, diagnostics = parse_with_diagnostics(virtual_source("t", text))
    assert len(diagnostics) <= 4, [diagnostic.message for diagnostic in diagnostics]


# ---------------------------------------------------------------------------------------------------- limits


def only_error(text: str) -> str:
    with pytest.raises(CslError) as caught:
        parse_file(virtual_source("t", text))
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.message


@pytest.mark.parametrize(
    "text",
    [
        "const x = " + "(" * 5000 + "1" + ")" * 5000 + ";",
        "const x = " + "-" * 5000 + "1;",
        "const x = " + "&a[" * 5000,
        "const x: " + "*" * 5000 + "T = y;",
        "fn f() void " + "{" * 5000 + "}" * 5000,
        "fn f() void { " + "if (a) " * 5000 + "x = 1; }",
        "const x = " + "if (a) " * 5000 + "1;",
        "const x = " + ".{ .a = " * 5000,
    ],
    ids=["parentheses", "prefixes", "indices", "pointers", "blocks", "branches", "if expressions", "literals"],
)
def test_deep_nesting_is_one_clear_error(text: str) -> None:
    assert only_error(text) == f"code is nested more than {MAX_NESTING} levels deep"


@pytest.mark.parametrize(
    "text",
    [
        "const x = " + " + ".join("a" * 5000) + ";",
        "const x = a" + ".b" * 5000 + ";",
        "fn f() void { " + "if (a) { b(); } else " * 5000 + "c(); }",
        "const x = " + "if (a) b else " * 5000 + "c;",
        "const x = " + "(" * 20 + "a" + (" + b" * 40 + ")") * 20 + ";",
    ],
    ids=["sum", "fields", "else-if statements", "else-if expressions", "chains in chains"],
)
def test_a_long_chain_is_one_clear_error(text: str) -> None:
    assert only_error(text) == f"an expression or statement chain is more than {MAX_TREE_DEPTH} levels deep"


def test_ordinary_depth_is_accepted() -> None:
    parse("const x = " + "(" * 60 + "1" + ")" * 60 + ";")
    parse("const x = " + " + ".join("a" * 300) + ";")


def test_a_hopeless_file_stops_at_a_number_of_errors() -> None:
    with pytest.raises(CslError) as caught:
        parse("fn f() void {\n" + "x = ;\n" * 1000 + "}\n")
    assert len(caught.value.diagnostics) == MAX_ERRORS + 1
    assert f"{MAX_ERRORS} errors; the rest of the file was not read" in str(caught.value)


def test_a_text_that_is_not_csl_stops_at_a_number_of_errors() -> None:
    with pytest.raises(CslError) as caught:
        parse("? x " * 100_000)
    assert len(caught.value.diagnostics) == MAX_ERRORS + 1


@pytest.mark.parametrize(
    "unit",
    [
        "fn f() void { x = 1; }",
        "const x = .{ .a = 1, .b = 2 };\n",
        "// c\n",
        'var s = "text"; ',
        "var a = [2]u16 { 1, 2 };",
    ],
)
def test_time_grows_linearly(unit: str) -> None:
    def seconds(count: int) -> float:
        text = unit * count
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            parse_with_diagnostics(virtual_source("t", text))
            best = min(best, time.process_time() - start)  # processor time: other load does not count
        return best

    small, large = seconds(500), seconds(5000)
    assert large < 40 * small + 0.05  # quadratic time would be a factor of 100
