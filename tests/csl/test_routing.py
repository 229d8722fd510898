"""Warnings about routes that can't carry what they are there for."""

from __future__ import annotations

from pathlib import Path

from helpers.csl_eval import compile_text

from fabrica_bench.csl.diagnostics import Severity

PE = """
param sends: bool = false;
const c = @get_color(3);
const out = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c, .output_queue = @get_output_queue(2) });
task main() void { if (sends) { @mov32(out, 1); } }
comptime {
  @bind_local_task(main, @get_local_task_id(10));
  @activate(@get_local_task_id(10));
}
"""


def layout(*configurations: str, sender: int = 0) -> str:
    """Two PEs in a row; each configuration is `x: rx -> tx`."""
    lines = []
    for text in configurations:
        x, rx, tx = text.replace("->", ":").split(":")
        routes = f".{{ .rx = .{{ {rx.strip()} }}, .tx = .{{ {tx.strip()} }} }}"
        lines.append(f"  @set_color_config({x}, 0, @get_color(3), .{{ .routes = {routes} }});")
    tiles = [f'  @set_tile_code({x}, 0, "pe.csl", .{{ .sends = {str(x == sender).lower()} }});' for x in (0, 1)]
    return "\n".join(["layout {", "  @set_rectangle(2, 1);", *tiles, *lines, "}"])


def messages(tmp_path: Path, text: str, pe: str = PE, severity: Severity = Severity.WARNING) -> list[str]:
    output = compile_text(tmp_path, pe, layout=text, memcpy=False)
    return [entry.message for entry in output.warnings if entry.severity is severity]


def test_a_complete_route_is_fine(tmp_path: Path) -> None:
    text = layout("0: RAMP -> EAST", "1: WEST -> RAMP")
    assert messages(tmp_path, text) == messages(tmp_path, text, severity=Severity.NOTE) == []


def test_a_neighbour_that_does_not_receive_is_noticed(tmp_path: Path) -> None:
    expected = ["PE (0, 0) sends color 3 EAST, where PE (1, 0) does not receive it"]
    assert messages(tmp_path, layout("0: RAMP -> EAST")) == expected
    assert messages(tmp_path, layout("0: RAMP -> EAST", "1: EAST -> RAMP")) == expected


def test_what_another_switch_position_receives_is_fine(tmp_path: Path) -> None:
    text = layout("0: RAMP -> EAST").replace(
        "\n}",
        "\n  @set_color_config(1, 0, @get_color(3), .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } },"
        " .switches = .{ .pos1 = .{ .rx = WEST } } });\n}",
    )
    assert messages(tmp_path, text) == []


def test_leaving_the_rectangle_is_a_remark(tmp_path: Path) -> None:
    text = layout("0: RAMP -> EAST", "1: WEST -> RAMP, EAST")
    assert messages(tmp_path, text) == []
    assert messages(tmp_path, text, severity=Severity.NOTE) == ["color 3 leaves the rectangle: PE (1, 0) sends it EAST"]


def test_a_color_that_nobody_sends_is_noticed(tmp_path: Path) -> None:
    text = layout("1: WEST -> RAMP", sender=2)
    assert messages(tmp_path, text) == ["color 3 is delivered to PE (1, 0), but no PE sends it"]


def test_sending_on_a_route_without_ramp_is_noticed(tmp_path: Path) -> None:
    expected = "this sends on color 3, but no PE with this code has RAMP in the 'rx' of the color"
    assert messages(tmp_path, layout()) == [expected]
    assert expected in messages(tmp_path, layout("0: WEST -> RAMP"))


def test_routes_made_at_run_time_are_not_judged(tmp_path: Path) -> None:
    pe = (
        PE
        + """
    const tile = @import_module("<tile_config>");
    task later() void { tile.color_config.reset_routes(c, .{ .rx = RAMP, .tx = EAST }); }
    comptime { @bind_local_task(later, @get_local_task_id(11)); }
    """
    )
    assert messages(tmp_path, layout(), pe) == []
