"""The starter templates compile as they are, for each target, in layouts that fit them, and are chosen by layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from fabrica_agent.stages.facts import gather
from fabrica_agent.stages.templates import COLLECTIVE_2D, HALO_EXCHANGE, SINGLE_PE, choose_template, template_source
from helpers.csl_programs import compile_files

from fabrica_bench.firewall.view import task_view
from fabrica_bench.tasks import load_task

WINDOW = (Path(__file__).parents[3] / "tasks" / "saxpy-1pe" / "csl" / "window.csl").read_text(encoding="utf-8")
EXPORTS = """
  @export_name("x", [*]f32, true);
  @export_name("y", [*]f32, true);
  @export_name("compute", fn()void);
  @export_name("window_open", fn()void);
  @export_name("window_stamps", [*]u16, true);
}
"""
SINGLE = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0), .n = 16 });
"""
HALO = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
layout {
  @set_rectangle(2, 1);
  const east = @get_color(1);
  const west = @get_color(2);
  for (@range(u16, 2)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{
      .memcpy_params = memcpy.get_params(@as(i16, x)), .n = 16, .has_west = x > 0, .has_east = x < 1,
      .to_west = west, .to_east = east, .from_west = east, .from_east = west,
    });
  }
  @set_color_config(0, 0, east, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
  @set_color_config(1, 0, east, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } });
  @set_color_config(1, 0, west, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } } });
  @set_color_config(0, 0, west, .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } } });
"""
COLLECTIVE = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 2 });
const c2d = @import_module("<collectives_2d/params>");
layout {
  @set_rectangle(2, 2);
  for (@range(u16, 2)) |x| {
    for (@range(u16, 2)) |y| {
      const both = c2d.get_params(x, y, .{
        .x_colors = .{ @get_color(0), @get_color(1) },
        .x_entrypoints = .{ @get_local_task_id(9), @get_local_task_id(10) },
        .y_colors = .{ @get_color(4), @get_color(5) },
        .y_entrypoints = .{ @get_local_task_id(11), @get_local_task_id(12) },
      });
      @set_tile_code(x, y, "pe.csl", .{ .memcpy_params = memcpy.get_params(@as(i16, x)), .c2d_params = both, .n = 16 });
    }
  }
"""


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
@pytest.mark.parametrize(
    ("name", "layout", "size"),
    [(SINGLE_PE, SINGLE, (1, 1)), (HALO_EXCHANGE, HALO, (2, 1)), (COLLECTIVE_2D, COLLECTIVE, (2, 2))],
)
def test_a_template_compiles(name: str, layout: str, size: tuple[int, int], arch: str, tmp_path: Path) -> None:
    files = {"layout.csl": layout + EXPORTS, "pe.csl": template_source(name), "window.csl": WINDOW}
    assert compile_files(tmp_path, files, arch, size).is_dir()


@pytest.mark.parametrize(
    ("task", "template"), [("SAXPY-1PE", SINGLE_PE), ("Laplacian2D-Halo", HALO_EXCHANGE), ("ParDot-Product", None)]
)
def test_the_template_follows_the_layout(task: str, template: str | None) -> None:
    view = task_view(load_task(task), arch="wse3", size="small", workflow="W1", toolchain="embedded")
    assert choose_template(gather(view), view.files["layout.csl"]) == template
    assert choose_template(gather(view), 'const m = @import_module("<collectives_2d/params>");') == COLLECTIVE_2D
