"""The formatter: golden layouts, and the promises that it keeps for every program."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_syntax import dump, parse
from hypothesis import given, settings
from hypothesis import strategies as st

import fabrica_bench.csl
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.fmt import format_source
from fabrica_bench.csl.lexer import tokenize
from fabrica_bench.csl.source import virtual_source

UGLY = """

// head
param  x:u16;param y : i16=3; // trailing



export var A:[4,5] f32 align( 16 )=@zeros([4,5]f32);
const  f:*const fn (i16,  [ * ]const f32)void = & g ;
const m=@import_module ( "<memcpy/get_params>",.{.width=1,
.height = 2,
   // own line
   .z = -x+-y, });
fn  f ( a:*[3]i16,comptime T : type,b:anytype )[2]u16 linkname( "f" )
{

 var q=[2]u16 {1,2}; q [0]+=1; p.*[a]=~b&c|d;
 if(x==1)return; else if(!y) { q[1]=-1; }
 else { b(); c(); }
 outer:for(@range(u16,4))|i,j| { continue :outer; }
 while(i<3):(i+=1) { }
 const v=blk:{ break :blk 4; };
 const d=@get_dsd(mem1d_dsd,.{.tensor_access=|i,j|{4,5}->A[i,j+1]});
 switch(x){
   1,2=>f(),
   3=>{ g(); h(); }
   else=>{ },}
 const E=enum(u16){a,b=2}; const S=packed struct{a:i16,b:[2] f32}; const t=S{.a=1};
 const w = if (c) (a + b) . c else {};
 asm volatile ( "x  y" : [o] "=r"(v) );
 call(a,
 b,
    c +
  d);
 comptime { @x(); };
 {
   z();

 }
 x = (comptime g ( 1 )).align ( 2 );
 return blk2: { if (a) { break :blk2 q; } }; // last

}
task t()void{return;}
comptime{ @bind(t); @foo(); // c
}
extern fn e(i16,*f32)void;
inline fn k() task ()void { }
color red;"""

PRETTY = """\
// head
param x: u16;
param y: i16 = 3;  // trailing

export var A: [4, 5]f32 align(16) = @zeros([4, 5]f32);
const f: *const fn(i16, [*]const f32) void = &g;
const m = @import_module("<memcpy/get_params>", .{ .width = 1,
  .height = 2,
  // own line
  .z = -x + -y, });
fn f(a: *[3]i16, comptime T: type, b: anytype) [2]u16 linkname("f") {
  var q = [2]u16 { 1, 2 };
  q[0] += 1;
  p.*[a] = ~b & c | d;
  if (x == 1) return;
  else if (!y) { q[1] = -1; } else {
    b();
    c();
  }
  outer: for (@range(u16, 4)) |i, j| { continue :outer; }
  while (i < 3) : (i += 1) {}
  const v = blk: { break :blk 4; };
  const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i, j|{4, 5} -> A[i, j + 1] });
  switch (x) {
    1, 2 => f(),
    3 => {
      g();
      h();
    }
    else => {},
  }
  const E = enum(u16) { a, b = 2 };
  const S = packed struct { a: i16, b: [2]f32 };
  const t = S { .a = 1 };
  const w = if (c) (a + b).c else {};
  asm volatile ( "x  y" : [o] "=r"(v) );
  call(a,
    b,
    c +
      d);
  comptime { @x(); };
  {
    z();
  }
  x = (comptime g(1)).align(2);
  return blk2: { if (a) { break :blk2 q; } };  // last
}
task t() void { return; }
comptime {
  @bind(t);
  @foo();  // c
}
extern fn e(i16, *f32) void;
inline fn k() task() void {}
color red;
"""


def test_the_layout_of_every_construct() -> None:
    assert format_source(UGLY) == PRETTY


@pytest.mark.parametrize(
    ("ugly", "pretty"),
    [
        ("", ""),
        ("\n\n  \n", ""),
        ("  // only\n", "// only\n"),
        ("// a  \r\n\r\n\r\nparam x;\r\n", "// a\n\nparam x;\n"),
        ("fn f() void\n// c\n{\n}", "fn f() void\n// c\n{}\n"),
        ("fn f() void { // c\n\n\nx = 1;\n\n\n// d\n\n}", "fn f() void {  // c\n\n  x = 1;\n\n  // d\n}\n"),
        ("const x = .{\n.a = 1, .b = .{\n.c = 2 } };", "const x = .{\n  .a = 1, .b = .{\n    .c = 2\n  }\n};\n"),
        ("const x =\na +\nb;", "const x =\n  a +\n  b;\n"),
        ("const x = f(\n);", "const x = f();\n"),
        ("const x = f(a // one\n, b);", "const x = f(a  // one\n    , b);\n"),
        ("fn f() void { if (a) {b;}\nelse\n{c;}\n}", "fn f() void {\n  if (a) { b; } else { c; }\n}\n"),
        ("fn f() void { if (a) {b;} // x\nelse {c;}\n}", "fn f() void {\n  if (a) { b; }  // x\n  else { c; }\n}\n"),
        ("fn f() void {if (a)\nx = 1;\n}", "fn f() void {\n  if (a)\n    x = 1;\n}\n"),
        ("const x = a|b; const y = |i|{n|1}->v[i|2];", "const x = a | b;\nconst y = |i|{n | 1} -> v[i | 2];\n"),
        ("const x = .{&a,-b,!c,*T,[*]*T};", "const x = .{ &a, -b, !c, *T, [*]*T };\n"),
        ("const x = a- -b*&c;", "const x = a - -b * &c;\n"),
        ("fn f() void { while (a) (b).c = 1; return-1; }", "fn f() void {\n  while (a) (b).c = 1;\n  return -1;\n}\n"),
        ("fn f(a: T,\nb: T) void {\nx = 1;\n}", "fn f(a: T,\n  b: T) void {\n  x = 1;\n}\n"),
        ("fn f(\na: T,\nb: T) void {\nx = 1;\n}", "fn f(\n  a: T,\n  b: T) void {\n  x = 1;\n}\n"),
        ("fn f(\na: T\n) void {\nx = 1;\n}", "fn f(\n  a: T\n) void {\n  x = 1;\n}\n"),
        ("fn f(a: T,\nb: T) void align(\n2) {\nx = 1;\n}", "fn f(a: T,\n  b: T) void align(\n  2) {\n  x = 1;\n}\n"),
        ("fn f() void {\nif (a or\nb) {\nc();\n}\n}", "fn f() void {\n  if (a or\n      b) {\n    c();\n  }\n}\n"),
        ("fn f() T {\nwhile (g(a,\nb)) {\nc();\n}\n}", "fn f() T {\n  while (g(a,\n    b)) {\n    c();\n  }\n}\n"),
        ("const x = f(a,\nb, .{\n.c = 1 });", "const x = f(a,\n  b, .{\n    .c = 1\n  });\n"),
    ],
)  # fmt: skip
def test_small_layouts(ugly: str, pretty: str) -> None:
    assert format_source(ugly) == pretty
    assert format_source(pretty) == pretty


def test_a_program_with_errors_is_not_formatted() -> None:
    with pytest.raises(CslError, match=r"pe\.csl:1:11: error: expected an expression"):
        format_source("const x = ;", "pe.csl")


# ----------------------------------------------------------------------------------------------- properties


def comments(text: str) -> list[str]:
    return [comment.text.rstrip() for comment in tokenize(virtual_source("t", text)).comments]


def check_promises(text: str) -> None:
    once = format_source(text)
    assert format_source(once) == once, "formatting is stable"
    assert dump(parse(once)) == dump(parse(text)), "the program is the same"
    assert comments(once) == comments(text), "comments are kept"
    if "asm" not in text:  # its text is the author's
        assert not any(line != line.rstrip() for line in once.split("\n"))
        assert "\n\n\n" not in once


PROGRAMS = [
    UGLY,
    "const v = if (a) b else if (c) .{ .x = |i|{n} -> p.*[2 * i] } else {};",
    'layout { for (@range(i16, w)) |x| { for (@range(i16, h)) |y| @set_tile_code(x, y, "p", .{ .a = x, }); } }',
    "fn f(a: *const [2]f32) f32 { switch (a.*[0]) { 1 => return 1.0, 2, 3 => { x += 1; } else => {} } l: { g(); } }",
    "const S = extern struct { a: [2, 3]u16, f: *const fn(u8) void }; const s = S { .a = [2]u16 { 1, 2 }, .f = &g };",
    "fn f() void { if (a) x = 1; else if (b) y -= -1; else { z = ~1; } inline while (i < 3) : (i += 1) f(); return; }",
]
GAPS = st.sampled_from(["", "", " ", " ", "  ", "\n", "\n\n\n", "\t", " // note\n", "\n// own\n", "\r\n"])


def respaced(program: str, gaps: list[str]) -> str:
    """The program with other white space, and comments, between its tokens."""
    out = ""
    for token, gap in zip(tokenize(virtual_source("t", program)).tokens, gaps, strict=True):
        word = token.text
        if out and (out[-1].isalnum() or out[-1] in "_@") and (word[:1].isalnum() or word[:1] in "_@"):
            out += " "
        elif out and word and tokenize(virtual_source("t", out[-1] + word)).tokens[0].text != out[-1]:
            out += " "  # two operators would become one, or a comment
        out += word + gap
    return out


@settings(deadline=None)  # a long program takes long on a busy machine
@given(st.data())
def test_promises_hold_for_any_white_space_and_comments(data: st.DataObject) -> None:
    program = data.draw(st.sampled_from(PROGRAMS))
    count = len(tokenize(virtual_source("t", program)).tokens)
    check_promises(respaced(program, data.draw(st.lists(GAPS, min_size=count, max_size=count))))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("gap", ["\n", " ", " // c\n", "\n\n// c\n\n"])
def test_promises_hold_for_one_gap_everywhere(program: str, gap: str) -> None:
    check_promises(respaced(program, [gap] * len(tokenize(virtual_source("t", program)).tokens)))


LIBRARY = sorted((Path(fabrica_bench.csl.__file__).parent / "lib").rglob("*.csl"))


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.name)
def test_promises_hold_for_the_system_library(path: Path) -> None:
    check_promises(path.read_text(encoding="utf-8"))
