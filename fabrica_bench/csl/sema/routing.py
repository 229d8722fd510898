"""Warnings about routes that can't carry what they are there for.

The documentation names no check of routes: a wavelet that nobody receives waits at the sender for ever, without a
message. So these are warnings. What run-time code reconfigures is left out, and so is what another switch position, or
another PE with the same code, makes good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl.sema.checks import descriptors, instructions_of

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.unit import Unit


class Heading:
    """A direction between routers: its name, mask, step (column, row), and the mask of the opposite."""

    def __init__(self, name: str, mask: int, step: tuple[int, int], opposite: int, opposite_name: str) -> None:
        self.name, self.mask, self.step = name, mask, step
        self.opposite, self.opposite_name = opposite, opposite_name


HEADINGS: Final = (
    Heading("NORTH", ir.NORTH, (0, -1), ir.SOUTH, "SOUTH"),
    Heading("SOUTH", ir.SOUTH, (0, 1), ir.NORTH, "NORTH"),
    Heading("EAST", ir.EAST, (1, 0), ir.WEST, "WEST"),
    Heading("WEST", ir.WEST, (-1, 0), ir.EAST, "EAST"),
)
#: Intrinsics that change routes at run time.
_REROUTING: Final = frozenset(
    ("color_set_routes", "color_toggle_route", "color_clear_route", "color_add_route", "switch_set_position")
)
#: Any of them may write the registers of a router.
_UNKNOWN: Final = frozenset(("config_write",))


@dataclass(frozen=True, slots=True)
class Routes:
    """A linked program, as far as routes go. `colors[y][x]`: color -> configuration; `tiles[y][x]` indexes `images`."""

    colors: Sequence[Sequence[dict[int, ir.ColorConfig]]]
    tiles: Sequence[Sequence[int]]
    images: Sequence[tuple[Unit, ir.Image]]
    spans: dict[tuple[int, int], dict[int, ast.Span]]
    streams: dict[int, str]

    def places(self) -> Iterator[tuple[int, int]]:
        return ((x, y) for y, row in enumerate(self.tiles) for x in range(len(row)))

    def span(self, x: int, y: int, color: int) -> ast.Span | None:
        """Where the color was configured."""
        found = self.spans.get((x, y), {}).get(color)
        return found or self.images[self.tiles[y][x]][0].pe_state.local_color_spans.get(color)


def masks(config: ir.ColorConfig) -> tuple[int, int]:
    """Directions that a color is received from and sent to in any switch position."""
    rx, tx = config.rx, config.tx
    for position in config.positions:
        if position is not None:
            rx |= position.rx
            tx |= position.tx
    return rx, tx


def warn_about_routes(routes: Routes) -> None:
    """Add the warnings, one for each color and kind of mistake."""
    rerouted = [_reroutes(image) for _, image in routes.images]
    swapped = {
        color ^ bit
        for row in routes.colors
        for configs in row
        for color, config in configs.items()
        if config.color_swap_x or config.color_swap_y
        for bit in (0, 1)
    }
    _broken_links(routes, rerouted, swapped)
    if not any(rerouted):
        _colors_without_source(routes, swapped)
    for number, (unit, image) in enumerate(routes.images):
        _unrouted_descriptors(routes, rerouted, number, unit, image)


def _reroutes(image: ir.Image) -> bool:
    return any(
        isinstance(instr, ir.Intrinsic) and instr.name in _REROUTING | _UNKNOWN for instr in instructions_of(image)
    )


def _broken_links(routes: Routes, rerouted: list[bool], swapped: set[int]) -> None:
    """Wavelets leave a PE in a direction in which nobody takes them."""
    height, width = len(routes.tiles), len(routes.tiles[0])
    first: dict[tuple[int, str, bool], tuple[int, int]] = {}
    count: dict[tuple[int, str, bool], int] = {}
    for x, y in routes.places():
        if rerouted[routes.tiles[y][x]]:
            continue
        for color, config in routes.colors[y][x].items():
            if color in swapped:
                continue
            _, tx = masks(config)
            for heading in HEADINGS:
                if not tx & heading.mask:
                    continue
                to_x, to_y = x + heading.step[0], y + heading.step[1]
                inside = 0 <= to_x < width and 0 <= to_y < height
                if inside and rerouted[routes.tiles[to_y][to_x]]:
                    continue
                target = routes.colors[to_y][to_x].get(color) if inside else None
                if target is not None and masks(target)[0] & heading.opposite:
                    continue
                key = color, heading.name, inside
                first.setdefault(key, (x, y))
                count[key] = count.get(key, 0) + 1
    for (color, name, inside), (x, y) in first.items():
        heading = next(heading for heading in HEADINGS if heading.name == name)
        more = f" (and {count[color, name, inside] - 1} more)" if count[color, name, inside] > 1 else ""
        message = f"color {color} leaves the rectangle: PE ({x}, {y}){more} sends it {name}"
        hint = "nobody receives there: with memcpy they are lost, without it their senders soon wait for ever"
        if inside:
            target_name = f"PE ({x + heading.step[0]}, {y + heading.step[1]})"
            message = f"PE ({x}, {y}){more} sends color {color} {name}, where {target_name} does not receive it"
            hint = f"add {heading.opposite_name} to the 'rx' of the color there"
        session = routes.images[0][0].session
        # Programs that send wavelets off their edge work with memcpy, several official examples among them.
        (session.warn if inside else session.remark)(routes.span(x, y, color), message, hint)


def _colors_without_source(routes: Routes, swapped: set[int]) -> None:
    """A color reaches PEs, but no PE and no host stream injects wavelets."""
    sources = set(routes.streams) | swapped
    sinks: dict[int, tuple[int, int]] = {}
    for x, y in routes.places():
        for color, config in routes.colors[y][x].items():
            rx, tx = masks(config)
            if rx & ir.RAMP:
                sources.add(color)
            if tx & ir.RAMP:
                sinks.setdefault(color, (x, y))
    for color, (x, y) in sinks.items():
        if color not in sources:
            routes.images[0][0].session.warn(
                routes.span(x, y, color),
                f"color {color} is delivered to PE ({x}, {y}), but no PE sends it",
                "the sender's route needs RAMP in its 'rx'",
            )


def _unrouted_descriptors(routes: Routes, rerouted: list[bool], number: int, unit: Unit, image: ir.Image) -> None:
    """Code sends or receives on a color that no PE with the same source routes from or to its RAMP."""
    if rerouted[number]:
        return
    same = {k for k, (_, other) in enumerate(routes.images) if other.file == image.file}
    here = [(x, y) for x, y in routes.places() if routes.tiles[y][x] in same]
    bound: dict[tuple[str, int], int] = {(init.direction, init.queue): init.color for init in image.queues}
    seen: set[tuple[str, int]] = set()
    for instr in instructions_of(image):
        for dsd in descriptors(instr):
            if dsd.kind not in ("fabin", "fabout"):
                continue
            direction = "input" if dsd.kind == "fabin" else "output"
            color = dsd.color if unit.session.arch == "wse2" else bound.get((direction, dsd.queue), -1)
            place = unit.location_spans[instr.loc]
            if place is not None and place.file.is_system:
                continue  # a library knows its own channels, also those that the simulator models without routes
            if color < 0 or color in routes.streams or color >= 21 or (direction, color) in seen:
                continue
            seen.add((direction, color))
            side = 1 if direction == "input" else 0
            if any(masks(routes.colors[y][x][color])[side] & ir.RAMP for x, y in here if color in routes.colors[y][x]):
                continue
            verb, field = ("receives", "tx") if side else ("sends", "rx")
            is_routed = any(color in routes.colors[y][x] for x, y in here)
            unit.session.warn(
                place,
                f"this {verb} on color {color}, but no PE with this code has RAMP in the '{field}' of the color",
                f"add RAMP to its '{field}'" if is_routed else "configure the color with @set_color_config",
            )
