"""A run that is cut short says where its PEs were, whichever machine code they ran."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from helpers.csl_programs import PE_HEAD, compile_files, uniform_layout

from fabrica_bench.csl import ir
from fabrica_bench.csl.artifact import load_program
from fabrica_bench.wse.commands import Launch, Limits
from fabrica_bench.wse.faults import BudgetExceeded
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.native import machine as native
from fabrica_bench.wse.native.machine import NativeMachine

LOOP = """
var total: i32 = 0;
fn idle(n: i32) void {
  var i: i32 = 0;
  while (i != n) {  // idle
    i += 1; if (i > 5) { i = 0; }  // idle
  }
}
fn spin(n: i32) void {
  var i: i32 = 0;
  while (i != n) {  // spin
    i += 1; if (i > 5) { i = 0; }  // spin
  }
}
"""
# `idle` has the code of `spin`, but for its lines: machine code is made once for both.

BODIES = {
    "called": "fn outer(n: i32) void { if (n > total) { spin(n); } }\nfn main() void { outer(100); }",
    "through a pointer": "const which = [2]*const fn(i32)void{ &idle, &spin };\nvar k: u16 = 1;\n"
    "fn main() void { which[k].*(100); total += 1; spin(100); }",
    "in a map": "var a: [4]i32;\nconst all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i] });\n"
    "fn each(n: i32) i32 { spin(100 + n); return n; }\nfn main() void { @map(each, all, all); }",
}


def program_of(folder: Path, body: str) -> ir.Program:
    files = {"layout.csl": uniform_layout(2, 1, {}), "pe.csl": f"{PE_HEAD}{LOOP}{body}\n{EXPORT}"}
    return load_program(compile_files(folder, files, "wse3", (2, 1)))


EXPORT = "comptime { @export_symbol(main); }"


def end_of(machine: Machine) -> str:
    with pytest.raises(BudgetExceeded) as found:
        machine.wait(machine.submit(Launch("main")))
    return str(found.value)


@pytest.mark.parametrize("body", ["called", "in a map"])
@pytest.mark.parametrize(
    "options", [{}, {"quick": True}, {"quick": True, "patience": 1000}], ids=["good", "quick", "changed"]
)
def test_an_endless_loop_is_named_as_the_reference_names_it(
    body: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "REPLAYED_CYCLES", 0)
    program = program_of(tmp_path, BODIES[body])
    limits = Limits(max_cycles=200_000)
    for machine in (NativeMachine(program, limits=limits, **options), Machine(program, limits=limits)):
        first, place, line, caret = end_of(machine).splitlines()
        assert first == "the run needs more than its 200000 cycles"
        assert re.fullmatch(r"  PE\(0\.\.1,0\): in task main at \S*/pe\.csl:\d+:\d+", place), place
        assert line.endswith("// spin")
        assert caret.strip().startswith("|")


def test_a_function_that_is_called_by_pointer_may_be_named_for_its_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "REPLAYED_CYCLES", 0)
    machine = NativeMachine(program_of(tmp_path, BODIES["through a pointer"]), limits=Limits(max_cycles=200_000))
    assert re.search(r"in task main at \S*/pe\.csl:\d+:\d+\n.*// (spin|idle)\n", end_of(machine))


def test_the_end_of_the_wall_time_tells_it_too(tmp_path: Path) -> None:
    machine = NativeMachine(program_of(tmp_path, BODIES["called"]), limits=Limits(wall_seconds=0.05))
    text = end_of(machine)
    assert text.startswith("the run took more than its 0.05 s of wall time (cycle ")
    assert re.search(r"in task main at \S*/pe\.csl:\d+:\d+\n.*// spin\n", text), text


WAITING = """
const c = @get_color(5);
const q = @get_input_queue(2);
var a: [4]f32;
const all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i] });
const come = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = c, .input_queue = q });
fn main() void {
  @fmovs(all, come);  // waits
}
comptime {
  @initialize_queue(q, .{ .color = c });
  @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });
  @export_symbol(main);
}
"""


def test_a_deadlock_on_more_pes_than_the_reference_takes_tells_where_they_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"layout.csl": uniform_layout(2, 1, {}), "pe.csl": PE_HEAD + WAITING}
    program = load_program(compile_files(tmp_path, files, "wse3", (2, 1)))
    monkeypatch.setattr(native, "REFERENCE_PES", 1)
    first, place, line, _ = end_of(NativeMachine(program)).splitlines()
    assert "takes at most 1 PEs" in first
    assert re.fullmatch(r"  PE\(0\.\.1,0\): in task main at \S*/pe\.csl:\d+:\d+", place), place
    assert line.endswith("// waits")
