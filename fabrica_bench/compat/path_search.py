"""Paths of wavelets between PEs: shortest ways over a grid on which some PEs are barred and some are better avoided."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fabrica_bench.csl.ir import EAST, NORTH, SOUTH, WEST

Place = tuple[int, int]

OFFSETS: Final = {NORTH: (0, -1), SOUTH: (0, 1), EAST: (1, 0), WEST: (-1, 0)}
OPPOSITE: Final = {NORTH: SOUTH, SOUTH: NORTH, EAST: WEST, WEST: EAST}
THROUGH_CODE: Final = 4
"""Hops that a path may be longer to avoid the router of a PE with code of its own."""
WRONG_SIDE: Final = 2
"""Hops that a path may be longer to leave or enter a port on the side of its edge."""

ROUNDS: Final = 40
"""Attempts to lead the paths of one connection past each other."""


class Grid(NamedTuple):
    """Columns and rows that paths may use, and the PEs that have code."""

    width: int
    height: int
    occupied: Collection[Place]


class End(NamedTuple):
    """An end of a path: its PE, and the direction of the port's edge seen from it (0: any)."""

    place: Place
    side: int = 0


def find_path(
    grid: Grid,
    start: End,
    is_goal: Callable[[Place], bool],
    goal_side: int,
    barred: Collection[Place],
    dear: Mapping[Place, int] | None = None,
) -> list[int] | None:
    """Directions from `start` to the nearest PE for which `is_goal` holds; None if there is no way.

    The goal isn't the start. It may be barred; others that are barred are not entered. `dear`: hops that a path may be
    longer to avoid a PE. Equally long ways are told apart by a fixed order: the result depends on the arguments only.
    """
    prices = dear or {}
    queue: list[tuple[int, int, Place]] = [(0, 0, start.place)]
    best: dict[Place, int] = {start.place: 0}
    came: dict[Place, int] = {}
    done: set[Place] = set()
    counter = 0
    while queue:
        cost, _, place = heapq.heappop(queue)
        if place in done:
            continue
        done.add(place)
        if place != start.place and is_goal(place):
            return _trace_back(came, start.place, place)
        if place in barred and place != start.place:
            continue
        for direction, (dx, dy) in OFFSETS.items():
            after = place[0] + dx, place[1] + dy
            if not (0 <= after[0] < grid.width and 0 <= after[1] < grid.height) or after in done:
                continue
            goal = is_goal(after)
            if after in barred and not goal:
                continue
            total = cost + 1 + _extra(grid, start, place, direction, after, goal, goal_side) + prices.get(after, 0)
            if total < best.get(after, total + 1):
                best[after] = total
                came[after] = direction
                counter += 1
                heapq.heappush(queue, (total, counter, after))
    return None


def find_disjoint_paths(
    grid: Grid, pairs: Sequence[tuple[End, End]], barred: Collection[Place]
) -> list[list[int]] | int:
    """One path for each pair of ends, no two of which meet; the number of a pair without path if this search finds
    none.

    The paths are found one after the other, again and again; PEs that several of them wanted get dearer each time,
    until all but one go elsewhere.
    """
    history: Counter[Place] = Counter()
    paths: list[list[int]] = [[] for _ in pairs]
    crossing = 0
    for round_ in range(ROUNDS):
        for number, (start, goal) in enumerate(pairs):
            taken = Counter(
                place
                for other, path in enumerate(paths)
                if other != number
                for place in places_between(pairs[other][0].place, path)
            )
            dear = {place: history[place] + taken[place] * (round_ + 1) for place in history.keys() | taken.keys()}
            path = find_path(grid, start, goal.place.__eq__, goal.side, barred, dear)
            if path is None:
                return number
            paths[number] = path
        used = Counter(
            place for pair, path in zip(pairs, paths, strict=True) for place in places_between(pair[0].place, path)
        )
        shared = {place for place, count in used.items() if count > 1}
        if not shared:
            return paths
        history.update(shared)
        crossing = next(
            number
            for number, (pair, path) in enumerate(zip(pairs, paths, strict=True))
            if not shared.isdisjoint(places_between(pair[0].place, path))
        )
    return crossing


def places_between(start: Place, path: Sequence[int]) -> Iterator[Place]:
    """The PEs between the ends of a path."""
    for direction in path[:-1]:
        dx, dy = OFFSETS[direction]
        start = start[0] + dx, start[1] + dy
        yield start


def _extra(grid: Grid, start: End, place: Place, direction: int, after: Place, goal: bool, goal_side: int) -> int:
    extra = 0
    if place == start.place and start.side and direction != start.side:
        extra += WRONG_SIDE
    if goal:
        return extra + (WRONG_SIDE if goal_side and OPPOSITE[direction] != goal_side else 0)
    return extra + (THROUGH_CODE if after in grid.occupied else 0)


def _trace_back(came: dict[Place, int], start: Place, goal: Place) -> list[int]:
    path: list[int] = []
    place = goal
    while place != start:
        direction = came[place]
        path.append(direction)
        dx, dy = OFFSETS[direction]
        place = place[0] - dx, place[1] - dy
    return path[::-1]
