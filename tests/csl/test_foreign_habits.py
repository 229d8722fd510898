"""Mistakes of people who come from other languages, and the remedy that the message must give."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_eval import compile_body, compile_text

from fabrica_bench.csl.diagnostics import CslError

VECTOR = "var x = @zeros([8]f32); const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> x[i] });\n"


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        ("var a: float = 1.0;", "CSL's types are 'f32' and 'f16'"),
        ("var a: *f32 = null;", "CSL has no such value"),
        ('printf("%d", 3);', "import <simprint>"),
        ("x[0] = sqrt(2.0);", "import <math>"),
        ("const a = [_]f32{ 1.0 };", "write [N]T"),
        ("@fmacs(d, d, 2.0);", "write @fmacs(dest, source, source, scalar)"),
        ("@sub16(d, d);", "write @sub16(dest, source, source) or @sub16(dest, source, scalar)"),
        ("var p: *f32 = x;", "take the address of a variable with '&'"),
        ("var p: *f32 = &x;", "point to an element with &a[0]"),
        ("var k: u16 = 3; var a = @zeros([k]f32);", "'const' or 'param'"),
        ("@fmuls(d, d, 2);", "write the literal as a float: '2.0'"),
        ("var k: u16 = 3; @fadds(d, d, k);", "convert explicitly with @as(f32, ...)"),
        ("@activate(later);", "give the id that @bind_local_task binds it to"),
        ("const k: u16 = 1; switch (k) { 0...3 => {}, else => {} }", "a case of a switch lists its values"),
        ("for (0..4) |i| { x[i] = 1.0; }", "`for (@range(u16, n)) |i| { ... }`"),
        ("var k: u16 = 3; while (k) { k -= 1; }", "compare it with zero: '!= 0'"),
        ("if (x[0]) { x[1] = 0.0; }", "compare it with zero: '!= 0.0'"),
        ("var k: u16 = 3; if (!k) { x[1] = 0.0; }", "compare it with zero: '== 0'"),
        ("var k: u16 = 3; if (k and x[0] > 1.0) { x[1] = 0.0; }", "compare it with zero: '!= 0'"),
        ("var k: f32 = 1; x[0] = k;", "write a literal as a float, '1.0'"),
        ("if (x[0] == 1) { x[1] = 0.0; }", "write the literal as a float"),
        ("for (@range(u16, 3)) |i| { i = 2; }", "a parameter or loop variable can't change"),
        ("set(&x[0]);", "write 'p.* = ...'"),
        ("const a: [2]f32 = .{ 1.0, 2.0 };", "before its elements: [2]f32 { ... }"),
        ("table[1] = 2.0;", "declare 'table' with 'var'"),
        ("x[0] = @intToFloat(f32, 3);", "convert numbers with @as(T, value)"),
        ('const m = @import("std");', "write @import_module("),
        ("const k: u16 = 1; switch (k) { 1 => { x[0] = 1.0; break; }, else => {} }", "label it: break :label"),
        ("const P = struct { a: i16, fn get(p: P) i16 { return p.a; } };", "a type holds nothing but fields"),
    ],
)
def test_the_message_names_the_remedy(body: str, remedy: str, tmp_path: Path) -> None:
    before = f"{VECTOR}const table = [2]f32{{ 1.0, 2.0 }};\n"
    before += "task later() void {}\nfn set(p: *f32) void { p = 3.0; }\n"
    with pytest.raises(CslError) as caught:
        compile_body(tmp_path, f"{before}fn main() void {{ {body} }}")
    (diagnostic,) = caught.value.diagnostics
    assert remedy in (diagnostic.hint or "")


def test_a_machine_function_of_the_math_library_says_that_it_takes_machine_numbers(tmp_path: Path) -> None:
    with pytest.raises(CslError, match="this function runs on the machine, and takes f32"):
        compile_body(
            tmp_path,
            'const m = @import_module("<math>");\nconst r = m.pow(2.0, 0.5);\nfn main() void { @assert(r > 1.0); }',
        )


def test_warnings_stand_in_the_order_of_the_text(tmp_path: Path) -> None:
    body = "task late() void {}\ncomptime { @bind_task(late, @get_color(9)); }\n"
    twice = (
        f"{body}task early() void {{}}\ncomptime {{ @bind_task(early, @get_color(8)); }}\nexport fn main() void {{}}"
    )
    layout = 'layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", .{ .unknown = 1 }); }'
    warnings = compile_text(tmp_path, twice, layout=layout, arch="wse2", memcpy=False, fabric_offsets=(0, 0)).warnings
    places = [(warning.span.file.path, warning.span.start) for warning in warnings if warning.span is not None]
    assert len(places) == 3
    for path in {path for path, _ in places}:
        positions = [start for at, start in places if at == path]
        assert positions == sorted(positions)
