"""Asynchronous overlap: where a transfer may go on while a function computes, on two PEs of the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from fabrica_agent.rewrite.overlap import overlapped

from fabrica_bench.csl.driver import CompileOptions, compile_program
from fabrica_bench.wse.commands import CopyIn, CopyOut, Launch
from fabrica_bench.wse.machine import Machine

Floats = npt.NDArray[np.float32]
N = 600
LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
const link = @get_color(0);
layout {
  @set_rectangle(2, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0), .sends = true, .link = link });
  @set_tile_code(1, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(1), .sends = false, .link = link });
  @set_color_config(0, 0, link, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
  @set_color_config(1, 0, link, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } });
  @export_name("a", [*]f32, true);
  @export_name("b", [*]f32, true);
  @export_name("compute", fn()void);
}
"""


def program(receiver: str, other: str = "") -> str:
    return f"""
param memcpy_params: comptime_struct;
param sends: bool;
param link: color;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
var a = @zeros([{N}]f32);
var b = @zeros([{N}]f32);
var a_ptr: [*]f32 = &a;
var b_ptr: [*]f32 = &b;
const a_dsd = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{N}}} -> a[i] }});
const b_dsd = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{N}}} -> b[i] }});
const in_queue = @get_input_queue(4);
const out_queue = @get_output_queue(4);
const arriving = @get_dsd(fabin_dsd, .{{ .extent = {N}, .fabric_color = link, .input_queue = in_queue }});
const leaving = @get_dsd(fabout_dsd, .{{ .extent = {N}, .fabric_color = link, .output_queue = out_queue }});
const other_id = @get_local_task_id(24);
fn helper() void {{
  {receiver}
}}
fn compute() void {{
  @activate(other_id);
}}
task receive() void {{
  {other or receiver}
}}
// The sender has its words ready only after some work.
task send() void {{
  for (@range(i16, {N})) |k| {{
    b[k] = b[k] + a[k];
  }}
  @fmovs(leaving, a_dsd);
  sys_mod.unblock_cmd_stream();
}}
comptime {{
  if (sends) {{ @bind_local_task(send, other_id); }} else {{ @bind_local_task(receive, other_id); }}
  if (@is_arch("wse3")) {{
    if (sends) {{ @initialize_queue(out_queue, .{{ .color = link }}); }}
    else {{ @initialize_queue(in_queue, .{{ .color = link }}); }}
  }}
  @export_symbol(a_ptr, "a");
  @export_symbol(b_ptr, "b");
  @export_symbol(compute);
}}
"""


TAKE = "@fmovs(a_dsd, arriving);"
WORK = "@fmuls(b_dsd, b_dsd, 2.0);\n  @fadds(b_dsd, b_dsd, 1.0);"
END = "sys_mod.unblock_cmd_stream();"


def run(text: str, folder: Path) -> tuple[Floats, Floats, int]:
    """What the receiver got, what it computed, and cycles."""
    folder.mkdir()
    (folder / "layout.csl").write_text(LAYOUT)
    (folder / "pe.csl").write_text(text)
    compiled = compile_program(
        CompileOptions(folder / "layout.csl", arch="wse3", fabric_dims=(9, 3), fabric_offsets=(4, 1), memcpy=True)
    )
    machine = Machine(compiled.program)

    def do(command: CopyIn | CopyOut | Launch) -> npt.NDArray[np.uint32]:
        handle = machine.submit(command)
        machine.wait(handle)
        return np.asarray(handle.result if handle.result is not None else [], np.uint32)

    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, N)).astype(np.float32)
    both = np.concatenate([a, np.zeros(N, np.float32)])
    do(CopyIn("a", 0, 0, 2, 1, N, both.view(np.uint32).reshape(1, 2, N), 32))
    do(CopyIn("b", 0, 0, 2, 1, N, np.concatenate([b, b]).view(np.uint32).reshape(1, 2, N), 32))
    do(Launch("compute", ()))
    received, computed = (do(CopyOut(n, 0, 0, 2, 1, N, 32)).view(np.float32).reshape(2, N) for n in "ab")
    assert np.array_equal(received[1], a)
    assert np.array_equal(computed[1], np.float32(2.0) * b + np.float32(1.0))
    window = machine.launch_windows[-1]
    return received, computed, int(window.end_cycle or 0) - int(window.start_cycle or 0)


def test_a_transfer_goes_on_while_the_task_computes(tmp_path: Path) -> None:
    text = program("\n  ".join((TAKE, WORK, END)))
    found = overlapped(text, {})
    assert found is not None
    assert ".async = true" in found[0]
    before, after = run(text, tmp_path / "before"), run(found[0], tmp_path / "after")
    assert after[2] < before[2]


@pytest.mark.parametrize(
    "body",
    [
        f"{TAKE}\n  @fmuls(a_dsd, a_dsd, 2.0);\n  {END}",  # what arrives is needed
        f"{TAKE}\n  {END}",  # there is nothing to do meanwhile
        f"{TAKE}\n  const k: f32 = b[0];\n  {WORK}\n  b[1] = k;\n  {END}",  # a local variable lives on
        f"{TAKE}\n  {WORK}",  # nothing could wait for the end of the transfer
        f"{TAKE}\n  helper();\n  {END}",  # who knows what the function does
        f"{TAKE}\n  @fmovs(b_dsd, arriving);\n  {WORK}\n  {END}",  # a second transfer on the same queue
        f"{TAKE}\n  if (b[0] > 0.0) {{ return; }}\n  {WORK}\n  {END}",  # the end may be left out
    ],
)
def test_where_the_order_matters_nothing_is_overlapped(body: str) -> None:
    assert overlapped(program(body), {}) is None


def test_a_function_that_others_call_ends_when_its_transfer_has_ended() -> None:
    body = "\n  ".join((TAKE, WORK, END))
    assert overlapped(program(body, other="helper();"), {}) is None
