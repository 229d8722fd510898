"""What a compiled program's routers are set to: rows, groups of PEs with the same route, and links that lead
nowhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from fabrica_bench.csl.ir import EAST, NORTH, SOUTH, WEST
from fabrica_bench.wse.router import DIRECTION_NAMES, OFFSETS, OPPOSITE, mask_names
from fabrica_bench.wse.trace_recorder import arrival_color

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import ColorConfig, FilterConfig, Program


class Region(NamedTuple):
    """PEs of the program rectangle: first and last column, first and last row, all inclusive."""

    left: int
    right: int
    top: int
    bottom: int

    def __str__(self) -> str:
        columns = str(self.left) if self.left == self.right else f"{self.left}-{self.right}"
        rows = str(self.top) if self.top == self.bottom else f"{self.top}-{self.bottom}"
        return f"{columns},{rows}"


class Position(NamedTuple):
    """Direction masks of one switch position, with those that it inherits filled in. `number` 0 is the route as
    such."""

    number: int
    rx: int
    tx: int


class Route(NamedTuple):
    """Configuration of one color on one PE."""

    x: int
    y: int
    color: int
    config: ColorConfig


class RouteGroup(NamedTuple):
    """PEs with the same configuration of a color, as few rectangles as a row-wise sweep finds."""

    color: int
    text: str
    regions: tuple[Region, ...]
    pes: int


class DeadEnd(NamedTuple):
    """A route that sends wavelets where nobody takes them."""

    x: int
    y: int
    color: int
    direction: int
    reason: str


def whole(program: Program) -> Region:
    """All PEs of the program."""
    return Region(0, program.width - 1, 0, program.height - 1)


def routes(program: Program, region: Region | None = None, colors: Collection[int] | None = None) -> Iterator[Route]:
    """Every configured color of every PE of the region, row by row."""
    area = region or whole(program)
    for y in range(area.top, area.bottom + 1):
        for x in range(area.left, area.right + 1):
            for color, config in sorted(program.colors[y][x].items()):
                if (colors is None or color in colors) and is_routed(config):
                    yield Route(x, y, color, config)


def is_routed(config: ColorConfig) -> bool:
    """Whether wavelets can pass at all in some switch position."""
    return any(position.rx or position.tx for position in positions(config))


def positions(config: ColorConfig) -> list[Position]:
    """The valid switch positions. A position keeps the masks of the one before it that it doesn't replace."""
    found = [Position(0, config.rx, config.tx)]
    for number, change in enumerate(config.positions, start=1):
        if change is not None and not change.invalid:
            before = found[-1]
            found.append(Position(number, change.rx or before.rx, change.tx or before.tx))
    return found


def describe(config: ColorConfig) -> str:
    """`{WEST} -> {EAST, RAMP}` and, after it, everything else that is set."""
    first, *others = positions(config)
    parts = [f"{mask_names(first.rx)} -> {mask_names(first.tx)}"]
    parts += [f"pos{p.number} {mask_names(p.rx)} -> {mask_names(p.tx)}" for p in others]
    if config.current:
        parts.append(f"starts at pos{config.current}")
    if config.ring_mode:
        parts.append("ring")
    if config.pop_mode != "no_pop":
        parts.append(config.pop_mode)
    if config.color_swap_x or config.color_swap_y:
        parts.append("color swap " + "xy"[not config.color_swap_x : 1 + config.color_swap_y])
    if config.filter is not None:
        parts.append(_describe_filter(config.filter))
    if config.teardown:
        parts.append("starts in teardown")
    return "; ".join(parts)


def _describe_filter(config: FilterConfig) -> str:
    if config.kind == "range":
        return f"filter: range {config.min_idx} to {config.max_idx}"
    return f"filter: {config.kind.replace('_', ' ')} limit {config.limit1}"


def groups(program: Program, region: Region | None = None, colors: Collection[int] | None = None) -> list[RouteGroup]:
    """The routes of the region with equal ones put together, by color and then by first PE."""
    found: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for route in routes(program, region, colors):
        found[route.color, describe(route.config)].append((route.x, route.y))
    made = [RouteGroup(color, text, tuple(rectangles(places)), len(places)) for (color, text), places in found.items()]
    return sorted(made, key=lambda group: (group.color, group.regions[0].top, group.regions[0].left))


def rectangles(places: list[tuple[int, int]]) -> list[Region]:
    """Rectangles that together cover exactly these PEs."""
    open_runs: dict[tuple[int, int], Region] = {}
    done: list[Region] = []
    rows: dict[int, list[int]] = defaultdict(list)
    for x, y in places:
        rows[y].append(x)
    for y in sorted(rows):
        runs = {}
        for left, right in _runs(sorted(rows[y])):
            above = open_runs.pop((left, right), None)
            joins = above is not None and above.bottom == y - 1
            if above is not None and not joins:
                done.append(above)
            runs[left, right] = above._replace(bottom=y) if above is not None and joins else Region(left, right, y, y)
        done += open_runs.values()
        open_runs = runs
    return sorted([*done, *open_runs.values()], key=lambda region: (region.top, region.left))


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    start = previous = numbers[0]
    for number in numbers[1:]:
        if number != previous + 1:
            yield start, previous
            start = number
        previous = number
    yield start, previous


def dead_ends(program: Program, region: Region | None = None, colors: Collection[int] | None = None) -> list[DeadEnd]:
    """Links that carry a color out of the program rectangle, or to a router that takes it from there in no switch
    position.

    What the program reconfigures at run time is not considered.
    """
    found = []
    for x, y, color, config in routes(program, region, colors):
        sent = 0
        for position in positions(config):
            sent |= position.tx
        for direction in (NORTH, SOUTH, EAST, WEST):
            if sent & direction:
                reason = _why_lost(program, x, y, color, direction)
                if reason:
                    found.append(DeadEnd(x, y, color, direction, reason))
    return found


def _why_lost(program: Program, x: int, y: int, color: int, direction: int) -> str:
    dx, dy = OFFSETS[direction]
    x, y, port = x + dx, y + dy, OPPOSITE[direction]
    if not (0 <= x < program.width and 0 <= y < program.height):
        return "leads out of the program rectangle"
    color = arrival_color(program, x, y, port, color)
    config = program.colors[y][x].get(color)
    if config is None or not is_routed(config):
        return f"PE({x},{y}) has no route for color {color}"
    if not any(position.rx & port for position in positions(config)):
        return f"PE({x},{y}) never receives color {color} from {DIRECTION_NAMES[port]}"
    return ""
