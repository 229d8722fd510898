"""Run-time semantics of compiled code, seen in memory after it ran."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_eval import compile_body, errors_of, run_body

from fabrica_bench.csl import ir

ARITHMETIC = """
var x: i16 = 7;
var y: i16 = -2;
var u: u16 = 0xfff0;
var f: f32 = 2.5;
export var out = @zeros([16]i16);
export var wide = @zeros([4]i32);
export var floats = @zeros([4]f32);
fn main() void {
  out[0] = x + y;
  out[1] = x - y;
  out[2] = x * y;
  out[3] = x / y;
  out[4] = x % y;
  out[5] = x & 3;
  out[6] = x | 8;
  out[7] = x ^ 1;
  out[8] = x << 2;
  out[9] = y >> 1;
  out[10] = -x;
  out[11] = ~x;
  out[12] = @bitcast(i16, u >> 4);
  out[13] = @as(i16, f);
  out[14] = @as(i16, x > y and f > 2.0);
  out[15] = @as(i16, !(x == 7) or false);
  wide[0] = @as(i32, y);
  wide[1] = @as(i32, u);
  wide[2] = x;
  wide[3] = @bitcast(i32, f);
  floats[0] = f * 2.0;
  floats[1] = @as(f32, x);
  floats[2] = f / 0.5;
  floats[3] = -f;
  done();
}
"""


def test_scalar_arithmetic_and_conversions(tmp_path: Path) -> None:
    ran = run_body(tmp_path, ARITHMETIC)
    assert ran.array("out", "<i2") == [5, 9, -14, -3, 1, 3, 15, 6, 28, -1, -7, -8, 0xFFF, 2, 1, 0]
    assert ran.array("wide", "<i4") == [-2, 0xFFF0, 7, 0x40200000]
    assert ran.array("floats", "<f4") == [5.0, 7.0, 5.0, -2.5]


CONTROL = """
export var out = @zeros([12]i16);
var five: i16 = 5;
fn classify(n: i16) i16 {
  return switch (n) { 0 => 10, 1, 2 => 20, else => 30 };
}
fn find(limit: i16) i16 {
  for (@range(i16, 100)) |i| {
    if (i * i > limit) { return i; }
  }
  return -1;
}
fn early(n: i16) i16 {
  if (n < 0) { return 1; }
  else if (n == 0) { return 2; }
  return 3;
}
fn main() void {
  var n: i16 = 0;
  while (n < 10) : (n += 1) {
    if (n == 3) { continue; }
    if (n == 6) { break; }
    out[0] += n;
  }
  outer: for (@range(i16, 4)) |i| {
    for (@range(i16, 4)) |j| {
      if (j == 2) { continue :outer; }
      if (i == 3) { break :outer; }
      out[1] += 1;
    }
  }
  out[2] = classify(0) + classify(2) + classify(five);
  out[3] = find(50);
  out[4] = early(-five) * 100 + early(0) * 10 + early(five);
  out[5] = if (five > 3) 1 else 2;
  out[6] = blk: {
    if (five == 5) { break :blk 7; }
    break :blk five;
  };
  for (@range(i16, 10, 0, -3)) |i| { out[7] += i; }
  const table = [3]i16{ 4, 5, 6 };
  for (table) |item, index| { out[8] += item * @as(i16, index); }
  const stop = five;
  for (@range(i16, 1, stop, 2)) |i| { out[9] = out[9] * 10 + i; }
  comptime var steps: i16 = 0;
  inline for ([3]i16{ 1, 2, 3 }) |item| { steps += item; out[10] += steps; }
  if (five == 5) out[11] = 1 else out[11] = 2;
  done();
}
"""


def test_control_flow(tmp_path: Path) -> None:
    ran = run_body(tmp_path, CONTROL)
    assert ran.array("out", "<i2") == [12, 6, 60, 8, 123, 1, 7, 22, 17, 13, 10, 1]


def test_a_counted_loop_may_reach_the_end_of_its_type(tmp_path: Path) -> None:
    body = """
    export var count: u16 = 0;
    fn main() void {
      for (@range(u8, 0, 255, 2)) |i| { count += 1; }
      done();
    }
    """
    assert run_body(tmp_path, body).value("count", "<u2") == 128


MEMORY = """
const Point = struct { x: i16, y: f32, tags: [2]u16 };
var points: [3]Point;
var grid = @zeros([3, 4]i16);
var scalar: i16 = 3;
export var out = @zeros([12]i16);
export var single: f32 = 0.0;
fn add_to(p: *i16, n: i16) void { p.* += n; }
fn sum(values: [*]const i16, n: i16) i16 {
  var total: i16 = 0;
  for (@range(i16, n)) |i| { total += values[i]; }
  return total;
}
fn corner(g: *[3, 4]i16) i16 { return g.*[2, 3]; }
fn make(n: i16) Point { return .{ .x = n, .y = 0.5, .tags = [2]u16{ 1, 2 } }; }
fn main() void {
  var local: i16 = 10;
  add_to(&local, 5);
  add_to(&scalar, 1);
  out[0] = local;
  out[1] = scalar;
  var i: i16 = 1;
  grid[i, 2] = 42;
  grid[2, 3] = 7;
  out[2] = grid[1, i + 1];
  out[3] = corner(&grid);
  const values = [4]i16{ 1, 2, 3, 4 };
  out[4] = sum(&values, 4);
  points[i] = make(9);
  points[2] = points[i];
  points[2].tags[i] += 5;
  out[5] = points[2].x;
  out[6] = @bitcast(i16, points[2].tags[1]);
  out[7] = @bitcast(i16, points[1].tags[1]);
  single = points[2].y;
  var copy = points[1];
  copy.x = 1;
  out[8] = points[1].x;
  const p = if (i == 1) &out[9] else &out[10];
  p.* = 77;
  var many: [*]i16 = &grid;
  out[10] = many[11];
  const kept = i;
  i = 5;
  out[11] = kept;
  done();
}
"""


def test_memory_pointers_and_aggregates(tmp_path: Path) -> None:
    ran = run_body(tmp_path, MEMORY)
    assert ran.array("out", "<i2") == [15, 4, 42, 7, 10, 9, 7, 2, 9, 77, 7, 1]
    assert ran.value("single", "<f4") == 0.5


FUNCTIONS = """
export var out = @zeros([8]i16);
const m = @import_module("m.csl", .{ .start = 5 });
const n = @import_module("m.csl", .{ .start = 50 });
fn twice(x: anytype) @type_of(x) { return x + x; }
inline fn pick(comptime which: bool, a: i16, b: i16) i16 {
  if (which) { return a; }
  if (a > b) { return a - b; }
  return b;
}
fn apply(f: *const fn (i16) i16, x: i16) i16 { return f(x); }
fn negate(x: i16) i16 { return -x; }
fn square(x: i16) i16 { return x * x; }
var chosen: *const fn (i16) i16 = &square;
fn fib(k: i16) i16 { if (k < 2) { return k; } return fib(k - 1) + fib(k - 2); }
fn main() void {
  out[0] = twice(@as(i16, 4)) + @as(i16, twice(@as(f32, 1.5)));
  out[1] = pick(true, 3, 9) * 100 + pick(false, 3, 9) * 10 + pick(false, 9, 3);
  out[2] = apply(negate, 6) + chosen(5);
  chosen = negate;
  out[3] = chosen(8);
  out[4] = m.next() + m.next();
  out[5] = n.next();
  m.counter = 1;
  out[6] = m.next();
  out[7] = fib(10);
  done();
}
"""


def test_functions_modules_and_function_pointers(tmp_path: Path) -> None:
    files = {"m.csl": "param start: i16;\nvar counter: i16 = start;\nfn next() i16 { counter += 1; return counter; }\n"}
    ran = run_body(tmp_path, FUNCTIONS, files=files)
    assert ran.array("out", "<i2") == [11, 396, 19, -8, 13, 51, 2, 55]


STATE = """
const Mode = enum(u16) { idle, run, stop };
const Bits = packed struct { low: u4, mode: u4, rest: u8 };
const Either = extern union { word: u32, half: [2]u16 };
export var out = @zeros([6]u16);
var mode: Mode = Mode.idle;
var bits = Bits{ .low = 1, .mode = 2, .rest = 3 };
var either: Either = Either{ .word = 0x20001 };
fn step() void {
  mode = switch (mode) { Mode.idle => Mode.run, Mode.run => Mode.stop, Mode.stop => Mode.idle };
}
fn main() void {
  step();
  step();
  out[0] = @as(u16, mode);
  bits.mode = 9;
  out[1] = @bitcast(u16, bits);
  out[2] = @as(u16, bits.rest);
  out[3] = either.half[1];
  either.half[0] = 7;
  out[4] = @as(u16, either.word & 0xffff);
  out[5] = @as(u16, mode == Mode.stop);
  done();
}
"""


def test_enums_packed_structs_and_unions(tmp_path: Path) -> None:
    ran = run_body(tmp_path, STATE)
    assert ran.array("out", "<u2") == [2, 0x391, 3, 2, 7, 1]


CORNERS = """
const S = struct { v: [2]i16, p: *i16 };
const Mat = struct { rows: u16, cols: u16 };
export var out = @zeros([16]i16);
var k: i16 = 3;
var g: i16 = 5;
var s: S = .{ .v = [2]i16{ 1, 2 }, .p = &g };
var fns = [2]*const fn (i16) i16{ &inc, &dbl };
fn inc(x: i16) i16 { return x + 1; }
fn dbl(x: i16) i16 { return x * 2; }
fn at(p: *const i16) i16 { return p.*; }
fn modify(p: *S) void { p.v[1] = 9; p.p.* = 77; }
fn size(comptime m: Mat) u16 { return m.rows * m.cols; }
fn repeat(comptime n: i16, x: i16) i16 {
  var total: i16 = 0;
  inline for (@range(i16, n)) |i| { if (i == 2) { break; } total += x; }
  return total;
}
fn main() void {
  for (@range(i16, 3)) |i| { out[0] += at(&i); }
  var pair = .{ .a = k, .b = @as(i16, 4) };
  pair.a += 1;
  out[1] = pair.a + pair.b;
  const tuple = .{ k, 2.5, NORTH };
  out[2] = tuple[0];
  comptime var n: i16 = 0;
  inline while (n < 3) : (n += 1) { out[3] += n * k; }
  const dir = if (k == 3) EAST else WEST;
  out[4] = @as(i16, dir == EAST);
  var first = [3]i16{ k, k + 1, k + 2 };
  var second = first;
  second[k - 2] = 50;
  first = second;
  out[5] = first[1];
  lab: if (k > 1) { if (k == 3) { break :lab; } out[6] = 9; }
  modify(&s);
  out[7] = s.v[1] * 100 + g;
  var one: u16 = 1;
  out[8] = fns[one](20);
  out[9] = repeat(5, 3);
  out[10] = @as(i16, size(.{ .rows = 2, .cols = 3 }));
  @field(s, "v")[0] = 4;
  out[11] = s.v[0];
  done();
}
"""


def test_corners(tmp_path: Path) -> None:
    expected = [3, 8, 3, 9, 1, 50, 0, 977, 40, 6, 6, 4]
    assert run_body(tmp_path, CORNERS).array("out", "<i2")[:12] == expected


def test_known_conditions_leave_no_trace_in_the_code(tmp_path: Path) -> None:
    body = """
    param big: bool = false;
    export var x: i16 = 0;
    fn main() void {
      if (big) { not_declared(); } else { x = 3 * 4 + 1; }
      if (@is_arch("wse3") and also_not_declared) { x = 2; }
      sys_mod.unblock_cmd_stream();
    }
    """
    output = compile_body(tmp_path, body)
    main = output.program.images[0].functions["main"]
    assert len(main.blocks) == 1
    stored = [instr for instr in main.blocks[0] if isinstance(instr, ir.Store)]
    assert [instr.value for instr in stored] == [ir.Imm(13)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("fn main() void { const x = 1; x = 2; }", "cannot assign to a constant"),
        ("fn main() void { var x = 1; }", "variable of type 'comptime_int' must be comptime-known"),
        ("var g: i16; fn main() void { g = 1.5; }", "expected type 'i16', got: 'comptime_float'"),
        ("var g: f32; fn main() void { g += 1; }", "expected type 'f32', got: 'comptime_int'"),
        ("var a: i16; var b: u16; fn main() void { a = a + b; }", "values of type 'i16' and 'u16' have no common type"),
        ("var a: i32; var b: i16; fn main() void { b = a; }", "expected type 'i16', got: 'i32'"),
        ("const c: i16 = 1; fn f(p: *i16) void {} fn main() void { f(&c); }", "cannot coerce '*const i16' to '*i16'"),
        (
            "var p: [*]i16; fn main() void { p.* = 1; }",
            "cannot dereference '[*]i16': a pointer to an unknown number of elements",
        ),
        (
            "fn f() i16 { while (true) { break; } } fn main() void { const x = f(); }",
            "function 'f' can end without returning a value of type 'i16'",
        ),
        ("task t() void {} fn main() void { t(); }", "task 't' can't be called"),
        ("fn f(x: i16) void {} fn main() void { f(); }", "'f' takes 1 argument(s), got 0"),
        ("var h: bf16; fn main() void { h = 1.0; }", "variable of type 'bf16' must be comptime-known"),
        ("var a: i16; fn main() void { a = a << a; }", "the shift amount must be unsigned, got: 'i16'"),
        (
            "var a: i16; fn main() void { const b = switch (a) { 0 => 1 }; }",
            "switch does not handle all values of 'i16'",
        ),
        ("fn main() void { break; }", "'break' outside of a loop"),
        (
            "var a: i16; fn main() void { comptime var n = 0; if (a == 1) { n += 1; } }",
            "a comptime variable can't be assigned under run-time control flow",
        ),
        ("var a: [3]i16; fn main() void { a[3] = 1; }", "index 3 is out of bounds: the extent is 3"),
        (
            "const P = packed struct { a: u8, b: u8 }; var p: P; fn f(q: *u8) void {} fn main() void { f(&p.a); }",
            "address of packed struct field is unsupported",
        ),
        (
            'fn main() void { @__intrinsic(void, "tsc_enable", .{}, ""); }',
            "@__intrinsic is reserved for system libraries",
        ),
        (
            "var a: i16; fn main() void { const b = [a]i16{}; }",
            "unable to evaluate at comptime: variable 'a' is not a constant",
        ),
        ("var a: f32; fn main() void { const b = a % a; }", "invalid operand of type 'f32' for operator '%'"),
        (
            'fn f(x: i16) i16 { asm volatile ("x" : : : ); return x; } fn main() void { f(1); }',
            "inline assembly is not supported",
        ),
        (
            "fn main() void { inline for (@range(u16, 60)) |i| { sys_mod.unblock_cmd_stream(); } }",
            "exceeded the maximum of 50 inlined iterations",
        ),
    ],
)
def test_run_time_errors_say_what_is_wrong(tmp_path: Path, body: str, message: str) -> None:
    assert errors_of(tmp_path, body, max_inlined_iterations=50) == [message]
