"""From code regions, connections and streams to the routes of every PE: placing, path finding, color allocation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from fabrica_bench.compat.code_regions import CodeRegion, ParamValue, Port
from fabrica_bench.compat.color_allocation import ColorClasses, allocate
from fabrica_bench.compat.geometry import IntVector
from fabrica_bench.compat.path_search import OFFSETS, OPPOSITE, End, Grid, Place, find_disjoint_paths, find_path
from fabrica_bench.compat.routing_positions import Color, Edge, Masks, color_config, masks
from fabrica_bench.compat.sessions import HostError
from fabrica_bench.csl import ir

EDGE_SIDES: Final = {Edge.TOP: ir.NORTH, Edge.BOTTOM: ir.SOUTH, Edge.LEFT: ir.WEST, Edge.RIGHT: ir.EAST}
MARGIN: Final = 2
"""Columns east and rows south of everything that is placed, for paths and stream adaptors; unused ones are cut off."""
HOST_COLORS: Final = {"h2d": "(host input)", "d2h": "(host output)"}
"""Names of the colors between the host and stream adaptors."""


@dataclass(frozen=True)
class StreamRequest:
    """A host stream to be made: to or from a port, or where the routes of `color` meet the PE at `location`."""

    name: str
    direction: Literal["h2d", "d2h"]
    port: Port | None
    color: Color
    location: IntVector | None
    buffer_words: int

    @property
    def size(self) -> int:
        """Wavelets of the port; 0 if there is none."""
        return self.port.size if self.port is not None else 0


class Adaptor(NamedTuple):
    """A PE that passes words between the host and a color."""

    stream: StreamRequest
    color_class: str


class PePlan(NamedTuple):
    """What one PE gets: its region and place in it (None for others), params, routes."""

    region: CodeRegion | None
    local: IntVector
    params: dict[str, ParamValue]
    adaptor: Adaptor | None


@dataclass(frozen=True)
class Plan:
    """A layout with everything decided. `colors`: global name -> value; `host_colors`: "h2d" or "d2h" -> value."""

    width: int
    height: int
    pes: Mapping[Place, PePlan]
    routes: Mapping[Place, Mapping[int, ir.ColorConfig]]
    colors: Mapping[str, int]
    host_colors: Mapping[str, int]


def make_plan(
    regions: Sequence[CodeRegion], connections: Sequence[tuple[Port, Port]], streams: Sequence[StreamRequest], arch: str
) -> Plan:
    """Decide about everything that the program left open.

    Raises:
        HostError: Regions overlap or aren't placed, ports are unconnected, or no path or color is left.
    """
    return _Planner(regions, connections, streams, arch).plan()


@dataclass
class _Planner:
    regions: Sequence[CodeRegion]
    connections: Sequence[tuple[Port, Port]]
    streams: Sequence[StreamRequest]
    arch: str
    classes: ColorClasses = field(default_factory=ColorClasses)
    code: dict[Place, tuple[CodeRegion, IntVector]] = field(default_factory=dict)
    routes: dict[str, dict[Place, tuple[Masks, ...]]] = field(default_factory=lambda: defaultdict(dict))
    reserved: dict[str, set[Place]] = field(default_factory=lambda: defaultdict(set))
    adaptors: dict[Place, Adaptor] = field(default_factory=dict)
    grid: Grid = field(default_factory=lambda: Grid(0, 0, ()))

    def plan(self) -> Plan:
        self._place_regions()
        self._join_colors()
        self._take_paints()
        for sender, receiver in self.connections:
            self._connect(sender, receiver)
        for stream in self.streams:
            self._attach(stream)
        self._require_connected()
        return self._finish()

    # ------------------------------------------------------------------------------------------- placement

    def _place_regions(self) -> None:
        if not self.regions:
            raise HostError("the layout has no code region", remedy="make one with SdkLayout.create_code_region")
        unplaced = [region for region in self.regions if region.origin is None]
        if unplaced and len(self.regions) == 1:
            unplaced[0].place(0, 0)
        elif unplaced:
            names = ", ".join(repr(region.name) for region in unplaced)
            raise HostError(f"code regions without a place: {names}", remedy="call place(x, y), hstack or vstack")
        width = height = 0
        for region in self.regions:
            x0, y0 = _origin(region)
            for y in range(region.height):
                for x in range(region.width):
                    there = self.code.setdefault((x0 + x, y0 + y), (region, IntVector(x, y)))[0]
                    if there is not region:
                        raise HostError(
                            f"code regions {there.name!r} and {region.name!r} overlap at PE ({x0 + x}, {y0 + y})",
                            remedy="place one of them elsewhere",
                        )
            width, height = max(width, x0 + region.width), max(height, y0 + region.height)
        for stream in self.streams:
            if stream.location is not None:
                width, height = max(width, stream.location.x + 1), max(height, stream.location.y + 1)
        self.grid = Grid(width + MARGIN, height + MARGIN, self.code.keys())

    # --------------------------------------------------------------------------------------- colors, paints

    def _join_colors(self) -> None:
        for region in self.regions:
            for color in _colors_of(region):
                self.classes.add(color)
        for stream in self.streams:
            self.classes.add(stream.color)
        for sender, receiver in self.connections:
            self.classes.join(sender.color, receiver.color)

    def _class(self, color: Color) -> str:
        return self.classes.find(color.get_global_name())

    def _take_paints(self) -> None:
        for region in self.regions:
            ports = {(pe, port.color) for port in region.ports.values() for pe in port.local_pes()}
            for port in region.ports.values():
                for pe in port.local_pes():
                    self._reserve(port, _at(region, pe))
            for pe, paints in region.paints.items():
                for color, positions in paints.items():
                    if (pe, color) not in ports:
                        what = f"color {color.get_global_name()!r} painted in region {region.name!r}"
                        self._claim(self._class(color), _at(region, pe), [masks(item) for item in positions], what)

    def _reserve(self, port: Port, place: Place) -> None:
        places = self.reserved[self._class(port.color)]
        if place in places:
            raise HostError(
                f"{port}: PE {place} has another port of the same color, or of one connected to it",
                remedy="use colors that are not connected with each other on one PE",
            )
        places.add(place)

    def _claim(self, name: str, place: Place, positions: Sequence[Masks], what: str) -> None:
        if place in self.routes[name]:
            raise HostError(
                f"{what}: PE {place} has a route of this color already (as {name!r})",
                remedy="use another color here, or connect other ports",
            )
        self.routes[name][place] = tuple(positions)

    # ------------------------------------------------------------------------------------------------ paths

    def _connect(self, sender: Port, receiver: Port) -> None:
        name = self._class(sender.color)
        pairs = [
            (End(_at(sender.region, tx), _side(sender)), End(_at(receiver.region, rx), _side(receiver)))
            for tx, rx in zip(sender.local_pes(), receiver.local_pes(), strict=True)
        ]
        paths = find_disjoint_paths(self.grid, pairs, self.routes[name].keys() | self.reserved[name])
        if isinstance(paths, int):
            start, goal = pairs[paths]
            raise HostError(
                f"no path is left from PE {start.place} ({sender}) to PE {goal.place} ({receiver})",
                remedy="place the regions so that paths of one color need not cross",
            )
        for (start, goal), path in zip(pairs, paths, strict=True):
            self._lay(name, start.place, path, f"the path of {sender}")
            self._finish_port(sender, start.place, path[0])
            self._finish_port(receiver, goal.place, OPPOSITE[path[-1]])

    def _lay(self, name: str, start: Place, path: Sequence[int], what: str) -> None:
        """Route the PEs between the ends of a path."""
        place = start
        for came, goes in pairwise(path):
            place = _step(place, came)
            self._claim(name, place, [Masks(OPPOSITE[came], goes)], what)

    def _finish_port(self, port: Port, place: Place, direction: int) -> None:
        """Fill in the direction that a port's routes lack."""
        given = [masks(item) for item in port.positions]
        whole = [Masks(direction, item.tx) if port.is_input else Masks(item.rx, direction) for item in given]
        self._claim(self._class(port.color), place, whole, str(port))

    def _require_connected(self) -> None:
        for region in self.regions:
            for port in region.ports.values():
                if port.peer is None:
                    raise HostError(f"{port} is not connected", remedy="connect it, or make a stream from it")

    # ---------------------------------------------------------------------------------------------- streams

    def _attach(self, stream: StreamRequest) -> None:
        location = stream.location
        if location is not None and not self._is_free(location):
            raise HostError(
                f"stream {stream.name!r}: PE ({location.x}, {location.y}) is not free",
                remedy="a stream needs a PE of its own, outside of all code regions",
            )
        if stream.port is not None:
            self._attach_port(stream, stream.port)
        else:
            self._attach_routes(stream)

    def _is_free(self, place: Place) -> bool:
        return place not in self.code and place not in self.adaptors

    def _attach_port(self, stream: StreamRequest, port: Port) -> None:
        name = self._class(port.color)
        (pe,) = port.local_pes()
        start = _at(port.region, pe)
        barred = self.routes[name].keys() | self.reserved[name]

        def is_goal(place: Place) -> bool:
            if stream.location is not None:
                return place == stream.location
            return self._is_free(place) and place not in barred

        path = find_path(self.grid, End(start, _side(port)), is_goal, 0, barred)
        if path is None:
            raise HostError(f"no path is left between {port} and a PE for its stream", remedy="move the region")
        place = start
        for direction in path:
            place = _step(place, direction)
        self._finish_port(port, start, path[0])
        if port.is_input:
            backwards = [OPPOSITE[direction] for direction in reversed(path)]
            self._lay(name, place, backwards, f"the path of {port}")
            self._add_adaptor(stream, place, Masks(ir.RAMP, backwards[0]))
        else:
            self._lay(name, start, path, f"the path of {port}")
            self._add_adaptor(stream, place, Masks(OPPOSITE[path[-1]], ir.RAMP))

    def _attach_routes(self, stream: StreamRequest) -> None:
        """A stream at the end of routes that the program painted."""
        assert stream.location is not None
        place: Place = stream.location
        found = 0
        for direction in OFFSETS:
            positions = self.routes[self._class(stream.color)].get(_step(place, direction), ())
            towards = OPPOSITE[direction]
            if any((item.rx if stream.direction == "h2d" else item.tx) & towards for item in positions):
                found |= direction
        if not found or (stream.direction == "d2h" and found.bit_count() != 1):
            verb = "take" if stream.direction == "h2d" else "send"
            raise HostError(
                f"stream {stream.name!r}: {'several' if found else 'no'} neighbours of PE {tuple(place)} {verb} color "
                f"{stream.color.get_global_name()!r} {'from' if stream.direction == 'h2d' else 'to'} it",
                remedy="paint the route of one neighbour, or make the stream from a port",
            )
        self._add_adaptor(stream, place, Masks(ir.RAMP, found) if stream.direction == "h2d" else Masks(found, ir.RAMP))

    def _add_adaptor(self, stream: StreamRequest, place: Place, route: Masks) -> None:
        name = self._class(stream.color)
        self._claim(name, place, [route], f"stream {stream.name!r}")
        host = self.classes.add(Color(HOST_COLORS[stream.direction]))
        # Words for the host are taken from the router of this PE: the color leads out of its compute element only.
        self._claim(host, place, [Masks(ir.RAMP if stream.direction == "d2h" else 0, 0)], f"stream {stream.name!r}")
        self.adaptors[place] = Adaptor(stream, name)

    # ----------------------------------------------------------------------------------------------- result

    def _finish(self) -> Plan:
        values = self._values()
        colors = self.classes.resolve(values)
        routes: dict[Place, dict[int, ir.ColorConfig]] = defaultdict(dict)
        for name, places in self.routes.items():
            for place, positions in places.items():
                what = f"color {name!r} of PE {place}"
                routes[place][values[name]] = color_config(positions, self.arch, what)
        pes: dict[Place, PePlan] = {
            place: PePlan(region, local, region.params.get(local, {}), None)
            for place, (region, local) in self.code.items()
        }
        for place, adaptor in self.adaptors.items():
            pes[place] = PePlan(None, IntVector(0, 0), {}, adaptor)
        everything = routes.keys() | pes.keys()
        return Plan(
            width=1 + max(x for x, _ in everything),
            height=1 + max(y for _, y in everything),
            pes=pes,
            routes=routes,
            colors={name: value for name, value in colors.items() if name not in HOST_COLORS.values()},
            host_colors={way: colors[name] for way, name in HOST_COLORS.items() if name in colors},
        )

    def _values(self) -> dict[str, int]:
        uses: dict[Place, set[str]] = defaultdict(set)
        for name, places in self.routes.items():
            for place, positions in places.items():
                uses[place].add(name)
                for direction in OFFSETS:
                    # Also the neighbours that get the wavelets: another color of this value there would mix with them.
                    if any(item.tx & direction for item in positions):
                        uses[_step(place, direction)].add(name)
        for region in self.regions:
            for pe, params in region.params.items():
                uses[_at(region, pe)] |= {self._class(value) for value in params.values() if isinstance(value, Color)}
        names = {self.classes.find(name) for name in self.classes.members}
        given = {name: self.classes.fixed_value(name) for name in sorted(names)}
        fixed = {name: value for name, value in given.items() if value is not None}
        switched = [name for name, places in self.routes.items() if any(len(item) > 1 for item in places.values())]
        values = allocate(uses, fixed, switched, self.arch)
        return values | {name: 0 for name in names if name not in values}


def _origin(region: CodeRegion) -> IntVector:
    assert region.origin is not None
    return region.origin


def _at(region: CodeRegion, local: IntVector) -> Place:
    x, y = _origin(region)
    return x + local.x, y + local.y


def _step(place: Place, direction: int) -> Place:
    dx, dy = OFFSETS[direction]
    return place[0] + dx, place[1] + dy


def _side(port: Port) -> int:
    """Direction of a port's edge; any for a region of one PE, which has all edges."""
    return 0 if port.region.width == port.region.height == 1 else EDGE_SIDES[port.edge]


def _colors_of(region: CodeRegion) -> Iterable[Color]:
    for paints in region.paints.values():
        yield from paints
    for params in region.params.values():
        yield from (value for value in params.values() if isinstance(value, Color))
    for port in region.ports.values():
        yield port.color
