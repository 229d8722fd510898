"""Profiles: every cycle of the main threads is on a line and in a task; the JSON form holds everything."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.csl_programs import PE_HEAD

from fabrica_bench.csl.driver import CompileOptions, compile_program
from fabrica_bench.csl.ir import Program
from fabrica_bench.wse.commands import Launch
from fabrica_bench.wse.fabric import Limits
from fabrica_bench.wse.faults import BudgetExceeded, Deadlock, Fault
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


BODY = PE[PE.index("  if (sends) {\n    for") : PE.index("  sys_mod.unblock")]


def _compiled(folder: Path, arch: str, pe: str = PE) -> Program:
    (folder / "layout.csl").write_text(LAYOUT, encoding="utf-8")
    (folder / "pe.csl").write_text(pe, encoding="utf-8")
    options = CompileOptions(folder / "layout.csl", arch=arch, fabric_dims=(9, 3), fabric_offsets=(4, 1), memcpy=True)
    return compile_program(options).program


@pytest.fixture(params=["wse2", "wse3"])
def profile(tmp_path: Path, request: pytest.FixtureRequest) -> Profile:
    program = _compiled(tmp_path, request.param)
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


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
@pytest.mark.parametrize(
    ("body", "ends", "busy_pes"),
    [
        ("while (true) { a[0] += 1.0; }", BudgetExceeded, 2),
        ("while (true) { @fmacs(b_dsd, a_dsd, b_dsd, 2.0); a[0] += 1.0; }", BudgetExceeded, 2),
        ("@fmacs(b_dsd, a_dsd, b_dsd, 2.0); if (!sends) { @fmovs(a_dsd, in_dsd); }", Deadlock, 2),
        ("if (sends) { @fmovs(out_dsd, a_dsd); while (true) {} } else { @fmovs(a_dsd, in_dsd); }", BudgetExceeded, 2),
        ("for (@range(u16, 64)) |i| { a[i] = 2.0; }  a[0] = @as(f32, 7 / zero);", Fault, 1),
    ],
    ids=["loop", "loop of operations", "deadlock", "one of two", "fault"],
)
def test_tasks_that_a_run_did_not_finish_count_everywhere(
    body: str, ends: type[Exception], busy_pes: int, arch: str, tmp_path: Path
) -> None:
    """Shares are never above 100 %: what is counted by line is counted by task, by PE and in the window of cycles."""
    text = PE.replace(BODY, f"  {body}\n").replace("param sends: bool;", "param sends: bool;\nvar zero: i16 = 0;")
    program = _compiled(tmp_path, arch, text)
    recorder = ProfileRecorder(program)
    machine = Machine(program, trace=recorder, limits=Limits(max_cycles=5000))
    with pytest.raises(ends):
        machine.wait(machine.submit(Launch("main")))
    profile = recorder.profile()
    assert recorder.profile() == profile
    busy = [pe.busy for pe in profile.pes]
    assert sum(cycles > 0 for cycles in busy) == busy_pes
    assert max(busy) <= profile.cycles
    assert [(task.name, task.runs, task.cycles) for task in profile.tasks] == [("main", busy_pes, sum(busy))]
    assert sum(busy) - 4 <= sum(line.cycles for line in profile.lines) <= sum(busy)
    on_lines = sum(line.operations for line in profile.lines)
    assert sum(operation.cycles for operation in profile.operations) == on_lines


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
