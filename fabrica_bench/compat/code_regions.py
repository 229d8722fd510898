"""Code regions of the layout API: rectangles of PEs with one source file, their params, routes, ports and data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from fabrica_bench.compat.geometry import IntRectangle, IntVector
from fabrica_bench.compat.routing_positions import (
    Color,
    Edge,
    EdgeRouting,
    RoutingPosition,
    check_positions,
)
from fabrica_bench.compat.sessions import HostError

ParamValue = bool | int | float | str | Color
ParamInput = ParamValue | np.generic
MAX_SIDE: Final = 2000
"""More columns or rows than any fabric has."""


class SymbolData(NamedTuple):
    """Initial contents of an exported variable over a region: [total rows, total columns] of elements."""

    name: str
    data: npt.NDArray[Any]


class Port:
    """An edge of a region through which the wavelets of a color enter (`is_input`) or leave.

    `positions` lack the direction that the path to the other end will take.
    """

    def __init__(
        self,
        name: str,
        region: CodeRegion,
        color: Color,
        edge: Edge,
        positions: tuple[RoutingPosition, ...],
        size: int,
        is_input: bool,
    ) -> None:
        self.name = name
        self.region = region
        self.color = color
        self.edge = edge
        self.positions = positions
        self.size = size
        self.is_input = is_input
        self.peer: str | None = None

    def local_pes(self) -> list[IntVector]:
        """The PEs of the port in region coordinates, from left to right or top to bottom."""
        return list(edge_pes(self.edge, self.region.width, self.region.height))

    def __repr__(self) -> str:
        return f"{'input' if self.is_input else 'output'} port {self.name!r} of region {self.region.name!r}"


def edge_pes(edge: Edge, width: int, height: int) -> Iterator[IntVector]:
    """PEs of an edge of a `width` by `height` rectangle, from left to right or top to bottom."""
    match edge:
        case Edge.TOP | Edge.BOTTOM:
            row = 0 if edge is Edge.TOP else height - 1
            return (IntVector(x, row) for x in range(width))
        case Edge.LEFT | Edge.RIGHT:
            column = 0 if edge is Edge.LEFT else width - 1
            return (IntVector(column, y) for y in range(height))


class CodeRegion:
    """A rectangle of PEs that run the same source file. Made by `SdkLayout.create_code_region`.

    PE coordinates count from the region's north-west corner. What is said later about a PE replaces what was said
    before; a port's routes always win on its edge.
    """

    def __init__(self, source: str, name: str, width: int, height: int) -> None:
        if not 1 <= width <= MAX_SIDE or not 1 <= height <= MAX_SIDE:
            raise HostError(f"create_code_region: {width} by {height} PEs", remedy=f"sides are 1 to {MAX_SIDE}")
        self.source = Path(source)
        if not self.source.is_file():
            raise HostError(
                "create_code_region: no such file", place=str(source), remedy="check the path of the CSL file"
            )
        self.name = name
        self.width = width
        self.height = height
        self.origin: IntVector | None = None
        self.params: dict[IntVector, dict[str, ParamValue]] = {}
        self.paints: dict[IntVector, dict[Color, tuple[RoutingPosition, ...]]] = {}
        self.symbols: dict[str, SymbolData] = {}
        self.ports: dict[str, Port] = {}

    def place(self, x: int, y: int) -> None:
        """Put the north-west corner at column `x`, row `y` of the program."""
        if x < 0 or y < 0:
            raise HostError(f"region {self.name!r}: can't be placed at ({x}, {y})", remedy="coordinates start at 0")
        if x + self.width > MAX_SIDE or y + self.height > MAX_SIDE:
            raise HostError(
                f"region {self.name!r}: no fabric reaches to ({x}, {y})", remedy="place it nearer to (0, 0)"
            )
        self.origin = IntVector(int(x), int(y))

    def color(self, name: str, value: int | None = None) -> Color:
        """A color of this region: its global name has the region's name in front, its param is called `name`."""
        return Color(name, value, region=self.name)

    # ------------------------------------------------------------------------------------------------ routes

    def paint(self, coord: IntVector, color: Color, routes: Sequence[RoutingPosition]) -> None:
        """Route a color on one PE; several positions make a switch."""
        self._paint("paint", [self._inside("paint", coord)], color, routes)

    def paint_all(
        self, color: Color, routes: Sequence[RoutingPosition], edge_routes: Iterable[EdgeRouting] = ()
    ) -> None:
        """Route a color on all PEs, with other routes on some edges; of two edges in a corner the later one counts."""
        self._paint("paint_all", self._all(), color, routes)
        for item in edge_routes:
            if not isinstance(item, EdgeRouting):
                raise HostError(f"paint_all: {item!r} is no edge routing", remedy="make it with get_edge_routing")
            self._paint("paint_all", edge_pes(item.edge, self.width, self.height), color, item.positions)

    def paint_range(self, rectangle: IntRectangle, color: Color, routes: Sequence[RoutingPosition]) -> None:
        """Route a color on a rectangle of PEs."""
        self._paint("paint_range", self._range("paint_range", rectangle), color, routes)

    def _paint(self, call: str, pes: Iterable[IntVector], color: Color, routes: Sequence[RoutingPosition]) -> None:
        _check_color(call, color)
        positions = check_positions(call, routes)
        for position in positions:
            if not position.get_input() or not position.get_output():
                raise HostError(f"{call}: {position!r} lacks an input or output", remedy="give both, or create a port")
        for pe in pes:
            self.paints.setdefault(pe, {})[color] = positions

    # ------------------------------------------------------------------------------------------------ params

    @overload
    def set_param(self, coord: IntVector, name: str, value: ParamInput) -> None: ...
    @overload
    def set_param(self, coord: IntVector, name: Color) -> None: ...
    def set_param(self, coord: IntVector, name: str | Color, value: ParamInput | None = None) -> None:
        """Bind a param of one PE; a color alone binds the param of its own name."""
        self._set_param("set_param", [self._inside("set_param", coord)], name, value)

    @overload
    def set_param_all(self, name: str, value: ParamInput) -> None: ...
    @overload
    def set_param_all(self, name: Color) -> None: ...
    def set_param_all(self, name: str | Color, value: ParamInput | None = None) -> None:
        """Bind a param of all PEs; a color alone binds the param of its own name."""
        self._set_param("set_param_all", self._all(), name, value)

    @overload
    def set_param_range(self, rectangle: IntRectangle, name: str, value: ParamInput) -> None: ...
    @overload
    def set_param_range(self, rectangle: IntRectangle, name: Color) -> None: ...
    def set_param_range(self, rectangle: IntRectangle, name: str | Color, value: ParamInput | None = None) -> None:
        """Bind a param of a rectangle of PEs; a color alone binds the param of its own name."""
        self._set_param("set_param_range", self._range("set_param_range", rectangle), name, value)

    def _set_param(self, call: str, pes: Iterable[IntVector], name: str | Color, value: ParamInput | None) -> None:
        if isinstance(name, Color) and value is None:
            name, value = name.get_local_param_name(), name
        if not isinstance(name, str):
            raise HostError(f"{call}: {name!r} is no name of a param", remedy="pass a name and a value, or a Color")
        plain = _plain_value(call, name, value)
        for pe in pes:
            self.params.setdefault(pe, {})[name] = plain

    # -------------------------------------------------------------------------------------------------- data

    def set_symbol_all(self, symbol: str, data: npt.ArrayLike, width: int, height: int) -> None:
        """Initial contents of the variable `symbol` on all PEs.

        Args:
            symbol: An `export var` of the source file.
            data: `height` rows of `width` elements, row by row. Each PE gets the block at its place.
            width: Columns over the whole region; a multiple of the region's width.
            height: Rows over the whole region; a multiple of the region's height.
        """
        array = np.asarray(data)
        if array.size != width * height:
            raise HostError(
                f"set_symbol_all: {array.size} elements for {symbol!r}, whose size is given as {width} by {height}",
                remedy="pass width * height elements",
            )
        if width % self.width or height % self.height or not array.size:
            raise HostError(
                f"set_symbol_all: {width} by {height} elements of {symbol!r} can't be split over {self.width} by "
                f"{self.height} PEs",
                remedy="use multiples of the region's width and height",
            )
        self.symbols[symbol] = SymbolData(symbol, array.reshape(height, width).copy())

    # ------------------------------------------------------------------------------------------------- ports

    def create_input_port(
        self, color: Color, edge: Edge, routes: Sequence[RoutingPosition], size: int, prefix: str = ""
    ) -> Port:
        """Let wavelets of `color` enter through an edge.

        Args:
            routes: Positions with outputs only: the layout compiler chooses where they come from.
            size: Wavelets in total; connected ports must agree.
            prefix: Put in front of the color's name to name the port.
        """
        return self._create_port("create_input_port", color, edge, routes, size, prefix, is_input=True)

    def create_output_port(
        self, color: Color, edge: Edge, routes: Sequence[RoutingPosition], size: int, prefix: str = ""
    ) -> Port:
        """Let wavelets of `color` leave through an edge: as `create_input_port`, with inputs only."""
        return self._create_port("create_output_port", color, edge, routes, size, prefix, is_input=False)

    def _create_port(
        self,
        call: str,
        color: Color,
        edge: Edge,
        routes: Sequence[RoutingPosition],
        size: int,
        prefix: str,
        is_input: bool,
    ) -> Port:
        _check_color(call, color)
        if not isinstance(edge, Edge):
            raise HostError(f"{call}: {edge!r} is no Edge", remedy="pass Edge.TOP, BOTTOM, LEFT or RIGHT")
        positions = check_positions(call, routes)
        for position in positions:
            chosen, given = position.get_input(), position.get_output()
            if not is_input:
                chosen, given = given, chosen
            if chosen or not given:
                kind, other = ("output", "input") if is_input else ("input", "output")
                raise HostError(
                    f"{call}: {position!r} must have {kind} routes and no {other} routes",
                    remedy=f"the layout compiler chooses the {other} routes of this port",
                )
        if int(size) < 1:
            raise HostError(f"{call}: a port for {size} wavelets", remedy="give the number of wavelets it will carry")
        port = Port(f"{prefix}{color.get_global_name()}", self, color, edge, positions, int(size), is_input)
        if port.name in self.ports:
            raise HostError(f"{call}: region {self.name!r} has a port {port.name!r} already", remedy="give a prefix")
        self.ports[port.name] = port
        return port

    # ----------------------------------------------------------------------------------------------- helpers

    def _all(self) -> Iterator[IntVector]:
        return (IntVector(x, y) for y in range(self.height) for x in range(self.width))

    def _range(self, call: str, rectangle: IntRectangle) -> list[IntVector]:
        (left, top), (right, bottom) = rectangle
        self._inside(call, IntVector(left, top))
        self._inside(call, IntVector(right - 1, bottom - 1))
        if right <= left or bottom <= top:
            raise HostError(f"{call}: the rectangle {rectangle} is empty", remedy="its second corner is exclusive")
        return [IntVector(x, y) for y in range(top, bottom) for x in range(left, right)]

    def _inside(self, call: str, coord: IntVector) -> IntVector:
        x, y = coord
        if not (0 <= x < self.width and 0 <= y < self.height):
            raise HostError(
                f"{call}: PE ({x}, {y}) is not in region {self.name!r} of {self.width} by {self.height} PEs",
                remedy="coordinates count from the region's north-west corner",
            )
        return IntVector(int(x), int(y))

    def __repr__(self) -> str:
        return f"CodeRegion({self.name!r}, {self.width}x{self.height})"


def _check_color(call: str, color: object) -> None:
    if not isinstance(color, Color):
        raise HostError(f"{call}: {color!r} is no Color", remedy="make one with Color(name) or region.color(name)")


def _plain_value(call: str, name: str, value: object) -> ParamValue:
    """The value of a param as Python's own type."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float | str | Color):
        return value
    raise HostError(f"{call}: param {name!r} can't be {value!r}", remedy="pass a number, a bool, a string or a Color")
