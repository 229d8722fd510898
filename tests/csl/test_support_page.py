"""docs/csl-support.md says what is true: its rows are compared with the compiler, the libraries and the host API.

When a test here fails, the page is out of date, or something that it promises got lost: mend the one that is wrong.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.csl_eval import compile_body

import fabrica_bench.csl
from fabrica_bench.compat.cslc_options import build_parser
from fabrica_bench.csl.builtins import load_all
from fabrica_bench.csl.builtins.registry import BUILTINS
from fabrica_bench.csl.diagnostics import CslError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "csl-support.md"
LIBRARY = Path(fabrica_bench.csl.__file__).parent / "lib"
STATUS = {"yes", "partly", "no"}
#: parts of other libraries, which programs don't import by name
PARTS = re.compile(r"math/type_helpers|tile_config/.*|sdk_layout/.*|kernels/fft/(program|fft1d|exchange)")

MAIN = "fn main() void {\n  BODY\n  sys_mod.unblock_cmd_stream();\n}\n"


class Row(NamedTuple):
    """A row of a table: the text of its first column without backquotes, its status, the rest."""

    name: str
    status: str
    note: str


def section(title: str) -> list[Row]:
    """The rows of the tables under a heading of the second level."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no section {title!r}"
    rows = []
    for line in found[1].splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and cells[1] in STATUS:
            rows.append(Row(cells[0].replace("`", ""), cells[1], cells[2]))
    assert rows, f"no rows under {title!r}"
    return rows


def main(body: str) -> str:
    return MAIN.replace("BODY", body)


#: one program per row of the page's language table
PROGRAMS: dict[str, str] = {
    "integers of 8, 16, 32 and 64 bits": "var a: i8 = 1; var b: u64 = 2;" + main("b += @as(u64, a); a = 3;"),
    "integers of other widths": "var a: u5 = 3; var b: i24 = 1;" + main("a += 1; b -= 1;"),
    "integers wider than 64 bits at run time": "var a: u100 = 3;" + main("a += 1;"),
    "f16, f32": "var a: f16 = 1.0; var b: f32 = 2.0;" + main("b += @as(f32, a);"),
    "bf16, cb16": "const a: bf16 = 1.0; const b: cb16 = 1.0; comptime { @comptime_assert(@as(f32, a) == 1.0); }",
    "arrays of any rank": "var a: [2, 3]i16; var b: [4]f32;" + main("a[1, 2] = 5; b[0] = 1.0;"),
    "structs, anonymous structs and tuples": (
        "const Pair = struct { x: i16, y: i16 }; var p: Pair = Pair { .x = 1, .y = 2 }; const t = .{ 1, 2.0 };"
        + main("p.x = p.y;")
        + "comptime { @comptime_assert(t[0] == 1); }"
    ),
    "packed and extern structs": (
        "const P = packed struct { a: u4, b: u12 }; var p: P = P { .a = 1, .b = 2 };"
        "const E = extern struct { v: f32 }; var e: E = E { .v = 1.0 };" + main("p.b = 7; e.v = 2.0;")
    ),
    "unions": "const U = union { i: i32, f: f32 }; var u: U = U { .i = 1 };" + main("u = U { .f = 1.0 };"),
    "enums": "const E = enum(u16) { a, b = 5, c }; var e: E = E.b;" + main("if (e == E.b) { e = E.c; }"),
    "pointers to variables, arrays and functions": (
        "var x: i16 = 1; var a: [3]f32; var p: *i16 = &x; var q: [*]f32 = &a; fn f(v: i16) i16 { return v; }"
        "var g: *const fn(i16) i16 = &f;" + main("p.* = g(2); q[1] = 1.0;")
    ),
    "@ptrcast and *anyopaque": (
        "var x: f32 = 1.0; var p: *anyopaque = &x; var r: u32;" + main("const q = @ptrcast(*u32, p); r = q.*;")
    ),
    "comptime_int, comptime_float, comptime_string, type": (
        'const n = 1 << 100; const s = "text"; const T = if (n > 5) i16 else f32; var x: T = 1;' + main("x += 1;")
    ),
    "functions, recursion": "fn f(n: u16) u16 { if (n == 0) { return 1; } return n * f(n - 1); } var r: u16;"
    + main("r = f(5);"),
    "generic functions (anytype, comptime parameters)": (
        "fn f(comptime T: type, v: T, w: anytype) T { return v + @as(T, w); } var r: f32; var k: i16 = 2;"
        + main("r = f(f32, 1.0, k);")
    ),
    "inline functions": "inline fn twice(x: i16) i16 { return 2 * x; } var r: i16;" + main("r = twice(r);"),
    "functions that return types": (
        "fn Pair(comptime T: type) type { return struct { a: T, b: T }; }"
        "var p: Pair(i16) = Pair(i16) { .a = 1, .b = 2 };" + main("p.a = 3;")
    ),
    "if, while, for, labels, switch, block values": (
        "var r: i16; var a: [3]i16;"
        + main(
            "for (a) |v, i| { if (v > 0) { continue; } r += @as(i16, i); } var k: i16 = 0;"
            " outer: while (k < 9) : (k += 1) { for (@range(i16, 3)) |j| { if (j == k) { break :outer; } } }"
            " r = switch (k) { 0, 1 => 5, else => blk: { break :blk 7; } };"
        )
    ),
    "labelled continue": main("var k: i16 = 0; a: while (k < 3) : (k += 1) { while (true) { continue :a; } }"),
    "inline for, comptime var": (
        "var a: [4]i16;" + main("comptime var n: i16 = 0; inline for (@range(i16, 4)) |i| { a[i] = n; n += 2; }")
    ),
    "inline assembly": main('asm volatile ("nop" : : : "memory");'),
    "export, extern, linkname, align, linksection": (
        'export var a: [4]f32 align(16); export var b: i16 linkname("other") = 1; var c: i16 linksection(".mine") = 2;'
        + main("a[0] = 1.0; b = c;")
    ),
    "lazy analysis of what is not reached": (
        "fn never(x: anytype) void { x.no_such_field = nothing; } const broken = missing_name + 1;" + main("")
    ),
    "modules with params": 'const m = @import_module("<empty>");' + main(""),
    "data, local and control tasks": (
        "var n: u16; task d(w: u32) void { n += 1; } task l() void { n += 2; } task c(w: u16) void { n += w; }"
        "const q = @get_input_queue(2); const col = @get_color(4);"
        'const id = if (@is_arch("wse3")) @get_data_task_id(q) else @get_data_task_id(col);'
        "comptime { @set_local_color_config(col, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });"
        " @initialize_queue(q, .{ .color = col }); @bind_data_task(d, id);"
        " @bind_local_task(l, @get_local_task_id(10)); @bind_control_task(c, @get_control_task_id(40)); }"
        + main("@activate(@get_local_task_id(10));")
    ),
    "rotating tasks": (
        "task a(w: u32) void {} task b(w: u32) void {} const q = @get_input_queue(2);"
        "comptime { @set_local_color_config(@get_color(4), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });"
        " @initialize_queue(q, .{ .color = @get_color(4) });"
        " @bind_rotating_tasks(a, b, @get_data_task_id(q), .{ .limit = 3 }); }" + main("")
    ),
    "mem1d and mem4d DSDs": (
        "var a: [4, 6]f32; const v = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i, 2] });"
        "const w = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{2, 3} -> a[i + 1, 2 * j] });"
        + main("@fmovs(v, 1.0); @fmovs(w, 2.0);")
    ),
    "circular-buffer DSDs": (
        "var a: [8]f32; const d = @get_dsd(circbuf_dsd, .{ .base_address = &a, .extent = 20, .wraparound = 8 });"
        "const r = @get_dsr(dsr_dest, 3); const x = @get_xdsr(1);" + main("@load_to_dsr_xdsr(r, x, d); @fmovs(r, 1.0);")
    ),
    "fabric DSDs, synchronous and on microthreads": (
        "var a: [4]f32; const v = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i] });"
        "const q = @get_output_queue(3); const c = @get_color(4); task done() void { sys_mod.unblock_cmd_stream(); }"
        'const out = if (@is_arch("wse3")) @get_dsd(fabout_dsd, .{ .extent = 4, .output_queue = q }) else '
        "@get_dsd(fabout_dsd, .{ .extent = 4, .output_queue = q, .fabric_color = c });"
        'comptime { if (@is_arch("wse3")) { @initialize_queue(q, .{ .color = c }); }'
        " @bind_local_task(done, @get_local_task_id(10));"
        " @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } }); }"
        "fn main() void { @fmovs(out, v); @fmovs(out, v, .{ .async = true, .activate = @get_local_task_id(10) }); }"
    ),
    "explicit DSRs": (
        "var a: [4]f32; const v = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i] });"
        "const d = @get_dsr(dsr_dest, 2); const s = @get_dsr(dsr_src1, 2);"
        + main("@load_to_dsr(d, v); @load_to_dsr(s, v, .{ .save_address = true }); @fmovs(d, s);")
    ),
    "FIFOs": (
        "var buffer: [32]f32; const fifo = @allocate_fifo(buffer); var a: [4]f32;"
        "const v = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i] });"
        + main("@fmovs(fifo, v); @fmovs(v, fifo);")
    ),
    "routes, switches, teardown": (
        "const c = @get_color(4); fn handler() void {} comptime { @set_teardown_handler(handler, c);"
        " @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } }, .switches = .{"
        " .pos1 = .{ .tx = RAMP }, .ring_mode = true, .pop_mode = .{ .pop_on_advance = true } } }); }" + main("")
    ),
    "counter, sparse-counter and range filters": (
        "const c = @get_color(4);"
        "const f = .{ .kind = .{ .counter = true }, .count_data = true, .limit1 = 3, .max_counter = 1 };"
        "comptime { @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } }, .filter = f }); }"
        + main("")
    ),
    "color swap": (
        "const c = @get_color(4); comptime { @set_local_color_config(c, .{"
        " .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP }, .color_swap_x = true } }); }" + main("")
    ),
    "queue flush and empty-queue handlers": (
        "const q = @get_input_queue(2); fn emptied() void {}"
        "comptime { @initialize_queue(q, .{ .color = @get_color(4) }); @set_empty_queue_handler(emptied, q); }"
        + main("@queue_flush(q);")
    ),
}
#: rows that hold on one architecture only
ONE_ARCH = {
    "rotating tasks": "wse3",
    "color swap": "wse2",
    "queue flush and empty-queue handlers": "wse3",
}


def compiles(folder: Path, body: str, arch: str) -> str:
    """Empty if the program compiles, else what the compiler said."""
    try:
        compile_body(folder, body, arch=arch)
    except CslError as problem:
        return str(problem)
    return ""


class TestLanguage:
    def test_every_row_has_a_program(self) -> None:
        assert sorted(row.name for row in section("Language")) == sorted(PROGRAMS)

    @pytest.mark.parametrize("arch", ["wse2", "wse3"])
    @pytest.mark.parametrize("row", section("Language"), ids=lambda row: row.name)
    def test_the_compiler_agrees(self, tmp_path: Path, row: Row, arch: str) -> None:
        said = compiles(tmp_path, PROGRAMS[row.name], arch)
        only = ONE_ARCH.get(row.name)
        if row.status == "no":
            assert "not supported" in said
        elif only is None or only == arch:
            assert said == ""
        else:
            assert said != ""
            assert {"wse2": "WSE-2", "wse3": "WSE-3"}[only] in row.note


class TestBuiltins:
    def test_every_builtin_has_a_row_and_every_row_a_builtin(self) -> None:
        load_all()
        names = {name for row in section("Builtins") for name in row.name.split()}
        assert names - {"@get_color_id"} == {f"@{name}" for name in BUILTINS if not name.startswith("__")}

    def test_what_is_not_supported_is_refused(self, tmp_path: Path) -> None:
        refused = {name for row in section("Builtins") if row.status == "no" for name in row.name.split()}
        for name in sorted(refused):
            said = compiles(
                tmp_path, f"comptime {{ {name}(@get_data_task_id(@get_input_queue(2))); }}" + main(""), "wse3"
            )
            assert "not supported" in said or "unknown builtin" in said


class TestLibraries:
    def test_every_library_has_a_row(self) -> None:
        files = {str(path.relative_to(LIBRARY).with_suffix("")) for path in LIBRARY.rglob("*.csl")}
        rows = {row.name.strip("<>") for row in section("Libraries") if row.status != "no"}
        refused = {row.name.strip("<>") for row in section("Libraries") if row.status == "no"}
        assert {name for name in files if not PARTS.fullmatch(name)} - refused == rows

    @pytest.mark.parametrize(
        "row", [row for row in section("Libraries") if row.status != "no"], ids=lambda row: row.name
    )
    def test_the_members_that_a_row_names_exist(self, row: Row) -> None:
        text = (LIBRARY / f"{row.name.strip('<>')}.csl").read_text(encoding="utf-8")
        declared = set(re.findall(r"^(?:export )?(?:inline )?(?:fn|const|var|param|task) (\w+)", text, re.MULTILINE))
        members = [name for group in re.findall(r"`([^`]+)`", row.note) for name in group.split()]
        assert [name for name in members if name not in declared] == []

    def test_what_is_not_supported_is_refused(self, tmp_path: Path) -> None:
        for row in section("Libraries"):
            if row.status == "no":
                said = compiles(tmp_path, f'const m = @import_module("{row.name}");' + main("m.init();"), "wse3")
                assert "not supported" in said or "unable to" in said or "no such" in said, said


def test_every_flag_of_the_compiler_has_a_row() -> None:
    flags = {option for action in build_parser()._actions for option in action.option_strings} - {"-h", "--help"}
    assert {row.name for row in section("Compiler flags")} == flags


def test_the_host_api_is_as_its_rows_say() -> None:
    from fabrica_bench.compat import code_regions, debug_util, sdk_utils
    from fabrica_bench.compat.host.cerebras.sdk.runtime import sdkruntimepybind

    places = {
        "SdkRuntime": sdkruntimepybind.SdkRuntime,
        "SdkLayout": sdkruntimepybind.SdkLayout,
        "CodeRegion": code_regions.CodeRegion,
        "debug_util": debug_util.debug_util,
        "sdk_utils": sdk_utils,
    }
    seen = set()
    for row in section("Host API"):
        owner, _, member = row.name.partition(".")
        present = hasattr(places[owner], member) if member else hasattr(sdkruntimepybind, owner)
        # The names of an unsupported API exist, and say so when they are used.
        assert present or row.status == "no", row
        if member:
            assert present == (row.status != "no"), row
            seen.add((owner, member))
    for owner, place in places.items():
        if owner != "sdk_utils":
            public = {name for name, value in vars(place).items() if not name.startswith("_") and callable(value)}
            assert {member for known, member in seen if known == owner} >= public
    assert {row.name for row in section("Host API") if "." not in row.name} == set(sdkruntimepybind.__all__)
