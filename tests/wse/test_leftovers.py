"""Wavelets that nobody took are reported at the end of a run, by both executors, also if the host waits for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_programs import ARCHES, PE_HEAD, Host, compile_files

from fabrica_bench.csl.artifact import load_program
from fabrica_bench.wse.commands import Launch
from fabrica_bench.wse.leftovers import Leftover, describe
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.native.machine import NativeMachine

# The left PE sends `count` words; the right one takes `taken` of them.
PE = (
    PE_HEAD
    + """
param column: u16;
param taken: u16;
const c = @get_color(3);
const iq = @get_input_queue(2);
const oq = @get_output_queue(2);
const out = @get_dsd(fabout_dsd, .{ .extent = COUNT, .fabric_color = c, .output_queue = oq });
const input = @get_dsd(fabin_dsd, .{ .extent = 2, .fabric_color = c, .input_queue = iq });
var words: [COUNT]u32;
const all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{COUNT} -> words[i] });
fn main() void {
  if (column == 0) {
    @mov32(out, all, .{ .async = true });
  } else if (taken > 0) {
    @mov32(@set_dsd_length(all, taken), @set_dsd_length(input, taken));
  }
  sys_mod.unblock_cmd_stream();
}
comptime {
  @export_symbol(main);
  if (@is_arch("wse3")) {
    if (column == 0) { @initialize_queue(oq, .{ .color = c }); } else { @initialize_queue(iq, .{ .color = c }); }
  }
}
"""
)
LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
param taken: u16;
layout {
  @set_rectangle(2, 1);
  for (@range(u16, 2)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(x), .column = x, .taken = taken });
  }
  @set_color_config(0, 0, @get_color(3), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
  @set_color_config(1, 0, @get_color(3), .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } });
  @export_name("main", fn()void);
}
"""


def build(folder: Path, arch: str, count: int, taken: int) -> Path:
    files = {"layout.csl": LAYOUT, "pe.csl": PE.replace("COUNT", str(count))}
    return compile_files(folder, files, arch, (2, 1), f"--params=taken:{taken}")


def left_by(machine: Machine) -> list[Leftover]:
    machine.wait(machine.submit(Launch("main")))
    machine.drain()
    return machine.leftovers()


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(("count", "taken"), [(2, 2), (3, 2), (2, 0), (40, 1)])
def test_every_word_that_was_sent_and_not_taken_is_counted_by_both_executors(
    tmp_path: Path, arch: str, count: int, taken: int
) -> None:
    program = load_program(build(tmp_path, arch, count, taken))
    left = left_by(Machine(program))
    assert left_by(NativeMachine(program)) == left
    held = sum(entry.words for entry in left)
    # A stream that fills every buffer on the way stops its sender, whose other words are not wavelets yet.
    assert held == count - taken if count < 10 else 0 < held < count - taken
    assert {entry.color for entry in left} <= {3}


@pytest.mark.parametrize("arch", ARCHES)
def test_a_host_that_waits_for_nothing_is_told(
    tmp_path: Path, arch: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    host = Host(build(tmp_path, arch, 2, 0), (2, 1))
    host.launch()
    host.stop()
    place = "input queue 2" if arch == "wse3" else "the input queue of the color"
    assert capsys.readouterr().err.endswith(
        "fabrica-sim: warning: wavelets that nobody took by the end of the run\n"
        f"  color 3: 2, first in {place} of PE(1,0)\n"
    )


def test_nothing_is_said_of_nothing() -> None:
    assert describe([]) == ""
