"""Work that PEs share: what a layout lets them send, and how each PE gets the data that it lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fabrica_agent.agent import FabricaAgent
from fabrica_agent.csl.exchange import Exchange, Fabric, Transfers
from fabrica_agent.csl.names import Identifiers
from fabrica_agent.csl.stages import Round, Stages
from fabrica_agent.lowering.ir import UnsupportedError
from fabrica_agent.mesh.channels import Mesh, read_mesh
from fabrica_agent.mesh.lines import Cast, Chain, Flood, MeshCast, Port, Ring, Tree, X, Y, ways
from fabrica_agent.mesh.plan import EVERYWHERE, OWN, Kind, plan_gather
from fabrica_agent.mesh.shards import Dim, Shards, shards
from fabrica_agent.records import Placement

from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.driver import CompileOptions, compile_program
from fabrica_bench.firewall.view import task_view
from fabrica_bench.plugins import Budget, VisibleRun
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import held_out_cases, held_out_seeds, visible_cases
from fabrica_bench.scoring.scorer import Scorer
from fabrica_bench.tasks import load_task
from fabrica_bench.tasks.seeds import HeldOutKey
from fabrica_bench.toolchains import get_toolchain


class Tools:
    """Accepts the first program."""

    def run_visible(self, files: dict[str, str]) -> VisibleRun:
        return VisibleRun(ok=True, outcome="valid", cycles=1)

    def profile(self, files: dict[str, str]) -> str:
        return "no profile"

    def log(self, event: str, **data: object) -> None:
        return


HEAD = """
param columns: u16;
param rows: u16;
const memcpy = @import_module("<memcpy/get_params>", .{ .width = columns, .height = rows });
"""


def mesh_of(body: str, columns: int, rows: int = 1, head: str = "") -> Mesh:
    """A layout that gives every PE (x, y) the parameters and routes of `body`."""
    text = (
        f"{HEAD}{head}layout {{\n  @set_rectangle(columns, rows);\n"
        f"  for (@range(u16, rows)) |y| {{ for (@range(u16, columns)) |x| {{\n{body}\n}} }}\n}}\n"
    )
    mesh = read_mesh({"layout.csl": text}, {"columns": columns, "rows": rows}, "wse3")
    assert mesh is not None
    return mesh


TO_THE_WEST = """
  const out = @get_color(x % 2);
  const into = @get_color((x + 1) % 2);
  @set_tile_code(x, y, "pe.csl", .{ .p = memcpy.get_params(x), .left = x > 0, .out = out, .into = into });
  if (x > 0) { @set_color_config(x, y, out, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } } }); }
  if (x + 1 < columns) { @set_color_config(x, y, into, .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } } }); }
"""
FROM_THE_TOP = """
  const c = @get_color(3);
  @set_tile_code(x, y, "pe.csl", .{ .p = memcpy.get_params(x), .c = c });
  const below = if (y + 1 < rows) .{ RAMP, SOUTH } else .{ RAMP };
  if (y == 0) { @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ SOUTH } } }); }
  else { @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ NORTH }, .tx = below } }); }
"""


def test_neighbours_that_take_two_colors_in_turn_are_a_chain() -> None:
    (chain,) = ways(mesh_of(TO_THE_WEST, 5))
    assert isinstance(chain, Chain)
    assert (chain.axis, chain.sign) == (X, -1)
    assert (chain.send.color, chain.send.used_if, chain.receive.color) == ("out", "left", "into")


def test_a_color_that_all_take_in_on_its_way_is_a_cast() -> None:
    (cast,) = ways(mesh_of(FROM_THE_TOP, 2, 4))
    assert isinstance(cast, Cast)
    assert (cast.axis, cast.root, cast.returns, cast.lines) == (Y, 0, False, frozenset({0, 1}))


def test_a_sender_that_its_neighbours_all_hear_is_no_chain() -> None:
    """A chain would leave words behind that nobody takes in."""
    body = """
      const own = @get_color(x % 3);
      const other = @get_color((x + 2) % 3);
      const third = @get_color((x + 1) % 3);
      @set_tile_code(x, y, "pe.csl", .{ .p = memcpy.get_params(x), .own = own, .other = other, .third = third });
      const both = if (x == 0) .{ EAST } else if (x + 1 == columns) .{ WEST } else .{ WEST, EAST };
      @set_color_config(x, y, own, .{ .routes = .{ .rx = .{ RAMP }, .tx = both } });
      if (x > 0) { @set_color_config(x, y, other, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } }); }
      if (x + 1 < columns) { @set_color_config(x, y, third, .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } } }); }
    """
    assert [type(way) for way in ways(mesh_of(body, 5))] == [Flood]


def test_a_binary_tree_is_found_by_its_rounds() -> None:
    head = """
    const palette = [2]color { @get_color(4), @get_color(5) };
    """
    body = """
      const far = x == 2;
      const mine = if (far) palette[1] else palette[0];
      @set_tile_code(x, y, "pe.csl", .{ .p = memcpy.get_params(x), .mine = mine, .palette = palette });
      if (x % 2 == 1) {
        @set_color_config(x, y, palette[0], .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } } });
        if (x == 1) { @set_color_config(x, y, palette[1], .{ .routes = .{ .rx = .{ EAST }, .tx = .{ WEST } } }); }
      } else {
        @set_color_config(x, y, palette[0], .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } } });
        if (far) { @set_color_config(x, y, palette[1], .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } } }); }
        else { @set_color_config(x, y, palette[1], .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } } }); }
      }
    """
    (tree,) = [w for w in ways(mesh_of(body, 4, head=head)) if isinstance(w, Tree)]
    assert tree.send.color == "mine"
    assert [p.color for p in tree.receive] == ["palette[0]", "palette[1]"]


def test_a_layout_that_cannot_be_evaluated_has_no_mesh() -> None:
    assert read_mesh({"layout.csl": "layout { @set_rectangle(width, 1); }"}, {}, "wse3") is None


COLLECTIVE = (
    HEAD
    + """
const collectives = @import_module("<collectives_2d/params>");
const reserved = .{
  .x_colors = .{ @get_color(2), @get_color(3) },
  .x_entrypoints = .{ @get_local_task_id(10), @get_local_task_id(11) },
  .y_colors = .{ @get_color(6), @get_color(7) },
  .y_entrypoints = .{ @get_local_task_id(12), @get_local_task_id(13) },
};
layout {
  @set_rectangle(columns, rows);
  for (@range(u16, rows)) |py| {
    for (@range(u16, columns)) |px| {
      const axes = collectives.get_params(px, py, reserved);
      @set_tile_code(px, py, "pe.csl", .{ .memcpy_params = memcpy.get_params(px), .a = axes.x, .b = axes.y });
    }
  }
}
"""
)


def row_of(count: int, each: int) -> Shards:
    place = Placement(
        array="v", shape=(count, each), symbol="s", length=each, x=(0, 1, 0), y=(0, 0, 0), offset=(0, 0, 1)
    )  # fmt: skip
    found = shards(place, (count, 1))
    assert found is not None
    return found


def test_tiles_have_two_dimensions_in_the_array_and_in_the_tensor() -> None:
    """A 6 x 4 matrix on 2 x 2 PEs, each tile column by column."""
    place = Placement(
        array="A",
        shape=(2, 3, 2, 2),
        symbol="A",
        length=6,
        x=(0, 0, 0, 1, 0),
        y=(0, 1, 0, 0, 0),
        offset=(0, 0, 1, 0, 3),
    )
    found = shards(place, (2, 2))
    assert found is not None
    assert found.dims == (Dim(2, 1, 3), Dim(3, 4, 1))
    assert found.steps == (2, 12)
    assert found.count == 6


def test_an_array_of_which_a_pe_holds_more_than_a_box_has_no_shards() -> None:
    place = Placement(
        array="A", shape=(2, 3), symbol="A", length=9, x=(0, 1, 1), y=(0, 0, 0), offset=(0, 0, 1)
    )  # fmt: skip
    assert shards(place, (4, 1)) is None


def test_a_single_chain_brings_everything_to_its_end() -> None:
    mesh = mesh_of(TO_THE_WEST, 4)
    plan = plan_gather(row_of(4, 8), mesh, ways(mesh), (0, 0))
    assert plan.held == (0, EVERYWHERE)
    assert plan.complete
    (step,) = plan.steps
    assert (step.kind, step.to) == (Kind.COLLECT, 0)


def test_what_no_channel_brings_stays_where_it_is() -> None:
    mesh = mesh_of(FROM_THE_TOP, 2, 2)
    plan = plan_gather(row_of(2, 8), mesh, ways(mesh), (EVERYWHERE, 0))
    assert plan.held[X] == OWN
    assert not plan.complete
    assert all(step.way.axis == Y for step in plan.steps)


def collective_mesh(columns: int, rows: int) -> Mesh:
    mesh = read_mesh({"layout.csl": COLLECTIVE}, {"columns": columns, "rows": rows}, "wse3")
    assert mesh is not None
    return mesh


def test_the_library_casts_what_one_pe_knows_to_the_line_that_casts_it_on() -> None:
    mesh = collective_mesh(3, 2)
    place = Placement(array="v", shape=(8,), symbol="s", length=8, x=(0, 0), y=(0, 0), offset=(0, 1))
    found = shards(place, (3, 2))
    assert found is not None
    plan = plan_gather(found, mesh, ways(mesh), (2, 1))
    assert plan.complete
    assert [(s.kind, s.way.axis, s.start, s.across) for s in plan.steps] == [
        (Kind.SPREAD, X, 0, 0),  # along the row of the PE that knows
        (Kind.SPREAD, Y, 0, 2),  # down the column of the PE that needs it
    ]


def test_the_library_brings_all_parts_to_all() -> None:
    mesh = collective_mesh(4, 1)
    plan = plan_gather(row_of(4, 8), mesh, ways(mesh), (2, 0))
    assert plan.held == (EVERYWHERE, EVERYWHERE)
    (step,) = plan.steps
    assert (step.kind, step.to) == (Kind.COLLECT, None)


FIRST_TO_ALL = """
  const own_out = @get_color(x % 2);
  const own_in = @get_color((x + 1) % 2);
  const up = @get_color(2 + y % 2);
  const from_below = @get_color(2 + (y + 1) % 2);
  const c = @get_color(6);
  @set_tile_code(x, y, "pe.csl", .{ .p = memcpy.get_params(x), .first = x == 0 and y == 0, .own_out = own_out,
    .own_in = own_in, .up = up, .from_below = from_below, .total = c });
  if (x > 0) { @set_color_config(x, y, own_out, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } } }); }
  if (x + 1 < columns) { @set_color_config(x, y, own_in, .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } } }); }
  if (x == 0 and y > 0) { @set_color_config(x, y, up, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ NORTH } } }); }
  if (x == 0 and y + 1 < rows) {
    @set_color_config(x, y, from_below, .{ .routes = .{ .rx = .{ SOUTH }, .tx = .{ RAMP } } });
  }
  const east = if (x + 1 < columns) .{ EAST } else .{};
  const south = if (x == 0 and y + 1 < rows) .{ SOUTH } else .{};
  const onward = @concat_structs(east, south);
  if (x == 0 and y == 0) { @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ RAMP }, .tx = onward } }); }
  else {
    const from = if (x == 0) .{ NORTH } else .{ WEST };
    @set_color_config(x, y, c, .{ .routes = .{ .rx = from, .tx = @concat_structs(.{ RAMP }, onward) } });
  }
"""


def test_what_the_first_pe_has_collected_it_casts_to_all() -> None:
    mesh = mesh_of(FIRST_TO_ALL, 3, 2)
    (cast,) = [w for w in ways(mesh) if isinstance(w, MeshCast)]
    assert (cast.root, cast.send.color, cast.receive.color) == ((0, 0), "total", "total")
    assert (cast.send.used_if, cast.receive.used_if) == ("first", None)
    place = Placement(array="A", shape=(2, 3, 4), symbol="A", length=4, x=(0, 0, 1, 0), y=(0, 1, 0, 0),
                      offset=(0, 0, 0, 1))  # fmt: skip
    found = shards(place, (3, 2))
    assert found is not None
    plan = plan_gather(found, mesh, ways(mesh), (EVERYWHERE, EVERYWHERE))
    assert plan.complete
    assert [(type(s.way), s.kind, s.to) for s in plan.steps] == [
        (Chain, Kind.COLLECT, 0),
        (Chain, Kind.COLLECT, 0),
        (MeshCast, Kind.SPREAD, None),
    ]
    # Where the first PE alone needs the array, nothing is cast.
    assert len(plan_gather(found, mesh, ways(mesh), (0, 0)).steps) == 2


TO_ALL_NEIGHBOURS = """
  const colors = [5]color { @get_color(0), @get_color(1), @get_color(2), @get_color(3), @get_color(4) };
  const px = @as(i16, x); const py = @as(i16, y); const w = @as(i16, columns); const h = @as(i16, rows);
  const own = colors[(px + 2 * py + 10) % 5];
  const west = colors[(px - 1 + 2 * py + 10) % 5];
  const east = colors[(px + 1 + 2 * py + 10) % 5];
  const north = colors[(px + 2 * (py - 1) + 10) % 5];
  const south = colors[(px + 2 * (py + 1) + 10) % 5];
  @set_tile_code(x, y, "pe.csl", .{ .p = memcpy.get_params(x), .own = own, .west = west, .east = east,
    .north = north, .south = south, .has_east = px + 1 < w });
  const to_west = if (px > 0) .{ WEST } else .{};
  const to_east = if (px + 1 < w) .{ EAST } else .{};
  const to_north = if (py > 0) .{ NORTH } else .{};
  const to_south = if (py + 1 < h) .{ SOUTH } else .{};
  const all = @concat_structs(@concat_structs(to_west, to_east), @concat_structs(to_north, to_south));
  @set_color_config(x, y, own, .{ .routes = .{ .rx = .{ RAMP }, .tx = all } });
  if (px > 0) { @set_color_config(x, y, west, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } }); }
  if (px + 1 < w) { @set_color_config(x, y, east, .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } } }); }
  if (py > 0) { @set_color_config(x, y, north, .{ .routes = .{ .rx = .{ NORTH }, .tx = .{ RAMP } } }); }
  if (py + 1 < h) { @set_color_config(x, y, south, .{ .routes = .{ .rx = .{ SOUTH }, .tx = .{ RAMP } } }); }
"""


def test_what_reaches_all_neighbours_at_once_floods_the_mesh() -> None:
    mesh = mesh_of(TO_ALL_NEIGHBOURS, 3, 2)
    along_x, along_y = [w for w in ways(mesh) if isinstance(w, Flood)]
    assert (along_x.axis, along_y.axis) == (X, Y)
    assert along_x.send == Port("own", None)
    assert [p and p.color for p in along_x.receive] == ["west", "east", "north", "south"]
    assert along_x.receive[1] == Port("east", "has_east")
    place = Placement(array="A", shape=(2, 3, 4), symbol="A", length=4, x=(0, 0, 1, 0), y=(0, 1, 0, 0),
                      offset=(0, 0, 0, 1))  # fmt: skip
    found = shards(place, (3, 2))
    assert found is not None
    plan = plan_gather(found, mesh, ways(mesh), (EVERYWHERE, EVERYWHERE))
    assert plan.complete
    assert [(type(s.way), s.way.axis, s.across) for s in plan.steps] == [(Flood, X, OWN), (Flood, Y, EVERYWHERE)]
    # In a single row, what reaches all neighbours reaches one on each side.
    assert [w.axis for w in ways(mesh_of(TO_ALL_NEIGHBOURS, 4)) if isinstance(w, Flood)] == [X]


RING = """
  const c = @get_color(x % 2);
  const d = @get_color((x + 1) % 2);
  const closing = @get_color(2);
  const is_last = x + 1 == columns;
  @set_tile_code(x, y, "pe.csl", .{ .p = memcpy.get_params(x), .out = if (is_last) closing else c,
    .into = if (x == 0) closing else d });
  if (is_last) { @set_color_config(x, y, closing, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } } }); }
  else { @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } }); }
  if (x > 0) { @set_color_config(x, y, d, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } }); }
  else { @set_color_config(x, y, closing, .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } } }); }
  if (x > 0 and !is_last) { @set_color_config(x, y, closing, .{ .routes = .{ .rx = .{ EAST }, .tx = .{ WEST } } }); }
"""


def test_a_ring_brings_all_parts_to_all() -> None:
    mesh = mesh_of(RING, 5)
    (ring,) = [w for w in ways(mesh) if isinstance(w, Ring)]
    assert (ring.axis, ring.sign, ring.send, ring.receive) == (X, 1, Port("out", None), Port("into", None))
    plan = plan_gather(row_of(5, 8), mesh, ways(mesh), (EVERYWHERE, 0))
    assert plan.complete
    assert [(s.way, s.kind, s.to) for s in plan.steps] == [(ring, Kind.COLLECT, None)]


def test_tasks_that_a_layout_gives_away_are_known() -> None:
    assert collective_mesh(3, 2).tasks == {10, 11, 12, 13}
    assert mesh_of(TO_THE_WEST, 4).tasks == frozenset()


def test_stages_take_tasks_that_are_free() -> None:
    round_ = Round(
        axis=X, param="p", first=0, last=3, words=8, root="root", place="px", block="block",
        pack=("pack();",), unpack=("unpack();",), only_if="py == 1",
    )  # fmt: skip
    stages = Stages(
        ["before();", round_, "between();", replace(round_, first=2, last=2), "after();"], [], Identifiers([])
    )
    assert [stage.lines for stage in stages.stages] == [("between();",), ("after();",)]
    assert "const stage_1_id = @get_local_task_id(16);" in stages.declarations([14, 16, 17])
    assert stages.opened()[0] == "before();"
    tasks = "\n".join(stages.tasks(("along_x", "along_y"), ["end();"]))
    assert tasks.index("between();") < tasks.index("@activate(stage_1_id);") < tasks.index("after();")
    assert tasks.count("end();") == 1
    with pytest.raises(UnsupportedError, match="more tasks than are free"):
        stages.declarations([14])


def test_the_variables_of_descriptors_leave_names_of_arrays_alone() -> None:
    identifiers = Identifiers(["i0"])
    identifiers.keep("i0")
    own = {"position": "position", "i0": "i0_2", "i1": "i1"}
    transfers = Transfers(Exchange((1, 1), (), (), {}), Fabric(identifiers), identifiers, own)
    transfers._dsd("i0", [Dim(3, 8, 4), Dim(4, 1, 1)], 2)
    (text,) = transfers.dsds
    assert text.endswith(".tensor_access = |i0_2, i1|{3, 4} -> i0[i0_2 * 8 + i1 + 2] })")


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
@pytest.mark.parametrize(
    "name",
    [
        "ParBroadcast-Scale",
        "Residual",
        "GEMV-Collectives-2D",
        "Histogram",
        pytest.param("Power-Method", marks=pytest.mark.slow),
        pytest.param("7pt-Stencil", marks=pytest.mark.slow),
    ],
)
def test_programs_that_gather_first_are_valid_on_inputs_they_were_not_made_with(name: str, arch: str) -> None:
    task = load_task(name)
    view = task_view(task, arch=arch, size="small", workflow="W1", toolchain="embedded")  # type: ignore[arg-type]
    answer = FabricaAgent().translate(view, Tools(), Budget(evaluations=1, wall_s=60, tokens=0))  # type: ignore[arg-type]
    cases = (*visible_cases(task), *held_out_cases(task, held_out_seeds(task, HeldOutKey.fresh()))[:2])
    with Scorer(Conditions(task, get_toolchain("embedded"), arch, "small", "W1")) as scorer:  # type: ignore[arg-type]
        found = scorer.evaluate(dict(answer.files), cases)
    assert found.ok, found.failed


def test_a_program_for_one_mesh_is_refused_on_another(tmp_path: Path) -> None:
    """The width of the strip is no parameter of the compute file, but the program depends on it."""
    task = load_task("ParBroadcast-Scale")
    view = task_view(task, arch="wse3", size="small", workflow="W1", toolchain="embedded")
    answer = FabricaAgent().translate(view, Tools(), Budget(evaluations=1, wall_s=60, tokens=0))  # type: ignore[arg-type]
    for name, text in {**view.files, **answer.files}.items():
        (tmp_path / name).write_text(text)

    def build(width: int) -> None:
        params = {**view.size, "width": width}
        compile_program(
            CompileOptions(tmp_path / "layout.csl", "wse3", (width + 7, 3), (4, 1), params=params, memcpy=True)
        )

    build(view.size["width"])
    with pytest.raises(CslError, match="for other sizes"):
        build(view.size["width"] + 3)
