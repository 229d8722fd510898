"""System libraries seen from programs: their results, not their code."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from helpers.csl_programs import ARCHES, PE_HEAD, Host, compile_files, uniform_layout

from fabrica_bench.compat import cslc
from fabrica_bench.compat.debug_util import debug_util


def run_pe(folder: Path, body: str, arch: str, exports: dict[str, str] | None = None) -> Host:
    """Compile and launch `main` of a one-PE program."""
    files = {"layout.csl": uniform_layout(1, 1, exports or {}), "pe.csl": PE_HEAD + body}
    host = Host(compile_files(folder, files, arch, (1, 1)), (1, 1))
    host.launch()
    return host


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


CONTROL_WORDS = """
const control = @import_module("<control>");
const switches = @import_module("<memcpy/memcpy_switches>");
const op = control.opcode;
var words = [7]u32{
  control.encode_control_task_payload(@get_control_task_id(40)),
  control.encode_single_payload(op.SWITCH_ADV, true, {}, 5),
  control.encode_single_payload(op.SWITCH_RST, false, @get_control_task_id(3), 0),
  control.encode_payload(1, [1]op{ op.NOP }, [1]bool{ true }, true, {}),
  switches.ctrl(switches.teardown_cmd_1()),
  switches.ctrl(switches.switch_cmd_11()),
  0,
};
var words_ptr: [*]u32 = &words;
fn main() void {
  words[6] = control.encode_single_payload(op.SWITCH_ADV, true, {}, 5);
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(words_ptr, "words"); @export_symbol(main); }
"""


def test_control_words_have_the_documented_bits(tmp_path: Path) -> None:
    host = run_pe(tmp_path, CONTROL_WORDS, "wse2", {"words": "[*]u32"})
    words = host.get("words", 7, np.uint32).ravel().tolist()
    host.stop()
    nop_ignored = 1 << 24 | 1 << 27 | 0x9249
    assert words[0] == 40 << 16
    assert words[1] == 31 << 16 | 5 << 22 | 5
    assert words[2] == 3 << 16 | 2 << 22
    assert words[3] == 31 << 16 | nop_ignored
    assert words[4] == 0x09DF9249
    assert words[5] == 31 << 16 | nop_ignored | 1 << 22 | 1 << 25
    assert words[6] == words[1]


SMALL = """
const directions = @import_module("<directions>");
const complex = @import_module("<complex>");
const data_utils = @import_module("<data_utils>");
const malloc = @import_module("<malloc>", .{ .buffer_num_words = 20 });
const types = @import_module("<types>");
const string = @import_module("<string>");
const math = @import_module("<math>");

var result = @zeros([24]f32);
var result_ptr: [*]f32 = &result;
var n: u16 = 0;
fn put(x: f32) void { result[n] = x; n += 1; }
fn truth(b: bool) void { if (b) { put(1.0); } else { put(0.0); } }

fn main() void {
  truth(directions.flip(NORTH) == SOUTH and directions.flip(WEST) == EAST and directions.flip(RAMP) == RAMP);
  truth(directions.rotate_clockwise(NORTH) == EAST and directions.rotate_counterclockwise(NORTH) == WEST);
  truth(directions.flip_vertical(EAST) == EAST and directions.flip_horizontal(EAST) == WEST);
  const product = complex.multiply_complex_64(complex.get_complex_64(1.0, 2.0), complex.get_complex_64(3.0, -1.0));
  put(product.real);
  put(product.imag);
  put(@as(f32, data_utils.hi16(0x00030005)));
  put(@as(f32, data_utils.lo16(0x00030005)));
  const words = malloc.malloc_i16(3);
  const floats = malloc.malloc_f32(4);
  words[2] = 7;
  floats[0] = 1.25;
  floats[3] = 2.5;
  put(@as(f32, words[2]));
  put(floats[0] + floats[3]);
  truth(malloc.has_enough_double_words(4));
  truth(malloc.has_enough_double_words(5));
  malloc.free();
  truth(malloc.has_enough_words(20));
  truth(types.is_float(f32) and types.is_signed_int(i16) and !types.is_unsigned_int(i16) and types.is_dsd(mem1d_dsd));
  put(@as(f32, types.word_size_of(f32)));
  put(@as(f32, @strlen(string.comptime_int_to_string(-120))));
  put(@as(f32, math.subsat(@as(i16, -30000), @as(i16, 10000))));
  put(@as(f32, math.subsat(@as(u16, 3), @as(u16, 10000))));
  put(math.fscale(@as(f32, 3.0), 4) + math.fscale(@as(f32, 3.0), -1));
  truth(math.isNaN(math.NaN(f32)) and math.isInf(math.NEGATIVE_INF_f32) and math.isFinite(@as(f32, 1.0)));
  truth(math.signbit(@as(f32, -0.0)) or !math.isSignaling(math.NaN_f32));
  put(math.max(@as(f32, 1.0), 2.0) + math.min_f32(8.0, 4.0));
  put(math.pow_f32(2.0, 10.0));
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(result_ptr, "result"); @export_symbol(main); }
"""


@pytest.mark.parametrize("arch", ARCHES)
def test_small_libraries(tmp_path: Path, arch: str) -> None:
    host = run_pe(tmp_path, SMALL, arch, {"result": "[*]f32"})
    values = host.get("result", 22).ravel().tolist()
    host.stop()
    expected = [1, 1, 1, 5, 5, 3, 5, 7, 3.75, 1, 0, 1, 1, 2, 4, -32768, 0, 49.5, 1, 1, 6, 1024]
    assert values == expected


PRINTS = """
const prt = @import_module("<simprint>");
const quiet = @import_module("<simprint>", .{ .enable = false });
fn main() void {
  prt.print_string("a=");
  prt.print_u16_decimal(1234);
  prt.print_string("\\n");
  prt.fmt("{d} {X} {b} {{}} {f}", .{ @as(u16, 7), @as(u32, 48879), @as(u16, 5), @as(f32, -1.5) });
  prt.fmt_with_coords("{X}", .{ @as(u16, 171) });
  prt.print_f32(1.0e12);
  prt.print_string(" ");
  prt.print_f32(0.00001);
  prt.print_string("\\n");
  quiet.print_string("never\\n");
  prt.print_string("without newline");
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(main); }
"""


def test_simprint_writes_lines_with_the_cycle(tmp_path: Path) -> None:
    run_pe(tmp_path, PRINTS, "wse3").stop()
    lines = (tmp_path / "sim.log").read_text(encoding="utf-8").splitlines()
    assert all(re.match(r"@\d+ ", line) for line in lines)
    texts = [line.split(" ", 1)[1] for line in lines]
    assert texts[:3] == ["a=1234", "7 0000BEEF 0000000000000101 {} -1.500000", "PE(0,0): 00AB"]
    large, small = texts[3].split(" ")
    assert float(large) == pytest.approx(1e12, rel=1e-5)
    assert float(small) == pytest.approx(1e-5, rel=1e-5)
    assert len(texts) == 4


TRACES = """
const time = @import_module("<time>");
const trace = @import_module("<debug>", .{ .key = "values", .buffer_size = 40 });
const small = @import_module("<debug>", .{ .key = "small", .buffer_size = 3 });
fn main() void {
  time.enable_tsc();
  trace.trace_timestamp();
  trace.trace_bool(true);
  trace.trace_i8(-3);
  trace.trace(@as(u8, 200));
  trace.trace(@as(i16, -5));
  trace.trace(@as(u32, 100000));
  trace.trace(@as(f32, 0.5));
  trace.trace(@as(f16, 0.25));
  trace.trace_string("abc");
  trace.trace_timestamp();
  small.trace_u16(1);
  small.trace_u16(2);
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(main); }
"""


def test_traces_are_read_back_by_key_and_a_full_buffer_drops_whole_records(tmp_path: Path) -> None:
    run_pe(tmp_path, TRACES, "wse2").stop()
    reader = debug_util(tmp_path / "out_wse2")
    first, *values, last = reader.read_trace(4, 1, "values")
    assert values == [True, -3, 200, -5, 100000, 0.5, 0.25, "abc"]
    assert 0 < first < last < 10000
    assert reader.read_trace(4, 1, "small") == [1]


TIMERS = """
const time = @import_module("<time>");
const timer = @import_module("<timer>", .{ .timerCount = 2 });
var stamps = @zeros([6]u16);
var stamps_ptr: [*]u16 = &stamps;
var result = @zeros([3]u16);
var sum: u16 = 0;
fn work(count: u16) void { for (@range(u16, count)) |i| { sum += i; } }
fn main() void {
  time.enable_tsc();
  timer.start(0);
  work(10);
  timer.stop(0);
  timer.start(1);
  work(100);
  timer.stop(1);
  for (@range(u16, 2)) |id| {
    timer.elapsed(id, &result);
    for (@range(u16, 3)) |i| { stamps[3 * id + i] = result[i]; }
  }
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(stamps_ptr, "stamps"); @export_symbol(main); }
"""


def test_timers_measure_their_own_intervals(tmp_path: Path) -> None:
    host = run_pe(tmp_path, TIMERS, "wse2", {"stamps": "[*]u16"})
    words = host.get("stamps", 6, np.uint16).ravel().astype(int)
    host.stop()
    short, long = (words[i] + (words[i + 1] << 16) for i in (0, 3))
    assert 10 < short < long
    assert 5 < long / short < 15


RANDOM = """
const random = @import_module("<random>");
var values = @zeros([400]f32);
var values_ptr: [*]f32 = &values;
fn main() void {
  for (@range(u16, 100)) |i| { values[i] = random.random_f32(-1.0, 3.0); }
  random.set_global_prng_seed(7);
  for (@range(u16, 100)) |i| { values[100 + i] = random.random_f32(-1.0, 3.0); }
  random.set_global_prng_seed(7);
  for (@range(u16, 100)) |i| { values[200 + i] = random.random_f32(-1.0, 3.0); }
  for (@range(u16, 100)) |i| { values[300 + i] = random.random_normal_f32(); }
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(values_ptr, "values"); @export_symbol(main); }
"""


def test_random_numbers_are_in_range_and_repeat_with_the_seed(tmp_path: Path) -> None:
    host = run_pe(tmp_path, RANDOM, "wse2", {"values": "[*]f32"})
    plain, first, second, normal = host.get("values", 400).reshape(4, 100)
    host.stop()
    np.testing.assert_array_equal(first, second)
    for sample in (plain, first):
        assert (sample >= -1).all()
        assert (sample < 3).all()
        assert 0.5 < sample.mean() < 1.5
        assert len(set(sample.tolist())) > 90
    assert abs(normal.mean()) < 0.4
    assert 0.7 < normal.std() < 1.3


def test_users_cannot_reach_the_intrinsics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = (
        PE_HEAD
        + """
fn main() void { @__intrinsic(void, "unblock_cmd_stream", .{}, ""); }
comptime { @export_symbol(main); }
"""
    )
    files = {"layout.csl": uniform_layout(1, 1, {}), "pe.csl": body}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    flags = ["--fabric-dims=8,3", "--fabric-offsets=4,1", "--memcpy", "-o", str(tmp_path / "out")]
    assert cslc.main([str(tmp_path / "layout.csl"), *flags]) == 1
    assert "reserved for system libraries" in capsys.readouterr().err
