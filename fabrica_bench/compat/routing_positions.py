"""Directions, routing positions and symbolic colors of the layout API."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fabrica_bench.compat.sessions import HostError
from fabrica_bench.csl import ir

MAX_POSITIONS: Final = 4
MAX_COLOR: Final = 23


class Edge(enum.Enum):
    """A side of a code region."""

    TOP = "top"
    BOTTOM = "bottom"
    LEFT = "left"
    RIGHT = "right"


class Route(enum.Enum):
    """A port of a router; RAMP leads to and from the PE's own compute element. Values are router masks."""

    RAMP = ir.RAMP
    EAST = ir.EAST
    WEST = ir.WEST
    NORTH = ir.NORTH
    SOUTH = ir.SOUTH


class FP16TYPE(enum.Enum):
    """Format of 16-bit floats."""

    F16 = "f16"
    BF16 = "bf16"
    CB16 = "cb16"


class RoutingPosition:
    """Where the wavelets of a color come from and go to, in one switch position. Setters return the object itself."""

    def __init__(self) -> None:
        self._input: tuple[Route, ...] = ()
        self._output: tuple[Route, ...] = ()

    def set_input(self, routes: Iterable[Route]) -> RoutingPosition:
        """Replace the directions from which wavelets are taken."""
        self._input = _distinct("set_input", routes)
        return self

    def set_output(self, routes: Iterable[Route]) -> RoutingPosition:
        """Replace the directions to which every wavelet is sent."""
        self._output = _distinct("set_output", routes)
        return self

    def add_input(self, route: Route) -> RoutingPosition:
        """Take wavelets from one more direction."""
        return self.set_input((*self._input, route))

    def add_output(self, route: Route) -> RoutingPosition:
        """Send wavelets to one more direction."""
        return self.set_output((*self._output, route))

    def get_input(self) -> list[Route]:
        """Directions from which wavelets are taken."""
        return list(self._input)

    def get_output(self) -> list[Route]:
        """Directions to which every wavelet is sent."""
        return list(self._output)

    def copy(self) -> RoutingPosition:
        """A position that later changes of this one don't touch."""
        made = RoutingPosition()
        made._input, made._output = self._input, self._output
        return made

    def __repr__(self) -> str:
        def names(routes: tuple[Route, ...]) -> str:
            return ", ".join(route.name for route in routes)

        return f"RoutingPosition({{{names(self._input)}}} -> {{{names(self._output)}}})"


def _distinct(call: str, routes: Iterable[Route]) -> tuple[Route, ...]:
    found = tuple(routes) if isinstance(routes, Iterable) else ()
    if not found or not all(isinstance(route, Route) for route in found):
        raise HostError(f"RoutingPosition.{call}: {routes!r} is no list of Route values", remedy="write [Route.EAST]")
    if len(set(found)) != len(found):
        raise HostError(f"RoutingPosition.{call}: a direction is given twice", remedy="name each direction once")
    return found


class EdgeRouting(NamedTuple):
    """Positions for the PEs of one edge; see `get_edge_routing`."""

    edge: Edge
    positions: tuple[RoutingPosition, ...]


def get_edge_routing(edge: Edge, positions: Sequence[RoutingPosition]) -> EdgeRouting:
    """Routing of an edge's PEs, for `CodeRegion.paint_all`."""
    if not isinstance(edge, Edge):
        raise HostError(f"get_edge_routing: {edge!r} is no Edge", remedy="pass Edge.TOP, BOTTOM, LEFT or RIGHT")
    return EdgeRouting(edge, check_positions("get_edge_routing", positions))


def check_positions(call: str, positions: Sequence[RoutingPosition]) -> tuple[RoutingPosition, ...]:
    """Copies of one to four routing positions.

    Raises:
        HostError: It's something else.
    """
    if not isinstance(positions, Sequence) or not all(isinstance(item, RoutingPosition) for item in positions):
        raise HostError(f"{call}: {positions!r} is no list of RoutingPosition", remedy="pass a list such as [position]")
    if not 1 <= len(positions) <= MAX_POSITIONS:
        raise HostError(f"{call}: {len(positions)} routing positions", remedy=f"a color has 1 to {MAX_POSITIONS}")
    return tuple(position.copy() for position in positions)


class Color:
    """A symbolic color. Two objects with the same global name are the same color.

    Args:
        name: Global name, and name of the param that `set_param_all(color)` binds.
        value: Physical color 0 to 23; without one the layout compiler chooses.
    """

    def __init__(self, name: str, value: int | None = None, *, region: str | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise HostError(f"Color: {name!r} is no name", remedy="pass a string")
        if value is not None and not 0 <= int(value) <= MAX_COLOR:
            raise HostError(f"Color {name!r}: there is no color {value}", remedy=f"use 0 to {MAX_COLOR}")
        self._name = name
        self._global_name = f"{region}.{name}" if region is not None else name
        self._value = None if value is None else int(value)

    def get_global_name(self) -> str:
        """The name by which the layout knows the color."""
        return self._global_name

    def get_local_param_name(self) -> str:
        """The param that gets the color."""
        return self._name

    def get_value(self) -> int | None:
        """The physical color; None if the layout compiler has still to choose."""
        return self._value

    def resolve(self, value: int) -> None:
        """Tell the color its physical value."""
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Color) and other._global_name == self._global_name

    def __hash__(self) -> int:
        return hash(self._global_name)

    def __repr__(self) -> str:
        return f"Color({self._global_name!r}, {self._value})"


class Masks(NamedTuple):
    """Input and output masks of one switch position."""

    rx: int
    tx: int


def masks(position: RoutingPosition) -> Masks:
    """A position's directions as router masks."""
    return Masks(_mask(position.get_input()), _mask(position.get_output()))


def _mask(routes: Iterable[Route]) -> int:
    return sum(route.value for route in routes)


def color_config(positions: Sequence[Masks], arch: str, what: str) -> ir.ColorConfig:
    """Router configuration of a color whose switch positions are `positions`.

    Raises:
        HostError: A position changes input and output, which WSE-2 switches can't.
    """
    first, *others = positions
    switches: list[ir.SwitchPosition | None] = [None, None, None]
    before = first
    for index, now in enumerate(others):
        if now.rx != before.rx and now.tx != before.tx and arch == "wse2":
            raise HostError(
                f"{what}: switch position {index + 1} changes both input and output",
                remedy="on WSE-2 a switch position replaces one of them; go through one more position",
            )
        rx = now.rx if now.rx != before.rx or now.tx == before.tx else 0
        tx = now.tx if now.tx != before.tx else 0
        switches[index] = ir.SwitchPosition(rx=rx, tx=tx)
        before = now
    return ir.ColorConfig(rx=first.rx, tx=first.tx, positions=(switches[0], switches[1], switches[2]))
