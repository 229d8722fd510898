"""<collectives_2d> on rows, columns and rectangles, from every root."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.csl_programs import ARCHES, Host, compile_files

COUNT = 3

LAYOUT = """
const c2d = @import_module("<collectives_2d/params>");
const memcpy = @import_module("<memcpy/get_params>", .{ .width = %(w)d, .height = %(h)d });
layout {
  @set_rectangle(%(w)d, %(h)d);
  for (@range(u16, %(w)d)) |x| {
    for (@range(u16, %(h)d)) |y| {
      @set_tile_code(x, y, "pe.csl", .{
        .memcpy_params = memcpy.get_params(x),
        .c2d_params = c2d.get_params(x, y, .{
          .x_colors = .{ @get_color(0), @get_color(1) },
          .x_entrypoints = .{ @get_local_task_id(10), @get_local_task_id(11) },
          .y_colors = .{ @get_color(4), @get_color(5) },
          .y_entrypoints = .{ @get_local_task_id(12), @get_local_task_id(13) },
        }),
      });
    }
  }
  @export_name("a", [*]u32, true);
  @export_name("b", [*]u32, true);
  @export_name("f", [*]f32, true);
  @export_name("s", [*]f32, true);
  @export_name("setup", fn()void);
  @export_name("broadcast", fn(u16)void);
  @export_name("scatter", fn(u16)void);
  @export_name("gather", fn(u16)void);
  @export_name("reduce", fn(u16)void);
}
"""

PE = """
param memcpy_params: comptime_struct;
param c2d_params: comptime_struct;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const mpi = @import_module("<collectives_2d/pe>", .{ .dim_params = c2d_params.%(axis)s });
const DONE = @get_local_task_id(15);
const N = %(n)d;
const COUNT = %(count)d;
var a = @zeros([N * COUNT]u32);
var b = @zeros([N * COUNT]u32);
var f = @zeros([COUNT]f32);
var s = @zeros([COUNT]f32);
var a_ptr: [*]u32 = &a;
var b_ptr: [*]u32 = &b;
var f_ptr: [*]f32 = &f;
var s_ptr: [*]f32 = &s;
task done() void { sys_mod.unblock_cmd_stream(); }
fn setup() void { mpi.init(); sys_mod.unblock_cmd_stream(); }
fn broadcast(root: u16) void { mpi.broadcast(root, &a, COUNT, DONE); }
fn scatter(root: u16) void { mpi.scatter(root, &a, &b, COUNT, DONE); }
fn gather(root: u16) void { mpi.gather(root, &a, &b, COUNT, DONE); }
fn reduce(root: u16) void { mpi.reduce_fadds(root, &f, &s, COUNT, DONE); }
comptime {
  @bind_local_task(done, DONE);
  @export_symbol(a_ptr, "a");
  @export_symbol(b_ptr, "b");
  @export_symbol(f_ptr, "f");
  @export_symbol(s_ptr, "s");
  @export_symbol(setup);
  @export_symbol(broadcast);
  @export_symbol(scatter);
  @export_symbol(gather);
  @export_symbol(reduce);
}
"""


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(("axis", "w", "h"), [("x", 5, 2), ("y", 2, 4), ("x", 2, 1), ("x", 1, 2), ("y", 1, 1)])
def test_all_operations_from_every_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str, axis: str, w: int, h: int
) -> None:
    monkeypatch.chdir(tmp_path)
    n = w if axis == "x" else h
    files = {"layout.csl": LAYOUT % {"w": w, "h": h}, "pe.csl": PE % {"axis": axis, "n": n, "count": COUNT}}
    host = Host(compile_files(tmp_path, files, arch, (w, h)), (w, h))
    host.launch("setup")
    rng = np.random.default_rng(1)
    for root in range(n):
        data = rng.integers(0, 2**32, size=(h, w, n * COUNT), dtype=np.uint32)
        lines = data if axis == "x" else data.transpose(1, 0, 2)  # [line, position, word]

        host.put("a", data)
        host.launch("broadcast", np.uint16(root))
        got = _lines(host.get("a", n * COUNT, np.uint32), axis)
        np.testing.assert_array_equal(got[:, :, :COUNT], np.repeat(lines[:, root : root + 1, :COUNT], n, axis=1))

        host.put("a", data)
        host.launch("scatter", np.uint16(root))
        got = _lines(host.get("b", n * COUNT, np.uint32), axis)[:, :, :COUNT]
        np.testing.assert_array_equal(got, lines[:, root].reshape(-1, n, COUNT))

        host.launch("gather", np.uint16(root))
        got = _lines(host.get("b", n * COUNT, np.uint32), axis)[:, root]
        np.testing.assert_array_equal(got, lines[:, :, :COUNT].reshape(-1, n * COUNT))

        floats = rng.integers(-50, 50, size=(h, w, COUNT)).astype(np.float32)
        host.put("f", floats)
        host.launch("reduce", np.uint16(root))
        got = _lines(host.get("s", COUNT), axis)[:, root]
        np.testing.assert_array_equal(got, _lines(floats, axis).sum(axis=1))
    host.stop()


def _lines(array: np.ndarray, axis: str) -> np.ndarray:
    return array if axis == "x" else array.transpose(1, 0, 2)
