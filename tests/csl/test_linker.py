"""Placement of globals in PE memory."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from helpers.csl_eval import compile_body, compile_text, error_messages, errors_of

from fabrica_bench.csl import ir
from fabrica_bench.csl.descriptors import decode_dsd
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.linker import MEMORY_BYTES


def test_globals_do_not_overlap_and_are_aligned(tmp_path: Path) -> None:
    body = """
    export var a = @zeros([3]u8);
    export var b align(64) = @zeros([3]f32);
    export var c: u16 = 7;
    export var d: i64 = -2;
    export var e = [2]f32{ 1.0, -2.0 };
    var unused = @zeros([1000]f32);
    """
    image = compile_body(tmp_path, body).program.images[0]
    assert set(image.globals) == {"a", "b", "c", "d", "e"}
    spans = sorted((entry.address, entry.address + entry.size) for entry in image.globals.values())
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert image.code_bytes <= spans[0][0]
    assert spans[-1][1] <= image.data_end <= MEMORY_BYTES
    assert image.globals["b"].address % 64 == 0
    assert image.globals["c"].init == b"\x07\x00"
    assert image.globals["d"].init == b"\xfe" + b"\xff" * 7
    assert image.globals["e"].init == bytes.fromhex("0000803f000000c0")
    assert image.globals["a"].init is None


def test_initial_values_may_hold_addresses_descriptors_and_functions(tmp_path: Path) -> None:
    body = """
    var data = @zeros([8]f32);
    fn f() void {}
    export var pointer: *f32 = &data[3];
    var d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> data[2 * i] });
    export var function: *const fn () void = &f;
    fn main() void { @fmovs(d, 0.0); sys_mod.unblock_cmd_stream(); }
    """
    image = compile_body(tmp_path, body).program.images[0]
    address = image.globals["data"].address
    pointer, function, dsd = (image.globals[name].init for name in ("pointer", "function", "d"))
    assert pointer is not None
    assert function is not None
    assert dsd is not None
    assert int.from_bytes(pointer, "little") == address + 12
    assert list(image.functions)[int.from_bytes(function, "little") - 1] == "f"
    assert decode_dsd(dsd) == ir.Dsd("mem1d", (4,), address, (2,))


def test_equal_constants_are_stored_once(tmp_path: Path) -> None:
    body = """
    export var out = @zeros([4]i16);
    fn read(t: [3]i16, i: i16) i16 { return t[i]; }
    var i: i16 = 1;
    fn main() void {
      out[0] = read([3]i16{ 1, 2, 3 }, i);
      out[1] = read([3]i16{ 1, 2, 3 }, 2);
      sys_mod.unblock_cmd_stream();
    }
    """
    image = compile_body(tmp_path, body).program.images[0]
    assert sum(entry.type_name == "[3]i16" for entry in image.globals.values()) == 1


def test_a_program_that_does_not_fit_lists_its_largest_variables(tmp_path: Path) -> None:
    body = "export var big = @zeros([10000]f32); export var small = @zeros([4000]i16);"
    (message,) = errors_of(tmp_path, body)
    assert message.startswith("the program needs ")
    assert f"but a PE has {MEMORY_BYTES}" in message
    (hint,) = _hints(tmp_path, body)
    assert hint == "the largest parts: 'big' 40000 bytes, 'small' 8000 bytes"


def test_a_frame_that_does_not_fit_is_listed_too(tmp_path: Path) -> None:
    body = "fn main() void { var local: [13000]f32; local[0] = 1.0; }"
    (hint,) = _hints(tmp_path, body)
    assert hint == "the largest parts: 'frame of main' 52000 bytes"


def _hints(folder: Path, body: str) -> list[str | None]:
    from fabrica_bench.csl.diagnostics import CslError

    try:
        compile_body(folder, body)
    except CslError as problem:
        return [diagnostic.hint for diagnostic in problem.diagnostics]
    raise AssertionError("the program compiles")


def test_symbols_of_imported_modules_carry_their_path(tmp_path: Path) -> None:
    body = """
    const m = @import_module("m.csl");
    const n = @import_module("m.csl");
    fn main() void { m.bump(); n.bump(); sys_mod.unblock_cmd_stream(); }
    """
    image = compile_body(tmp_path, body, files={"m.csl": "var v: i16 = 0; fn bump() void { v += 1; }"}).program.images[
        0
    ]
    assert set(image.globals) == {"m.v", "n.v"}
    assert {"main", "m.bump", "n.bump"} <= set(image.functions)


MESH = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 4, .height = 3 });
layout {
  @set_rectangle(4, 3);
  for (@range(i16, 4)) |x| {
    for (@range(i16, 3)) |y| {
      @set_tile_code(x, y, "pe.csl", .{ .memcpy_params = memcpy.get_params(x), PARAMS });
    }
  }
}
"""


@pytest.mark.parametrize(
    ("params", "pe", "ends"),
    [
        # Wide programs lie on the last two columns and on the PE at the origin.
        (
            ".size = if (x >= 2 or x + y == 0) 30000 else 10",
            "param size: u16; export var large = @zeros([size]u16);",
            ["PE(0,0), PE(2..3,0..2)"],
        ),
        # Programs that differ, but need as much, are told together.
        (
            ".id = y",
            "param id: i16; export var large = @zeros([30000]u16); export var own: i16 = id;",
            ["PE(0..3,0..2)"],
        ),
        (
            ".size = if (y == 1) @as(u16, 30000) else if (y == 2) @as(u16, 40000) else 10",
            "param size: u16; export var large = @zeros([size]u16);",
            ["PE(0..3,1)", "PE(0..3,2)"],
        ),
        # After a few broken programs no more are looked at.
        (
            ".id = 4 * y + x",
            "param id: i16; export var large = @zeros([30000]u16); export var own: i16 = id;",
            ["PE(0..1,0), PE(0,1..2), perhaps also of others"],
        ),
    ],
    ids=["region", "alike", "two sizes", "many"],
)
def test_a_program_that_is_too_large_names_its_pes(tmp_path: Path, params: str, pe: str, ends: list[str]) -> None:
    with pytest.raises(CslError) as caught:
        compile_text(tmp_path, "param memcpy_params: comptime_struct;\n" + pe, layout=MESH.replace("PARAMS", params))
    messages = error_messages(caught.value)
    assert [message.rpartition("; it is the program of ")[2] for message in messages] == ends
    assert all("bytes of PE memory, but a PE has 49152: code" in message for message in messages)


def test_a_section_that_has_no_room_names_the_pes_too(tmp_path: Path) -> None:
    pe = 'param memcpy_params: comptime_struct; param x: i16; export var table linksection(".table") = @zeros([9]u16);'
    with pytest.raises(CslError) as caught:
        compile_text(tmp_path, pe, layout=MESH.replace("PARAMS", ".x = x / 3"), section_addresses={".table": 10})
    (message,) = error_messages(caught.value)
    assert message.startswith("section '.table' at 10 overlaps the code")
    assert message.endswith("; it is the program of PE(0..3,0..2)")
