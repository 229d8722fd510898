"""SdkRuntime on real programs: copies, launches, streams, order of calls, and how a run ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.csl_programs import ARCHES, PE_HEAD, Host, compile_files, uniform_layout

from fabrica_bench.compat.debug_util import debug_util
from fabrica_bench.compat.platforms import MemcpyDataType, MemcpyOrder, SdkTarget, get_platform
from fabrica_bench.compat.runtime import SdkRuntime
from fabrica_bench.compat.sessions import HostError, SimulatorStopped

ROOT = Path(__file__).resolve().parents[2]
SIZE = (3, 2)
MODE: dict[str, Any] = {
    "streaming": False,
    "data_type": MemcpyDataType.MEMCPY_32BIT,
    "order": MemcpyOrder.ROW_MAJOR,
    "nonblock": False,
}

PE = (
    PE_HEAD
    + """
const position = @import_module("<layout>");
export var coordinates = [2]u16{ 0, 0 };
var v = @zeros([4]f32);
var h = @zeros([4]i16);
var v_ptr: [*]f32 = &v;
var h_ptr: [*]i16 = &h;
fn main() void {
  coordinates[0] = position.get_x_coord();
  coordinates[1] = position.get_y_coord();
  for (@range(u16, 4)) |i| { v[i] += 1.0; h[i] *= 2; }
  sys_mod.unblock_cmd_stream();
}
fn scale(k: i16, x: f32) void {
  for (@range(u16, 4)) |i| { v[i] = x * @as(f32, k) + v[i]; }
  sys_mod.unblock_cmd_stream();
}
fn fail() void { @assert(v[0] > 1000.0); sys_mod.unblock_cmd_stream(); }
fn hang() void { if (position.get_x_coord() == 0) { sys_mod.unblock_cmd_stream(); } }
fn spin() void { while (v[0] < 1000.0) {} sys_mod.unblock_cmd_stream(); }
comptime {
  @export_symbol(v_ptr, "v");
  @export_symbol(h_ptr, "h");
  @export_symbol(main);
  @export_symbol(scale);
  @export_symbol(fail);
  @export_symbol(hang);
  @export_symbol(spin);
}
"""
)


@pytest.fixture(scope="module", params=ARCHES)
def artifact(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    layout = uniform_layout(*SIZE, {"v": "[*]f32", "h": "[*]i16"}, ("main", "fail", "hang", "spin"))
    layout = layout.replace(
        '  @export_name("main"', '  @export_name("scale", fn(i16, f32)void);\n  @export_name("main"'
    )
    folder = tmp_path_factory.mktemp("program")
    return compile_files(folder, {"layout.csl": layout, "pe.csl": PE}, request.param, SIZE)


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_copies_launches_and_variables(artifact: Path, tmp_path: Path) -> None:
    host = Host(artifact, SIZE)
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    host.put("v", data)
    host.put("h", np.arange(24, dtype=np.int16).reshape(2, 3, 4).view(np.uint16), bits=16)
    host.launch()
    host.launch("scale", np.int16(-2), 0.5)
    np.testing.assert_array_equal(host.get("v", 4), data)
    np.testing.assert_array_equal(host.get("h", 4, np.int16).ravel(), 2 * np.arange(24))
    host.stop()
    assert host.runtime.read_symbol(2, 1, "coordinates", np.uint16).tolist() == [2, 1]
    assert host.runtime.coord_logical_to_physical((2, 1)) == (6, 2)
    reader = debug_util(artifact)
    assert reader.get_symbol(6, 2, "coordinates", np.uint16).tolist() == [2, 1]
    assert reader.get_symbol_rect(((4, 1), SIZE), "coordinates", np.uint16)[2][0].tolist() == [2, 0]
    stats = json.loads((tmp_path / "sim_stats.json").read_text(encoding="utf-8"))
    assert [item["name"] for item in stats["launches"]] == ["main", "scale"]
    assert all(0 <= item["start"] < item["end"] <= stats["cycles"] for item in stats["launches"])
    assert stats["toolchain"] == "fabrica-embedded"
    assert (tmp_path / "sim.log").read_text(encoding="utf-8") == ""


def test_broadcast_and_strided_copies(artifact: Path) -> None:
    host = Host(artifact, SIZE)
    runtime, v = host.runtime, host.runtime.get_id("v")
    rows = np.arange(8, dtype=np.float32)
    runtime.memcpy_h2d_rowbcast(v, rows, 0, 0, 3, 2, 4, **MODE)
    np.testing.assert_array_equal(host.get("v", 4), np.repeat(rows.reshape(2, 1, 4), 3, axis=1))
    columns = np.arange(12, dtype=np.float32)
    runtime.memcpy_h2d_colbcast(v, columns, 0, 0, 3, 2, 4, **MODE)
    np.testing.assert_array_equal(host.get("v", 4), np.repeat(columns.reshape(1, 3, 4), 2, axis=0))
    host.put("v", np.zeros((2, 3, 4), dtype=np.float32))
    runtime.memcpy_h2d_stride(v, columns[:8] + 1, 0, 0, 3, 1, 4, 2, 1, **MODE)
    got = host.get("v", 4)
    np.testing.assert_array_equal(got[0, ::2], columns[:8].reshape(2, 4) + 1)
    assert not got[1].any()
    assert not got[0, 1].any()
    host.stop()


def test_a_copy_beyond_its_variable_is_a_warning(artifact: Path, capfd: pytest.CaptureFixture[str]) -> None:
    host = Host(artifact, SIZE)
    host.put("v", np.ones((2, 3, 4), dtype=np.float32))
    host.get("v", 4)
    host.stop()
    assert "warning: a copy" not in capfd.readouterr().err
    host = Host(artifact, SIZE)
    host.get("v", 6)
    host.stop()
    text = "fabrica-sim: warning: a copy from 'v' takes 24 bytes of each PE, but variable 'v' of PE(0,0) ends after 16"
    assert text in capfd.readouterr().err


def test_nonblocking_commands_complete_in_order_at_the_latest_at_stop(artifact: Path) -> None:
    host = Host(artifact, SIZE)
    runtime, v = host.runtime, host.runtime.get_id("v")
    data = np.ones(24, dtype=np.float32)
    before, after = np.zeros(24, dtype=np.float32), np.zeros(24, dtype=np.float32)
    mode = {**MODE, "nonblock": True}
    runtime.memcpy_h2d(v, data, 0, 0, 3, 2, 4, **mode)
    first = runtime.memcpy_d2h(before, v, 0, 0, 3, 2, 4, **mode)
    runtime.launch("main", nonblock=True)
    runtime.memcpy_d2h(after, v, 0, 0, 3, 2, 4, **mode)
    assert not before.any()
    runtime.task_wait(first)
    assert (before == 1).all()
    assert runtime.is_task_done(first)
    runtime.stop()
    assert (after == 2).all()


@pytest.mark.parametrize(
    ("entry", "kind", "words"),
    [("fail", "fault", "v[0] > 1000.0"), ("hang", "deadlock", "unblock_cmd_stream")],
)
def test_a_failing_run_reports_its_kind_and_ends_the_session(
    artifact: Path, tmp_path: Path, entry: str, kind: str, words: str
) -> None:
    host = Host(artifact, SIZE)
    with pytest.raises(SimulatorStopped) as caught:
        host.launch(entry)
    assert str(caught.value).startswith(f"fabrica-sim: {kind}: ")
    assert words in str(caught.value)
    assert (tmp_path / "sim_stats.json").is_file()
    with pytest.raises(HostError, match="stopped"):
        host.launch("main")


@pytest.mark.parametrize("variable", ["FABRICA_SIM_MAX_CYCLES", "FABRICA_SIM_MAX_SECONDS"])
def test_budgets_come_from_the_environment(artifact: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "20000" if variable.endswith("CYCLES") else "0.5")
    host = Host(artifact, SIZE)
    with pytest.raises(SimulatorStopped, match="fabrica-sim: budget: "):
        host.launch("spin")


def test_a_wrong_budget_is_an_error(artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRICA_SIM_MAX_CYCLES", "many")
    with pytest.raises(HostError, match="FABRICA_SIM_MAX_CYCLES"):
        Host(artifact, SIZE)


def test_misuse_is_named(artifact: Path) -> None:
    runtime = SdkRuntime(artifact)
    v = runtime.get_id("v")
    words = np.zeros(24, dtype=np.uint32)
    with pytest.raises(HostError, match="not loaded yet"):
        runtime.launch("main", nonblock=False)
    runtime.load()
    runtime.run()
    for call, text in (
        (lambda: runtime.get_id("w"), "exports no 'w'"),
        (lambda: runtime.launch("nothing", nonblock=False), "exports no 'nothing'"),
        (lambda: runtime.launch("v", nonblock=False), "is a variable"),
        (lambda: runtime.launch("scale", 1, 2.0, nonblock=False), "must be i16"),
        (lambda: runtime.memcpy_h2d(999, words, 0, 0, 3, 2, 4, **MODE), "no id"),
        (lambda: runtime.memcpy_h2d("v", words, 0, 0, 3, 2, 4, **MODE), "'v' is no id"),
        (lambda: runtime.memcpy_h2d(v, words, 0, 0, 3, 2, 4, **{**MODE, "order": "COL"}), "order is 'COL'"),
        (lambda: runtime.memcpy_d2h(words, v, 0, 0, 3, 2, 4, **{**MODE, "order": 1}), "order is 1"),
        (lambda: runtime.memcpy_h2d(runtime.get_id("main"), words, 0, 0, 3, 2, 4, **MODE), "is a function"),
        (lambda: runtime.memcpy_h2d(v, words, 0, 0, 4, 2, 3, **MODE), "program rectangle"),
        (lambda: runtime.memcpy_h2d(v, words[:5], 0, 0, 3, 2, 4, **MODE), "5 elements"),
        (lambda: runtime.memcpy_h2d(3, words, 0, 0, 3, 2, 4, **{**MODE, "streaming": True}), "not a h2d stream"),
        (lambda: runtime.read_symbol(0, 0, "nope"), "no variable 'nope'"),
        (lambda: runtime.read_symbol(9, 0, "coordinates"), "program rectangle"),
    ):
        with pytest.raises(HostError, match=text) as caught:
            call()
        assert caught.value.remedy
    runtime.stop()
    with pytest.raises(HostError, match="stopped"):
        runtime.stop()


@pytest.mark.parametrize("arch", ARCHES)
def test_a_launch_that_no_pe_exports_is_named_with_its_remedy(tmp_path: Path, arch: str) -> None:
    pe = PE_HEAD + "fn main() void { sys_mod.unblock_cmd_stream(); }\ncomptime { @export_symbol(main); }\n"
    layout = uniform_layout(1, 1, {}, ("main", "other"))  # cslc only warns that no PE has `other`
    runtime = SdkRuntime(compile_files(tmp_path, {"layout.csl": layout, "pe.csl": pe}, arch, (1, 1)))
    runtime.load()
    runtime.run()
    with pytest.raises(HostError, match="launch: no PE exports the function 'other'") as caught:
        runtime.launch("other", nonblock=False)
    assert caught.value.remedy == "add `@export_symbol(other);` to the comptime block of the PE program"
    runtime.launch("main", nonblock=False)
    runtime.stop()


@pytest.mark.parametrize("arch", ARCHES)
def test_a_copy_to_a_pe_without_the_tensor_is_named_with_its_remedy(tmp_path: Path, arch: str) -> None:
    pe = PE_HEAD + "fn main() void { sys_mod.unblock_cmd_stream(); }\ncomptime { @export_symbol(main); }\n"
    layout = uniform_layout(2, 1, {"v": "[*]u32"})
    runtime = SdkRuntime(compile_files(tmp_path, {"layout.csl": layout, "pe.csl": pe}, arch, (2, 1)))
    runtime.load()
    runtime.run()
    with pytest.raises(SimulatorStopped, match=r"exports no variable 'v': its program needs an @export_symbol"):
        runtime.memcpy_h2d(runtime.get_id("v"), np.zeros(2, np.uint32), 0, 0, 2, 1, 1, **MODE)


def test_the_platform_must_match_the_program(artifact: Path) -> None:
    other = SdkTarget.WSE2 if artifact.name.endswith("wse3") else SdkTarget.WSE3
    with pytest.raises(HostError, match="compiled for"):
        SdkRuntime(artifact, get_platform(target=other))


SCRIPT = """
from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime
runner = SdkRuntime({artifact!r})
runner.load()
runner.run()
{body}
"""


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("runner.launch('main', nonblock=False)\nrunner.stop()", 0, ""),
        ("runner.launch('hang', nonblock=False)\nrunner.stop()", 3, "fabrica-sim: deadlock: "),
        ("runner.launch('fail', nonblock=False)\nrunner.stop()", 3, "fabrica-sim: fault: "),
        ("runner.launch('main', nonblock=False)", 1, "call SdkRuntime.stop()"),
        ("try: runner.launch('hang', nonblock=False)\nfinally: runner.stop()", 3, "fabrica-sim: deadlock: "),
        ("try: runner.launch('fail', nonblock=False)\nexcept Exception: runner.stop()", 3, "fabrica-sim: fault: "),
        ("try: runner.get_id('w')\nfinally: runner.launch('hang', nonblock=False)", 3, "exports no 'w'"),
        ("try: runner.get_id('w')\nfinally: runner.stop(); runner.stop()", 1, "exports no 'w'"),
    ],
)
def test_a_script_ends_with_a_status_and_no_traceback(
    artifact: Path, tmp_path: Path, body: str, status: int, words: str
) -> None:
    (tmp_path / "run.py").write_text(SCRIPT.format(artifact=str(artifact), body=body), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "fabrica_bench.compat.cs_python", "run.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == status, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr


STREAM_LAYOUT = """
param IN: i16;
param OUT: i16;
const memcpy = @import_module("<memcpy/get_params>", .{
  .width = 1, .height = 1, .MEMCPYH2D_1 = @get_color(IN), .MEMCPYD2H_1 = @get_color(OUT) });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
}
"""
STREAM_PE = (
    PE_HEAD
    + """
const in_queue = @get_input_queue(2);
const out_queue = @get_output_queue(3);
const receive_id = if (@is_arch("wse3")) @get_data_task_id(in_queue) else @get_data_task_id(sys_mod.MEMCPYH2D_1);
const out = @get_dsd(fabout_dsd, .{
  .extent = 1, .fabric_color = sys_mod.MEMCPYD2H_1, .output_queue = out_queue });
var buffer = [1]f32{ 0.0 };
const buffer_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> buffer[i] });
task receive(x: f32) void {
  @block(receive_id);
  buffer[0] = 2.0 * x;
  @fmovs(out, buffer_dsd, .{ .async = true, .unblock = receive });
}
comptime {
  @bind_data_task(receive, receive_id);
  if (@is_arch("wse3")) {
    @initialize_queue(in_queue, .{ .color = sys_mod.MEMCPYH2D_1 });
    @initialize_queue(out_queue, .{ .color = sys_mod.MEMCPYD2H_1 });
  }
}
"""
)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_stream_that_is_too_short_is_named_as_what_is_missing(tmp_path: Path, arch: str) -> None:
    pe = (
        STREAM_PE[: STREAM_PE.index("task receive")]
        + """
const in = @get_dsd(fabin_dsd, .{ .extent = 5, .fabric_color = sys_mod.MEMCPYH2D_1, .input_queue = in_queue });
const start_id = @get_local_task_id(9);
const answer_id = @get_local_task_id(10);
task start() void { @fmovs(&buffer[0], in, .{ .async = true, .activate = answer }); }
task answer() void { @fmovs(out, buffer_dsd, .{ .async = true }); }
comptime {
  @bind_local_task(start, start_id);
  @bind_local_task(answer, answer_id);
  @activate(start_id);
  @initialize_queue(in_queue, .{ .color = sys_mod.MEMCPYH2D_1 });
  if (@is_arch("wse3")) { @initialize_queue(out_queue, .{ .color = sys_mod.MEMCPYD2H_1 }); }
}
"""
    )
    files = {"layout.csl": STREAM_LAYOUT, "pe.csl": pe}
    runtime = SdkRuntime(compile_files(tmp_path, files, arch, (1, 1), "--params=IN:1,OUT:2"))
    runtime.load()
    runtime.run()
    mode = {**MODE, "streaming": True}
    runtime.memcpy_h2d(1, np.arange(3, dtype=np.float32), 0, 0, 1, 1, 3, **{**mode, "nonblock": True})
    with pytest.raises(SimulatorStopped) as stopped:
        runtime.memcpy_d2h(np.zeros(1, dtype=np.float32), 2, 0, 0, 1, 1, 1, **mode)
    assert "color 1: the host has sent 3 word(s) to PE(0,0), and sends no more" in str(stopped.value)


@pytest.mark.parametrize("arch", ARCHES)
def test_streams_overlap_when_the_first_does_not_block(tmp_path: Path, arch: str) -> None:
    files = {"layout.csl": STREAM_LAYOUT, "pe.csl": STREAM_PE}
    runtime = SdkRuntime(compile_files(tmp_path, files, arch, (1, 1), "--params=IN:1,OUT:2"))
    runtime.load()
    runtime.run()
    data = np.arange(100, dtype=np.float32)
    result = np.zeros(100, dtype=np.float32)
    mode = {**MODE, "streaming": True}
    runtime.memcpy_h2d(1, data, 0, 0, 1, 1, 100, **{**mode, "nonblock": True})
    runtime.memcpy_d2h(result, 2, 0, 0, 1, 1, 100, **mode)
    runtime.stop()
    np.testing.assert_array_equal(result, 2 * data)
