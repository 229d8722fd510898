"""Profiles: every cycle of the main threads is on a line and in a task; the JSON form holds everything."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.csl_programs import PE_HEAD

from fabrica_bench.csl.driver import CompileOptions, compile_program
from fabrica_bench.wse.commands import Launch
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.profile import Profile, ProfileRecorder, profile_from_record
from fabrica_bench.wse.profile_picture import heat_map_svg
from fabrica_bench.wse.silicon import estimate

LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
layout {
  @set_rectangle(2, 1);
  for (@range(u16, 2)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(x), .sends = x == 0 });
  }
  @set_color_config(0, 0, @get_color(0), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
  @set_color_config(1, 0, @get_color(0), .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } });
  @export_name("main", fn()void);
}
"""

PE = (
    PE_HEAD
    + """
param sends: bool;
var a: [64]f32 align(16) = @zeros([64]f32);
var b: [64]f32 align(16) = @zeros([64]f32);
const a_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{64} -> a[i] });
const b_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{64} -> b[i] });
const in_queue = @get_input_queue(4);
const out_queue = @get_output_queue(2);
const out_dsd = @get_dsd(fabout_dsd, .{ .extent = 64, .fabric_color = @get_color(0), .output_queue = out_queue });
const in_dsd = @get_dsd(fabin_dsd, .{ .extent = 64, .fabric_color = @get_color(0), .input_queue = in_queue });

fn main() void {
  if (sends) {
    for (@range(u16, 64)) |i| {
      a[i] = 2.0 * a[i];
    }
    @fmacs(b_dsd, a_dsd, b_dsd, 2.0);
    @fmovs(out_dsd, a_dsd);
  } else {
    @fmovs(a_dsd, in_dsd);
  }
  sys_mod.unblock_cmd_stream();
}

comptime {
  if (@is_arch("wse3")) {
    if (sends) {
      @initialize_queue(out_queue, .{ .color = @get_color(0) });
    } else {
      @initialize_queue(in_queue, .{ .color = @get_color(0) });
    }
  }
  @export_symbol(main);
}
"""
)


@pytest.fixture(params=["wse2", "wse3"])
def profile(tmp_path: Path, request: pytest.FixtureRequest) -> Profile:
    (tmp_path / "layout.csl").write_text(LAYOUT, encoding="utf-8")
    (tmp_path / "pe.csl").write_text(PE, encoding="utf-8")
    options = CompileOptions(
        tmp_path / "layout.csl", arch=request.param, fabric_dims=(9, 3), fabric_offsets=(4, 1), memcpy=True
    )
    program = compile_program(options).program
    recorder = ProfileRecorder(program)
    machine = Machine(program, trace=recorder)
    machine.wait(machine.submit(Launch("main")))
    machine.drain()
    plain = Machine(program)
    plain.wait(plain.submit(Launch("main")))
    assert plain.launch_windows == machine.launch_windows
    return recorder.profile()


def _line_of(text: str) -> int:
    return next(number for number, line in enumerate(PE.splitlines(), 1) if text in line)


def test_every_busy_cycle_is_in_a_task_and_on_a_line(profile: Profile) -> None:
    busy = sum(pe.busy for pe in profile.pes)
    assert sum(task.cycles for task in profile.tasks) == busy
    assert [(task.name, task.kind, task.runs) for task in profile.tasks] == [("main", "launch", 2)]
    on_lines = sum(line.cycles for line in profile.lines)
    # Only the end of a task lies on no line.
    assert busy - 4 <= on_lines <= busy


def test_lines_tell_scalar_code_from_operations(profile: Profile) -> None:
    lines = {line.line: line for line in profile.lines if not line.file.startswith("<")}
    loop = lines[_line_of("a[i] = 2.0")]
    assert loop.operations == 0
    assert loop.scalar % 64 == 0
    operation = lines[_line_of("@fmacs")]
    assert operation.scalar == 0
    assert operation.operations >= 128  # both sources start in one bank class: two cycles an element


def test_stalls_have_their_reasons(profile: Profile) -> None:
    totals = profile.stall_totals()
    assert totals["bank"] == 64
    assert totals["empty_queue"] > 64  # the receiver waits for the sender's loop
    waiting = next(stall for stall in profile.stalls if stall.reason == "empty_queue")
    assert waiting.line == _line_of("@fmovs(a_dsd, in_dsd)")
    assert "input queue 4" in waiting.what


def test_wavelets_are_counted_by_link_and_color(profile: Profile) -> None:
    assert {(link.x, link.direction, link.color, link.wavelets) for link in profile.links} == {
        (0, "EAST", 0, 64),
        (1, "RAMP", 0, 64),
    }
    wavelets, most = profile.color_totals()[0]
    assert wavelets == 64
    assert most == pytest.approx(64 / profile.cycles, abs=1e-4)
    assert [(pe.received, pe.sent) for pe in profile.pes] == [(0, 64), (64, 0)]


def test_the_json_form_holds_everything(profile: Profile) -> None:
    assert profile_from_record(json.loads(json.dumps(profile.to_record()))) == profile


def test_the_heat_map_has_every_pe_and_link(profile: Profile) -> None:
    root = ElementTree.fromstring(heat_map_svg(profile, "a <title>"))
    titles = [element.text or "" for element in root.iter() if element.tag.endswith("title")]
    assert [text.split(":")[0] for text in titles] == ["PE(0,0)", "PE(1,0)", "PE(0,0) EAST"]


def test_the_hardware_estimate_scales_memory_operations_only(profile: Profile) -> None:
    result = estimate(profile)
    assert result.simulated <= result.operations <= 2 * result.simulated
