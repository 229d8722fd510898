"""Routes that can't carry what they are there for are errors.

The vendor's documentation names no check of routes: there, a wavelet that nobody receives waits at its sender for ever,
without a message. The rules here are the strictest that all published programs obey (docs/csl-support.md lists them):

1. What a PE sends to a neighbour, the neighbour receives.
2. What leaves the rectangle is lost with memcpy, whose PEs surround it, and published programs send their last
   wavelets that way: a note. Without memcpy nobody is there: an error.
3. A color that is delivered to a PE is injected somewhere, and one that is injected is delivered somewhere.
4. A route doesn't lead back to where it came from.
5. Code that sends or receives, and a data task, has the RAMP of its color (`route_use`).

What run-time code reconfigures is left out, colors that start in teardown or are swapped too, and so is what another
switch position makes good. The first four are warnings where no code is sure to use the color that way: routes that
carry nothing do no harm, as those of a program for one PE whose neighbors are there in larger ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl.diagnostics import CslError, Diagnostic, Severity
from fabrica_bench.csl.sema.checks import instructions_of
from fabrica_bench.csl.sema.route_use import errors_of_use, surely_used

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.unit import Unit


@dataclass(frozen=True, slots=True)
class Heading:
    """A direction between routers: its name, mask, step (column, row), and the opposite."""

    name: str
    mask: int
    step: tuple[int, int]
    opposite: int
    opposite_name: str


HEADINGS: Final = (
    Heading("NORTH", ir.NORTH, (0, -1), ir.SOUTH, "SOUTH"),
    Heading("SOUTH", ir.SOUTH, (0, 1), ir.NORTH, "NORTH"),
    Heading("EAST", ir.EAST, (1, 0), ir.WEST, "WEST"),
    Heading("WEST", ir.WEST, (-1, 0), ir.EAST, "EAST"),
)
#: Intrinsics that change routes at run time; the last may write any register of a router.
_REROUTING: Final = frozenset(
    (
        "color_set_routes",
        "color_toggle_route",
        "color_clear_route",
        "color_add_route",
        "switch_set_position",
        "config_write",
    )
)


@dataclass(frozen=True, slots=True)
class Routes:
    """A linked program, as far as routes go. `colors[y][x]`: color -> configuration; `tiles[y][x]` indexes `images`."""

    colors: Sequence[Sequence[dict[int, ir.ColorConfig]]]
    tiles: Sequence[Sequence[int]]
    images: Sequence[tuple[Unit, ir.Image]]
    spans: dict[tuple[int, int], dict[int, ast.Span]]
    streams: dict[int, str]
    memcpy: bool

    def places(self) -> Iterator[tuple[int, int]]:
        return ((x, y) for y, row in enumerate(self.tiles) for x in range(len(row)))

    def span(self, x: int, y: int, color: int) -> ast.Span | None:
        """Where the color was configured."""
        found = self.spans.get((x, y), {}).get(color)
        return found or self.images[self.tiles[y][x]][0].pe_state.local_color_spans.get(color)

    def beside(self, x: int, y: int, heading: Heading) -> tuple[int, int] | None:
        """The PE that lies there, or None beyond the edge."""
        to_x, to_y = x + heading.step[0], y + heading.step[1]
        return (to_x, to_y) if 0 <= to_y < len(self.tiles) and 0 <= to_x < len(self.tiles[0]) else None


def masks(config: ir.ColorConfig) -> tuple[int, int]:
    """Directions that a color is received from and sent to in any switch position."""
    rx, tx = config.rx, config.tx
    for position in config.positions:
        if position is not None:
            rx |= position.rx
            tx |= position.tx
    return rx, tx


def check_routes(routes: Routes) -> None:
    """Raise `CslError` with one error for each color and kind of mistake; add notes and warnings."""
    rerouted = [
        any(isinstance(instr, ir.Intrinsic) and instr.name in _REROUTING for instr in instructions_of(image))
        for _, image in routes.images
    ]
    unjudged: set[int] = set()
    for row in routes.colors:
        for configs in row:
            for color, config in configs.items():
                if config.color_swap_x or config.color_swap_y:
                    unjudged |= {color, color ^ 1}
                elif config.teardown:
                    unjudged.add(color)
    for unit, _ in routes.images:  # a library knows its channels, also those that are modelled without routes
        unjudged |= {color for color, span in unit.pe_state.local_color_spans.items() if span.file.is_system}
    problems = list(_broken_links(routes, rerouted, unjudged))
    if not any(rerouted):
        problems += _colors_without_end(routes, unjudged)
        problems += _circles(routes, unjudged)
        _without_feeder(routes, unjudged)
    errors = list(_serious(routes, problems))
    judged = [number for number, reroutes in enumerate(rerouted) if not reroutes]
    errors += errors_of_use(routes, judged, unjudged)
    if errors:
        raise CslError(errors)


class Problem(NamedTuple):
    """A mistake in the routes of a color. `hurts`: who is harmed by it, what sends ("output") or receives ("input")."""

    color: int
    hurts: Literal["input", "output"]
    diagnostic: Diagnostic


def _serious(routes: Routes, problems: Sequence[Problem]) -> Iterator[Diagnostic]:
    """The problems of colors that are used; warn of the others."""
    used: dict[str, set[int]] = {}
    for problem in problems:
        if problem.hurts not in used:
            used[problem.hurts] = surely_used(routes, problem.hurts) | set(routes.streams)
        found = problem.diagnostic
        if problem.color in used[problem.hurts]:
            yield found
        else:
            routes.images[0][0].session.warn(found.span, found.message, found.hint)


def _broken_links(routes: Routes, rerouted: list[bool], unjudged: set[int]) -> Iterator[Problem]:
    """Wavelets leave a PE in a direction in which nobody takes them."""
    first: dict[tuple[int, Heading, bool], tuple[int, int]] = {}
    count: dict[tuple[int, Heading, bool], int] = {}
    for x, y in routes.places():
        if rerouted[routes.tiles[y][x]]:
            continue
        for color, config in routes.colors[y][x].items():
            if color in unjudged:
                continue
            _, tx = masks(config)
            for heading in HEADINGS:
                if not tx & heading.mask:
                    continue
                there = routes.beside(x, y, heading)
                if there is not None:
                    if rerouted[routes.tiles[there[1]][there[0]]]:
                        continue
                    target = routes.colors[there[1]][there[0]].get(color)
                    if target is not None and masks(target)[0] & heading.opposite:
                        continue
                key = color, heading, there is not None
                first.setdefault(key, (x, y))
                count[key] = count.get(key, 0) + 1
    for (color, heading, inside), (x, y) in first.items():
        more = f" (and {count[color, heading, inside] - 1} more)" if count[color, heading, inside] > 1 else ""
        span = routes.span(x, y, color)
        if inside:
            target_name = f"PE ({x + heading.step[0]}, {y + heading.step[1]})"
            message = f"PE ({x}, {y}){more} sends color {color} {heading.name}, where {target_name} does not receive it"
            hint = f"add {heading.opposite_name} to the 'rx' of the color there"
            yield Problem(color, "output", Diagnostic(Severity.ERROR, message, span, hint))
            continue
        message = f"color {color} leaves the rectangle: PE ({x}, {y}){more} sends it {heading.name}"
        if routes.memcpy:
            routes.images[0][0].session.remark(span, message, "nobody receives there: these wavelets are lost")
        else:
            hint = f"nobody receives there: take {heading.name} out of its 'tx'"
            yield Problem(color, "output", Diagnostic(Severity.ERROR, message, span, hint))


def _colors_without_end(routes: Routes, unjudged: set[int]) -> Iterator[Problem]:
    """A color reaches PEs, but no PE and no host stream injects wavelets; or the reverse."""
    sources: dict[int, tuple[int, int]] = {}
    sinks: dict[int, tuple[int, int]] = {}
    for x, y in routes.places():
        for color, config in routes.colors[y][x].items():
            rx, tx = masks(config)
            if rx & ir.RAMP:
                sources.setdefault(color, (x, y))
            if tx & ir.RAMP:
                sinks.setdefault(color, (x, y))
    settled = set(routes.streams) | unjudged
    for color, (x, y) in sinks.items():
        if color not in sources and color not in settled:
            message = f"color {color} is delivered to PE ({x}, {y}), but no PE sends it"
            hint = "the sender's route needs RAMP in its 'rx'"
            yield Problem(color, "input", Diagnostic(Severity.ERROR, message, routes.span(x, y, color), hint))
    for color, (x, y) in sources.items():
        if color not in sinks and color not in settled:
            message = f"color {color} is sent by PE ({x}, {y}), but delivered to no PE"
            hint = "the receiver's route needs RAMP in its 'tx'"
            yield Problem(color, "output", Diagnostic(Severity.ERROR, message, routes.span(x, y, color), hint))


def _without_feeder(routes: Routes, unjudged: set[int]) -> None:
    """A PE receives from neighbours only, none of which sends: harmless, so a warning, but hardly meant."""
    for x, y in routes.places():
        for color, config in routes.colors[y][x].items():
            rx, tx = masks(config)
            if color in unjudged or color in routes.streams or rx & ir.RAMP or not tx & ir.RAMP:
                continue
            feeders = [routes.beside(x, y, heading) for heading in HEADINGS if rx & heading.mask]
            ways = [heading.opposite for heading in HEADINGS if rx & heading.mask]
            sends = [
                place is None  # published programs give the PEs of an edge the routes of the others
                or (
                    color in routes.colors[place[1]][place[0]]
                    and masks(routes.colors[place[1]][place[0]][color])[1] & way
                )
                for place, way in zip(feeders, ways, strict=True)
            ]
            if feeders and not any(sends):
                names = ", ".join(heading.name for heading in HEADINGS if rx & heading.mask)
                message = f"PE ({x}, {y}) receives color {color} from {names}, where no PE sends it this way"
                routes.images[0][0].session.warn(routes.span(x, y, color), message)


def _circles(routes: Routes, unjudged: set[int]) -> Iterator[Problem]:
    """A route leads back to a link that it has taken: its wavelets never leave, and soon block each other."""
    colors = {color for row in routes.colors for configs in row for color in configs} - unjudged
    for color in sorted(colors):
        place = _circle(routes, color)
        if place is not None:
            message = f"the route of color {color} is a circle through PE ({place[0]}, {place[1]})"
            hint = "wavelets in it never stop: interrupt it at one PE"
            yield Problem(color, "output", Diagnostic(Severity.ERROR, message, routes.span(*place, color), hint))


def _circle(routes: Routes, color: int) -> tuple[int, int] | None:
    """The first PE, in reading order, of a circle of links between PEs that never switch the color."""

    def fixed(x: int, y: int) -> ir.ColorConfig | None:
        config = routes.colors[y][x].get(color)
        return None if config is None or any(config.positions) else config

    # A PE passes everything that it receives to everything in its tx, so links can be followed from PE to PE: what
    # nothing follows is taken away until only circles, and what leads out of them, are left; then the other way round.
    onward: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for x, y in routes.places():
        config = fixed(x, y)
        if config is None:
            continue
        for heading in HEADINGS:
            there = routes.beside(x, y, heading) if config.tx & heading.mask else None
            target = fixed(*there) if there is not None else None
            if there is not None and target is not None and target.rx & heading.opposite:
                onward.setdefault((x, y), set()).add(there)
    for _ in range(2):
        backward: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for place, targets in onward.items():
            for target_place in targets:
                backward.setdefault(target_place, set()).add(place)
        ends = [place for place in onward if place not in backward]
        while ends:
            place = ends.pop()
            for target_place in onward.pop(place, ()):
                backward[target_place].discard(place)
                if not backward[target_place] and target_place in onward:
                    ends.append(target_place)
        onward = {place: {source for source in sources if source in onward} for place, sources in backward.items()}
        onward = {place: targets for place, targets in onward.items() if targets}
    return min(onward, key=lambda place: (place[1], place[0]), default=None)
