"""Paths between PEs: connected, shortest, around what is barred."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.compat.path_search import OFFSETS, End, Grid, Place, find_disjoint_paths, find_path, places_between
from fabrica_bench.csl.ir import EAST, NORTH, SOUTH, WEST

SIDE = 6
places = st.tuples(st.integers(0, SIDE - 1), st.integers(0, SIDE - 1))


def walk(start: Place, path: list[int]) -> list[Place]:
    """PEs after each step."""
    visited = []
    for direction in path:
        dx, dy = OFFSETS[direction]
        start = start[0] + dx, start[1] + dy
        visited.append(start)
    return visited


def distance(start: Place, goal: Place, barred: set[Place]) -> int | None:
    """Breadth-first search, written apart from the code under test."""
    seen = {start: 0}
    queue = deque([start])
    while queue:
        x, y = place = queue.popleft()
        if place == goal:
            return seen[place]
        for after in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
            inside = 0 <= after[0] < SIDE and 0 <= after[1] < SIDE
            if inside and after not in seen and (after not in barred or after == goal):
                seen[after] = seen[place] + 1
                queue.append(after)
    return None


@given(places, places, st.sets(places, max_size=20))
def test_a_path_is_as_short_as_can_be_and_enters_nothing_barred(start: Place, goal: Place, barred: set[Place]) -> None:
    if start == goal:
        return
    path = find_path(Grid(SIDE, SIDE, ()), End(start), goal.__eq__, 0, barred)
    expected = distance(start, goal, barred)
    if path is None:
        assert expected is None
        return
    visited = walk(start, path)
    assert visited[-1] == goal
    assert len(path) == expected
    assert not barred & set(visited[:-1])


@given(places, places, st.sets(places, max_size=12))
def test_code_on_the_way_is_avoided_only_while_the_detour_is_short(
    start: Place, goal: Place, occupied: set[Place]
) -> None:
    if start == goal:
        return
    path = find_path(Grid(SIDE, SIDE, occupied), End(start), goal.__eq__, 0, ())
    assert path is not None, "code never bars a path"
    through = len(set(walk(start, path)[:-1]) & occupied)
    free = distance(start, goal, occupied)
    if free is not None:
        assert len(path) + 4 * through <= free


def test_a_path_leaves_and_enters_on_the_side_of_the_ports_if_that_costs_little() -> None:
    path = find_path(Grid(SIDE, SIDE, ()), End((1, 1), SOUTH), (3, 3).__eq__, NORTH, ())
    assert path is not None
    assert path[0] == SOUTH
    assert path[-1] == SOUTH, "entering from NORTH means that the last step goes SOUTH"


def test_a_walled_in_port_has_no_path() -> None:
    wall = {(1, 0), (0, 1)}
    assert find_path(Grid(SIDE, SIDE, ()), End((0, 0)), (4, 4).__eq__, 0, wall) is None


def test_the_nearest_goal_is_chosen_in_a_fixed_order() -> None:
    free = {(2, 1), (1, 2), (0, 1), (1, 0)}
    path = find_path(Grid(SIDE, SIDE, ()), End((1, 1)), free.__contains__, 0, ())
    assert path in ([NORTH], [SOUTH], [EAST], [WEST])
    assert path == find_path(Grid(SIDE, SIDE, ()), End((1, 1)), free.__contains__, 0, ())


@given(st.integers(0, 3), st.integers(2, 4), st.integers(0, 6))
def test_parallel_ports_at_different_heights_get_paths_that_do_not_meet(shift: int, height: int, gap: int) -> None:
    """Staircases: each path must turn in a column of its own, west of where the one above turns."""
    if shift and gap < height:
        return
    grid = Grid(gap + 4, shift + height + 2, ())
    pairs = [(End((0, row), EAST), End((gap + 1, row + shift), WEST)) for row in range(height)]
    ends = {end.place for pair in pairs for end in pair}
    paths = find_disjoint_paths(grid, pairs, ends)
    assert not isinstance(paths, int)
    between = [place for pair, path in zip(pairs, paths, strict=True) for place in places_between(pair[0].place, path)]
    assert len(set(between)) == len(between)
    assert not ends & set(between)
    for (start, goal), path in zip(pairs, paths, strict=True):
        assert walk(start.place, path)[-1] == goal.place


def test_ports_that_would_have_to_cross_are_named() -> None:
    pairs = [(End((0, 0)), End((3, 1))), (End((0, 1)), End((3, 0)))]
    ends = {end.place for pair in pairs for end in pair}
    assert find_disjoint_paths(Grid(4, 2, ()), pairs, ends) in (0, 1)
