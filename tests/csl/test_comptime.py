"""Comptime evaluation: what `@comptime_assert` can see."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_eval import compile_body, errors_of

from fabrica_bench.csl.diagnostics import CslError, Severity


def holds(folder: Path, *conditions: str, body: str = "", **options: object) -> None:
    """All conditions are true at comptime."""
    checks = "\n".join(f"  @comptime_assert({condition});" for condition in conditions)
    compile_body(folder, f"{body}\ncomptime {{\n{checks}\n}}\n", **options)


def test_integer_literals_are_unbounded_and_divide_toward_zero(tmp_path: Path) -> None:
    holds(
        tmp_path,
        "0xffff * 0x10000 + 0b11 == 4294901763",
        "7 / 2 == 3",
        "-7 / 2 == -3",
        "-7 % 2 == -1",
        "7 % -2 == 1",
        "1 << 70 >> 70 == 1",
        "'a' == 97",
        "6 & 3 == 2",
        "6 ^ 3 == 5",
        "6 | 1 == 7",
    )


def test_fixed_width_arithmetic_wraps_as_at_run_time(tmp_path: Path) -> None:
    holds(
        tmp_path,
        "@as(u16, 65535) + 1 == 0",
        "@as(i16, 32767) + 1 == -32768",
        "@as(u8, 200) * 2 == 144",
        "-@as(i8, -128) == -128",
        "~@as(u16, 0) == 0xffff",
        "@as(i16, -4) >> 1 == -2",
        "@as(u16, 0x8000) >> 15 == 1",
    )


def test_float_arithmetic_rounds_in_its_type(tmp_path: Path) -> None:
    holds(
        tmp_path,
        "@as(f32, 0.1) + @as(f32, 0.2) == @as(f32, 0.3)",
        "@as(f16, 2049.0) == 2048.0",
        "@as(f32, 1.0) / @as(f32, 3.0) != @as(f32, 0.0)",
        "1.5 + 2.5 == 4.0",
        "@as(i16, 2.9) == 2",
        "@as(i16, -2.9) == -2",
        "@as(f32, 3) == 3.0",
        "@as(bool, 2)",
        "@as(u16, true) == 1",
        "@bitcast(u32, @as(f32, 1.0)) == 0x3f800000",
        "@bitcast(f32, @as(u32, 0x40000000)) == 2.0",
        "@bitcast(i16, @as(u16, 0xffff)) == -1",
    )


def test_the_16_bit_formats_have_their_documented_encodings(tmp_path: Path) -> None:
    holds(
        tmp_path,
        "@bitcast(u16, @as(cb16, 6.0)) == 0b0101100100000000",
        "@bitcast(u16, @as(bf16, 1.0)) == 0x3f80",
        "@bitcast(u16, @as(f16, 1.0)) == 0x3c00",
        "@is_same_type(@fp16(), bf16)",
        fp16="bf16",
    )


def test_strings_and_arrays(tmp_path: Path) -> None:
    body = """
    const text = @strcat("ab", "c\\n", @get_string_from_byte(65));
    const table = [2, 3]i16{ 1, 2, 3, 4, 5, 6 };
    fn sums() [2]i16 {
      var result = @zeros([2]i16);
      for (@range(i16, 2)) |row| {
        for (@range(i16, 3)) |column| { result[row] += table[row, column]; }
      }
      return result;
    }
    const sum = sums();
    """
    holds(
        tmp_path,
        "@strlen(text) == 5",
        '"x" == "x"',
        '"x" != "y"',
        "@get_array(text)[3] == 10",
        "@get_array(text)[4] == 65",
        "sum[0] == 6",
        "sum[1] == 15",
        "@rank(@type_of(table)) == 2",
        "@element_count([2, 3]i16) == 6",
        "@dimensions([2, 3]i16)[1] == 3",
        "@is_same_type(@element_type([4]f32), f32)",
        "@constants([3]bool, true)[2]",
        body=body,
    )


def test_structs_tuples_and_enums(tmp_path: Path) -> None:
    body = """
    const Pair = struct { x: i16, y: f32 };
    const pair = Pair{ .y = 2.0, .x = 1 };
    const converted: Pair = .{ .y = 4.0, .x = 3 };
    const tuple = .{ 1, 2.5, NORTH };
    const joined = @concat_structs(.{ .a = 1 }, .{ .b = "two" });
    const First = enum(u16) { a, b = 1, c };
    const Second = enum(u16) { a, b = 4, c };
    fn Wrapped(comptime T: type) type { return struct { inner: T }; }
    const wrapped = Wrapped(i16){ .inner = 9 };
    """
    holds(
        tmp_path,
        "pair.x == 1 and pair.y == 2.0",
        "converted.x == 3",
        "tuple[0] == 1 and tuple[2] == NORTH",
        'joined.b == "two"',
        '@field(pair, "x") == 1',
        '@has_field(joined, "a") and !@has_field(joined, "c")',
        "@as(u16, First.c) == 2 and @get_int(First.b) == 1",
        "@as(u16, Second.a) == 0 and @as(u16, Second.b) == 4 and @as(u16, Second.c) == 1",
        "@as(First, 2) == First.c",
        "wrapped.inner == 9",
        "@is_same_type(Wrapped(i16), Wrapped(i16)) and !@is_same_type(Wrapped(i16), Wrapped(u16))",
        body=body,
    )


def test_packed_structs_and_unions_have_a_bit_layout(tmp_path: Path) -> None:
    body = """
    const Bits = packed struct { low: u4, flag: bool, high: u11 };
    const Word = packed union { bits: Bits, number: u16 };
    const word = Word{ .bits = Bits{ .low = 3, .flag = true, .high = 5 } };
    """
    holds(tmp_path, "@bitcast(u16, Bits{ .low = 3, .flag = true, .high = 5 }) == 179", "word.number == 179", body=body)


def test_comptime_control_flow(tmp_path: Path) -> None:
    body = """
    fn count(limit: i16) i16 {
      var found: i16 = 0;
      outer: for (@range(i16, 100)) |i| {
        for (@range(i16, 100)) |j| {
          if (i * j > limit) { break :outer; }
          if ((i + j) % 2 == 0) { continue; }
          found += 1;
        }
      }
      return found;
    }
    fn countdown() i16 {
      var n: i16 = 10;
      var steps: i16 = 0;
      while (n > 0) : (n -= 3) { steps += 1; }
      return steps;
    }
    fn name(n: i16) comptime_string {
      return switch (n) { 0 => "zero", 1, 2 => "few", else => "many" };
    }
    const block = outer: { if (true) { break :outer 5; } break :outer 6; };
    const range = @range(i16, 2, 10, 3);
    """
    holds(
        tmp_path,
        "count(5) == 50 + 3",
        "countdown() == 4",
        'name(0) == "zero" and name(2) == "few" and name(9) == "many"',
        "block == 5",
        "@range_start(range) == 2 and @range_stop(range) == 10 and @range_step(range) == 3",
        body=body,
    )


def test_comptime_code_takes_either_branch_and_does_not_look_at_the_other(tmp_path: Path) -> None:
    holds(
        tmp_path,
        "chosen == 1",
        '@is_arch("wse2") or undeclared_name == 3',
        body='const chosen = if (@is_arch("wse2")) 1 else not_declared_anywhere;\nconst broken = also_not_declared;',
    )


def test_generic_functions_are_specialised_by_type_and_value(tmp_path: Path) -> None:
    body = """
    fn twice(x: anytype) @type_of(x) { return x + x; }
    fn scale(comptime T: type, k: T, v: T) T { return k * v; }
    fn factorial(n: u32) u32 { if (n == 0) { return 1; } return n * factorial(n - 1); }
    const a = twice(@as(i16, 4));
    const b = scale(f32, 2.0, 1.5);
    const c = factorial(10);
    """
    holds(
        tmp_path,
        "a == 8 and @is_same_type(@type_of(a), i16)",
        "b == 3.0",
        "c == 3628800",
        body=body,
    )


def test_params_take_defaults_and_void_marks_absence(tmp_path: Path) -> None:
    body = "param missing = {};\nparam size: i16 = 4;\nconst given = !@is_same_type(@type_of(missing), void);"
    holds(tmp_path, "!given", "size == 4", body=body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("const a = missing;", "use of undeclared identifier 'missing'"),
        ("const a: u8 = 300;", "value 300 does not fit in type 'u8'"),
        ("const a: f32 = 1;", "expected type 'f32', got: 'comptime_int'"),
        ("const a: i16 = 1.5;", "expected type 'i16', got: 'comptime_float'"),
        ("const a = 1 / 0;", "division by zero"),
        ("const a = 1.0 / 0.0;", "division by zero"),
        ("const a = b; const b = a;", "the value of 'a' depends on itself"),
        ('const a = "x" < "y";', "invalid comparison operation for type: 'comptime_string'"),
        ("const a = [2]i16{ 1, 2, 3 };", "expected 2 elements, got 3"),
        ("const t = [2]i16{ 1, 2 }; const a = t[2];", "index 2 is out of bounds: the extent is 2"),
        ("const a = if (1) 2 else 3;", "the condition of 'if' must be of type 'bool', got: 'comptime_int'"),
        ("const a = @strlen(3);", "expected type 'comptime_string', got: 'comptime_int'"),
        ('const a = @strlem("x");', "unknown builtin '@strlem'"),
        ("const S = struct { x: i16 }; const a = S{ .y = 1 };", "no field named 'y' in 'S'"),
        ("const S = struct { x: i16, y: i16 }; const a: S = .{ .x = 1 };", "expected 2 fields, got 1"),
        ("const S = struct { x: i16 }; const a: S = .{ .y = 1 };", "field 'x' not present in source"),
        (
            "const S = struct { x: i16 }; const a: S = .{ .x = 1.5 };",
            "cannot coerce field 'x' from type 'comptime_float' to type 'i16'",
        ),
        ("fn f() i16 { } const a = f();", "function 'f' can end without returning a value of type 'i16'"),
        ("fn f(n: i16) i16 { return f(n); } const a = f(1);", "comptime calls are nested more than 200 deep"),
        ("var v: i16 = 1; const a = v;", "unable to evaluate at comptime: variable 'v' is not a constant"),
        ("const a = @get_color(24);", "color 24 does not exist on wse2: legal numbers are 0 to 23"),
        ("const a = blk: { blk: { break :blk 1; } };", "redefinition of label 'blk'"),
        ("fn f() void { var x: i16 = 1; { var x: i16 = 2; } } const a = f();", "redefinition of 'x'"),
        ("const E = enum(u16) { a, b }; const a = @as(E, 7);", "7 is not a value of enum 'E'"),
        ("const a = @zeros([2]bool);", "@zeros needs numeric elements, got: 'bool'"),
        ("const a = [4][2]i16{};", "the elements of an array can't be arrays"),
        ("const a = @assert(1 == 2);", "assertion failed: 1 == 2"),
        ('const a = @comptime_assert(false, "no good");', "comptime_assert failed: no good"),
        ("const a = @zeros([2000000]u8);", "an array of 2000000 elements is too large"),
    ],
)
def test_comptime_errors_say_what_is_wrong(tmp_path: Path, body: str, message: str) -> None:
    assert errors_of(tmp_path, f"{body}\ncomptime {{ const use = a; }}") == [message]


def test_several_independent_errors_are_reported_together(tmp_path: Path) -> None:
    body = """
    fn first() void { unknown_one(); }
    fn second() void { unknown_two(); }
    task third() void { const x: u8 = 400; }
    fn main() void { first(); second(); }
    comptime { @bind_local_task(third, @get_local_task_id(9)); }
    """
    assert errors_of(tmp_path, body) == [
        "use of undeclared identifier 'unknown_one'",
        "use of undeclared identifier 'unknown_two'",
        "value 400 does not fit in type 'u8'",
    ]


def test_a_loop_without_end_is_stopped(tmp_path: Path) -> None:
    body = "fn f() i16 { while (true) { } return 1; } const a = f(); comptime { const b = a; }"
    assert errors_of(tmp_path, body, max_comptime_steps=1000) == ["comptime evaluation exceeded 1000 steps"]


def test_comptime_print_shows_values_where_they_are(tmp_path: Path) -> None:
    body = 'comptime { @comptime_print("n", 3, .{ .a = [2]i16{ 1, 2 } }, NORTH == SOUTH, .{ RAMP, WEST }); }'
    (note,) = compile_body(tmp_path, body).warnings
    assert (note.severity, note.message) == (Severity.NOTE, "n 3 .{ .a = { 1, 2 } } false .{ RAMP, WEST }")
    assert str(note.span).endswith("pe.csl:4:12")


def test_what_was_printed_before_an_error_is_shown_with_it(tmp_path: Path) -> None:
    with pytest.raises(CslError) as caught:
        compile_body(tmp_path, 'comptime { @comptime_print("before"); @comptime_assert(false); }')
    assert [entry.message for entry in caught.value.diagnostics] == ["before", "comptime_assert failed: false"]
