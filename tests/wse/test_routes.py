"""Tables and pictures of routes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from helpers.ir_programs import Fn, image, program
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import EAST, NORTH, RAMP, SOUTH, WEST, ColorConfig, FilterConfig, SwitchPosition
from fabrica_bench.wse.route_picture import MAX_PES, color_code, routes_svg
from fabrica_bench.wse.routes import Region, dead_ends, describe, groups, positions, rectangles, routes

SVG = "{http://www.w3.org/2000/svg}"


def make(colors: list[list[dict[int, ColorConfig]]]) -> ir.Program:
    f = Fn("main")
    return program(image(f.ret()), [[0] * len(row) for row in colors], colors)


def row(width: int) -> ir.Program:
    """Color 3 goes east from PE 0, with a copy for each PE on its way, to the last PE."""
    inner = [{3: ColorConfig(rx=WEST, tx=EAST | RAMP)} for _ in range(width - 2)]
    return make([[{3: ColorConfig(rx=RAMP, tx=EAST)}, *inner, {3: ColorConfig(rx=WEST, tx=RAMP)}]])


class TestTables:
    def test_a_switch_position_keeps_what_it_does_not_replace(self) -> None:
        config = ColorConfig(RAMP, NORTH, positions=(SwitchPosition(tx=WEST), None, SwitchPosition(rx=EAST)), current=3)
        assert positions(config) == [(0, RAMP, NORTH), (1, RAMP, WEST), (3, EAST, WEST)]
        assert describe(config) == ("{RAMP} -> {NORTH}; pos1 {RAMP} -> {WEST}; pos3 {EAST} -> {WEST}; starts at pos3")

    def test_everything_that_is_set_is_told(self) -> None:
        config = ColorConfig(
            WEST, RAMP, ring_mode=True, pop_mode="always_pop", color_swap_y=True, teardown=True,
            filter=FilterConfig("range", min_idx=2, max_idx=9),
        )  # fmt: skip
        assert describe(config) == (
            "{WEST} -> {RAMP}; ring; always_pop; color swap y; filter: range 2 to 9; starts in teardown"
        )
        counter = ColorConfig(
            WEST, RAMP, color_swap_x=True, color_swap_y=True, filter=FilterConfig("counter", limit1=3)
        )
        assert describe(counter) == "{WEST} -> {RAMP}; color swap xy; filter: counter limit 3"

    def test_equal_routes_stand_together(self) -> None:
        assert [(g.color, [str(r) for r in g.regions], g.pes) for g in groups(row(6))] == [
            (3, ["0,0"], 1),
            (3, ["1-4,0"], 4),
            (3, ["5,0"], 1),
        ]

    def test_region_and_colors_select(self) -> None:
        assert [(r.x, r.color) for r in routes(row(6), Region(1, 2, 0, 0))] == [(1, 3), (2, 3)]
        assert list(routes(row(6), None, {4})) == []

    def test_a_color_without_any_direction_is_no_route(self) -> None:
        assert list(routes(make([[{2: ColorConfig()}]]))) == []

    @given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1))
    def test_rectangles_cover_exactly_the_places(self, places: set[tuple[int, int]]) -> None:
        covered = [
            (x, y)
            for region in rectangles(sorted(places))
            for y in range(region.top, region.bottom + 1)
            for x in range(region.left, region.right + 1)
        ]
        assert sorted(covered) == sorted(places)

    def test_a_full_grid_is_one_rectangle(self) -> None:
        assert rectangles([(x, y) for x in range(50) for y in range(40)]) == [Region(0, 49, 0, 39)]


class TestDeadEnds:
    def test_a_connected_row_has_none(self) -> None:
        assert dead_ends(row(5)) == []

    def test_out_of_the_rectangle(self) -> None:
        found = dead_ends(make([[{1: ColorConfig(RAMP, SOUTH)}]]))
        assert [(e.x, e.y, e.color, e.direction, e.reason) for e in found] == [
            (0, 0, 1, SOUTH, "leads out of the program rectangle")
        ]

    def test_to_a_pe_without_a_route_or_with_one_that_does_not_accept(self) -> None:
        nothing = dead_ends(make([[{1: ColorConfig(RAMP, EAST)}, {}]]))
        assert [e.reason for e in nothing] == ["PE(1,0) has no route for color 1"]
        refuses = dead_ends(make([[{1: ColorConfig(RAMP, EAST)}, {1: ColorConfig(NORTH, RAMP)}]]))
        assert [e.reason for e in refuses] == ["PE(1,0) never receives color 1 from WEST"]

    def test_any_switch_position_may_accept(self) -> None:
        later = ColorConfig(NORTH, RAMP, positions=(SwitchPosition(rx=WEST), None, None))
        assert dead_ends(make([[{1: ColorConfig(RAMP, EAST)}, {1: later}]])) == []

    def test_color_swap_changes_the_color_that_arrives(self) -> None:
        swapped = {2: ColorConfig(WEST, RAMP, color_swap_x=True), 3: ColorConfig()}
        assert dead_ends(make([[{3: ColorConfig(RAMP, EAST)}, swapped]])) == []
        assert dead_ends(make([[{3: ColorConfig(RAMP, EAST)}, {2: ColorConfig(WEST, RAMP)}]])) != []


class TestPicture:
    def test_it_is_well_formed_and_has_a_square_per_pe(self) -> None:
        root = ElementTree.fromstring(routes_svg(row(4), title="a <b> & c"))
        titles = [element.text for element in root.iter(f"{SVG}title")]
        assert [t for t in titles if t and t.endswith(": test")] == [f"PE({x},0): test" for x in range(4)]
        assert "PE(1,0) color 3: {WEST} -> {EAST, RAMP}" in titles
        assert next(root.iter(f"{SVG}text")).text == "a <b> & c"

    def test_lines_meet_at_the_border_of_two_pes(self) -> None:
        root = ElementTree.fromstring(routes_svg(row(2), title="t"))
        groups_ = [g for g in root.iter(f"{SVG}g") if g.find(f"{SVG}title") is not None]
        out, into = (group.find(f"{SVG}line") for group in groups_)
        assert out is not None
        assert into is not None
        assert out.get("y1") == out.get("y2") == into.get("y1") == into.get("y2")
        assert 0 < float(into.get("x1", "0")) - float(out.get("x2", "0")) < 10

    def test_switch_positions_are_dashed_and_dead_ends_crossed(self) -> None:
        config = ColorConfig(RAMP, NORTH, positions=(SwitchPosition(tx=WEST), None, None))
        root = ElementTree.fromstring(routes_svg(make([[{1: config}]]), title="t"))
        route = next(g for g in root.iter(f"{SVG}g"))
        assert [line.get("stroke-dasharray") for line in route.iter(f"{SVG}line")] == [None, "4 3"]
        crosses = [p.find(f"{SVG}title") for p in root.iter(f"{SVG}path")]
        assert sum(title is not None for title in crosses) == 2

    def test_ring_and_disc_tell_from_and_to_the_compute_element(self) -> None:
        both = make([[{1: ColorConfig(RAMP, RAMP)}]])
        route = next(ElementTree.fromstring(routes_svg(both, title="t")).iter(f"{SVG}g"))
        assert [circle.get("r") for circle in route.iter(f"{SVG}circle")] == ["5.5", "3"]

    def test_the_24_colors_differ(self) -> None:
        assert len({color_code(color) for color in range(24)}) == 24

    def test_too_many_pes_are_refused(self) -> None:
        big = make([[{} for _ in range(MAX_PES + 1)]])
        with pytest.raises(ValueError, match=str(MAX_PES)):
            routes_svg(big, title="t")
        routes_svg(big, title="t", region=Region(0, 3, 0, 0))
