"""Routes that can't carry what they are there for are errors; tests/conformance/reject/routes has one program for each.

Here is what must not be taken for one, and what is only a warning or a note.
"""

from __future__ import annotations

from pathlib import Path

from helpers.csl_eval import compile_text, layout_errors

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


def messages(
    tmp_path: Path, text: str, pe: str = PE, severity: Severity = Severity.WARNING, memcpy: bool = False
) -> list[str]:
    output = compile_text(tmp_path, pe, layout=text, memcpy=memcpy)
    return [entry.message for entry in output.warnings if entry.severity is severity]


def test_a_complete_route_is_fine(tmp_path: Path) -> None:
    text = layout("0: RAMP -> EAST", "1: WEST -> RAMP")
    assert messages(tmp_path, text) == messages(tmp_path, text, severity=Severity.NOTE) == []


def test_mistakes_of_a_kind_are_one_error_and_those_of_other_kinds_are_found_at_once(tmp_path: Path) -> None:
    text = layout("0: RAMP -> EAST, WEST", "1: EAST -> WEST")
    assert layout_errors(tmp_path, text, PE, memcpy=False) == [
        "PE (0, 0) sends color 3 EAST, where PE (1, 0) does not receive it",
        "color 3 leaves the rectangle: PE (0, 0) sends it WEST",
        "color 3 is sent by PE (0, 0), but delivered to no PE",
        "PE (1, 0) sends color 3 WEST, where PE (0, 0) does not receive it",
    ]


def test_what_another_switch_position_receives_is_fine(tmp_path: Path) -> None:
    text = layout("0: RAMP -> EAST").replace(
        "\n}",
        "\n  @set_color_config(1, 0, @get_color(3), .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } },"
        " .switches = .{ .pos1 = .{ .rx = WEST } } });\n}",
    )
    assert messages(tmp_path, text) == []


def test_leaving_a_rectangle_that_memcpy_surrounds_is_a_note(tmp_path: Path) -> None:
    text = layout("0: RAMP -> EAST", "1: WEST -> RAMP, EAST")
    expected = "color 3 leaves the rectangle: PE (1, 0) sends it EAST"
    assert messages(tmp_path, text, memcpy=True) == []
    assert messages(tmp_path, text, severity=Severity.NOTE, memcpy=True) == [expected]
    assert layout_errors(tmp_path, text, PE, memcpy=False) == [expected]


def test_a_receiver_without_a_neighbour_that_sends_is_a_warning(tmp_path: Path) -> None:
    text = layout("0: RAMP -> RAMP", "1: WEST -> RAMP")
    assert messages(tmp_path, text) == ["PE (1, 0) receives color 3 from WEST, where no PE sends it this way"]
    assert messages(tmp_path, layout("0: WEST, RAMP -> RAMP")) == []


def test_the_placeholder_color_of_guarded_code_is_a_warning(tmp_path: Path) -> None:
    pe = PE + "var role: u16 = 0;\ntask roles() void { if (role == 1) { @mov32(out, 1); } }\n"
    pe = pe.replace("sends: bool = false", "sends: bool = false; param never: bool = false")
    pe += "comptime { @bind_local_task(roles, @get_local_task_id(11)); }"
    expected = "this sends on color 3, but no PE with this code has RAMP in the 'rx' of the color"
    assert messages(tmp_path, layout(sender=2), pe) == [expected]


def test_code_behind_a_run_time_condition_is_judged_by_all_pes_with_the_same_source(tmp_path: Path) -> None:
    pe = (
        PE.replace("if (sends)", "if (role == 1)").replace("param sends: bool = false;", "param sends: bool;")
        + "var role: u16;"
    )
    text = layout("0: RAMP -> EAST", "1: WEST -> RAMP")
    assert messages(tmp_path, text, pe) == []
    certain = pe.replace(
        "if (role == 1) { @mov32(out, 1); }", "role += 1; if (role == 1) { role = 2; } @mov32(out, 1);"
    )
    expected = "this sends on color 3, but PE (1, 0) has no RAMP in the 'rx' of the color"
    assert layout_errors(tmp_path, text, certain, memcpy=False) == [expected]


def test_a_loop_that_may_run_no_time_guards_its_code(tmp_path: Path) -> None:
    pe = (
        PE.replace("if (sends) { @mov32(out, 1); }", "while (count > 0) : (count -= 1) { @mov32(out, 1); }")
        + "var count: u16;"
    )
    assert messages(tmp_path, layout("0: RAMP -> EAST", "1: WEST -> RAMP"), pe) == []


def test_swapped_colors_and_those_that_start_in_teardown_are_not_judged(tmp_path: Path) -> None:
    assert messages(tmp_path, layout("0: RAMP -> EAST").replace("EAST } }", "EAST } }, .teardown = true")) == []
    assert messages(tmp_path, layout("0: RAMP -> EAST").replace("EAST }", "EAST }, .color_swap_x = true")) == []


def test_a_route_that_ends_at_its_beginning_is_no_circle(tmp_path: Path) -> None:
    assert messages(tmp_path, layout("0: RAMP, EAST -> EAST, RAMP", "1: RAMP, WEST -> RAMP")) == []


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


def test_routes_of_a_color_that_no_code_is_sure_to_use_are_a_warning(tmp_path: Path) -> None:
    idle = PE.replace("if (sends)", "if (false)")
    guarded = PE.replace("if (sends)", "if (role == 1)") + "var role: u16 = 0;"
    for pe in (idle, guarded):
        assert messages(tmp_path, layout("0: RAMP -> EAST", "1: EAST -> RAMP"), pe) == [
            "PE (0, 0) sends color 3 EAST, where PE (1, 0) does not receive it"
        ]
        assert messages(tmp_path, layout("0: RAMP -> EAST"), pe)[-1:] == [
            "color 3 is sent by PE (0, 0), but delivered to no PE"
        ]
    assert layout_errors(tmp_path, layout("0: RAMP -> EAST", "1: EAST -> RAMP"), PE, memcpy=False) == [
        "PE (0, 0) sends color 3 EAST, where PE (1, 0) does not receive it"
    ]


def test_descriptors_made_at_run_time_may_be_of_every_color_of_their_program(tmp_path: Path) -> None:
    made = "if (sends) { count += 1; @mov32(@set_dsd_length(out, count), 1); }"
    pe = PE.replace("if (sends) { @mov32(out, 1); }", made) + "var count: u16 = 0;"
    assert layout_errors(tmp_path, layout("0: RAMP -> EAST", "1: EAST -> RAMP"), pe, memcpy=False) == [
        "PE (0, 0) sends color 3 EAST, where PE (1, 0) does not receive it"
    ]


TAKER = """
const c = @get_color(3);
const in_queue = @get_input_queue(3);
var role: u16 = 0;
var word: u32 = 0;
const in = @get_dsd(fabin_dsd, .{ .extent = 1, .fabric_color = c, .input_queue = in_queue });
"""
BIND = """
comptime {
  @bind_data_task(got, if (@is_arch("wse3")) @get_data_task_id(in_queue) else @get_data_task_id(c));
  if (@is_arch("wse3")) { @initialize_queue(in_queue, .{ .color = c }); }
}
"""
ALONE = """
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl");
  ROUTE
}
"""


def test_a_data_task_or_guarded_reception_without_a_way_is_a_warning_as_long_as_nobody_is_sure_to_send(
    tmp_path: Path,
) -> None:
    data_task = TAKER + "task got(w: u32) void {}" + BIND
    reception = TAKER + (
        "task main() void { if (role == 1) { @mov32(&word, in); } }\n"
        "comptime { @bind_local_task(main, @get_local_task_id(10)); @activate(@get_local_task_id(10));\n"
        "  @initialize_queue(in_queue, .{ .color = c }); }"
    )
    east = "@set_color_config(0, 0, @get_color(3), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });"
    for pe, subject in ((data_task, "a data task takes"), (reception, "this receives on")):
        for route in ("", east):
            found = messages(tmp_path, ALONE.replace("ROUTE", route), pe, memcpy=True)
            assert f"{subject} color 3, but no PE with this code has RAMP in the 'tx' of the color" in found
