"""A picture of a program's routes: one square per PE, one line per color, as SVG.

In each PE a color has a point of its own: a disc if it goes to the compute element, a ring if it comes from it, both
if both. Lines lead from the links that it comes in by to the point, and with an arrow head from there to the links
that it leaves by. Switch positions after the first are dashed. A red cross marks a link that leads nowhere.
"""

from __future__ import annotations

import colorsys
from collections.abc import Collection, Iterator
from html import escape
from typing import TYPE_CHECKING, Final

from fabrica_bench.csl.ir import EAST, NORTH, RAMP, SOUTH, WEST
from fabrica_bench.wse.router import OFFSETS, OPPOSITE
from fabrica_bench.wse.routes import DeadEnd, Region, Route, dead_ends, describe, positions, routes, whole
from fabrica_bench.wse.trace_recorder import arrival_color

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import Program

MAX_PES: Final = 4096
"""PEs in one picture; more give a file that viewers can't handle."""

_CELL: Final = 96
_GAP: Final = 10
_MARGIN: Final = 34
_LEGEND_ROW: Final = 20
_LEGEND_WIDTH: Final = 470
_IMAGE_FILLS: Final = ("#f4f6f8", "#fdf3e3", "#eaf4ea", "#f3ebf7", "#e8f1fb", "#fbe9ea", "#f1f1dd", "#e4f3f3")
_PORTS: Final = (NORTH, SOUTH, EAST, WEST)


def routes_svg(
    program: Program, *, title: str, region: Region | None = None, colors: Collection[int] | None = None
) -> str:
    """The picture as an SVG document.

    Args:
        program: The compiled program.
        title: Text above the picture.
        region: PEs to show; all of them by default.
        colors: Colors to show; all by default.

    Raises:
        ValueError: The region has more than `MAX_PES` PEs.
    """
    area = region or whole(program)
    if (area.right - area.left + 1) * (area.bottom - area.top + 1) > MAX_PES:
        raise ValueError(f"more than {MAX_PES} PEs")
    return _Picture(program, area, colors).draw(title)


def color_code(color: int) -> str:
    """The picture's color for one of the 24 routable colors: neighbouring numbers get distant hues, each third is
    darker."""
    hue = color * 7 % 24 / 24
    red, green, blue = colorsys.hls_to_rgb(hue, (0.42, 0.33, 0.5)[color % 3], 0.85)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


class _Picture:
    def __init__(self, program: Program, area: Region, colors: Collection[int] | None) -> None:
        self.program = program
        self.area = area
        self.routes = list(routes(program, area, colors))
        self.dead = dead_ends(program, area, colors)
        self.used = sorted({route.color for route in self.routes})
        self.lanes = {color: self._lane(index) for index, color in enumerate(self.used)}
        self.width = (area.right - area.left + 1) * (_CELL + _GAP) + 2 * _MARGIN
        self.height = (area.bottom - area.top + 1) * (_CELL + _GAP) + 2 * _MARGIN + 10

    def _lane(self, index: int) -> float:
        """Distance of a color's point from the centre of its PE, the same in both directions."""
        spread = 0.62 * _CELL
        count = len(self.used)
        return 0.0 if count == 1 else -spread / 2 + spread * index / (count - 1)

    def draw(self, title: str) -> str:
        images = sorted({self.program.tiles[y][x] for x, y in self._places()})
        legend = max(len(self.used) + len(images) + 8, 4) * _LEGEND_ROW
        width = self.width + _LEGEND_WIDTH
        height = max(self.height, legend + 2 * _MARGIN)
        body = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
            ' font-family="Helvetica, Arial, sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'<text x="{_MARGIN}" y="18" font-size="14" font-weight="bold">{escape(title)}</text>',
            *self._tiles(),
            *(line for route in self.routes for line in self._route(route)),
            *(self._cross(end) for end in self.dead),
            *self._legend(images),
            "</svg>",
        ]
        return "\n".join(body) + "\n"

    # ------------------------------------------------------------------------------------------ parts

    def _places(self) -> Iterator[tuple[int, int]]:
        for y in range(self.area.top, self.area.bottom + 1):
            for x in range(self.area.left, self.area.right + 1):
                yield x, y

    def _corner(self, x: int, y: int) -> tuple[float, float]:
        step = _CELL + _GAP
        return _MARGIN + (x - self.area.left) * step, _MARGIN + 10 + (y - self.area.top) * step

    def _tiles(self) -> Iterator[str]:
        for x, y in self._places():
            left, top = self._corner(x, y)
            number = self.program.tiles[y][x]
            fill = _IMAGE_FILLS[number % len(_IMAGE_FILLS)]
            name = self.program.images[number].name
            yield (
                f'<rect x="{left:g}" y="{top:g}" width="{_CELL}" height="{_CELL}" rx="4" fill="{fill}"'
                f' stroke="#9aa4ae"><title>PE({x},{y}): {escape(name)}</title></rect>'
            )
            yield f'<text x="{left + 4:g}" y="{top + 11:g}" font-size="9" fill="#5b6670">{x},{y}</text>'

    def _node(self, x: int, y: int, color: int) -> tuple[float, float]:
        left, top = self._corner(x, y)
        lane = self.lanes[color]
        return left + _CELL / 2 + lane, top + _CELL / 2 + lane

    def _port(self, x: int, y: int, color: int, direction: int, reach: float) -> tuple[float, float]:
        """Where the color's line crosses the edge of the PE, `reach` beyond it."""
        across, down = self._node(x, y, color)
        left, top = self._corner(x, y)
        dx, dy = OFFSETS[direction]
        if dx:
            return (left + _CELL + reach if dx > 0 else left - reach), down
        return across, (top + _CELL + reach if dy > 0 else top - reach)

    def _route(self, route: Route) -> Iterator[str]:
        x, y, color, config = route
        code = color_code(color)
        text = escape(f"PE({x},{y}) color {color}: {describe(config)}")
        yield f'<g stroke="{code}" fill="none" stroke-width="2"><title>{text}</title>'
        drawn = 0, 0
        for position in positions(config):
            dash = ' stroke-dasharray="4 3"' if position.number else ""
            for direction in _PORTS:
                if position.rx & direction & ~drawn[0]:
                    yield self._line(self._port(x, y, color, direction, 0), self._node(x, y, color), dash)
                if position.tx & direction & ~drawn[1]:
                    yield self._line(self._node(x, y, color), self._port(x, y, color, direction, _GAP / 2), dash)
                    yield self._arrow(x, y, color, direction, code)
                    yield self._swap(x, y, color, direction, dash)
            drawn = drawn[0] | position.rx, drawn[1] | position.tx
        yield self._ramp(x, y, color, drawn[0] & RAMP, drawn[1] & RAMP, code)
        yield "</g>"

    def _line(self, start: tuple[float, float], end: tuple[float, float], dash: str) -> str:
        return f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"{dash}/>'

    def _swap(self, x: int, y: int, color: int, direction: int, dash: str) -> str:
        """Between two PEs, the way from this color's line to that of the partner that it becomes by color swap."""
        dx, dy = OFFSETS[direction]
        if not (0 <= x + dx < self.program.width and 0 <= y + dy < self.program.height):
            return ""
        port = OPPOSITE[direction]
        arrives = arrival_color(self.program, x + dx, y + dy, port, color)
        if arrives == color or arrives not in self.lanes:
            return ""
        start = self._port(x, y, color, direction, _GAP / 2)
        return self._line(start, self._port(x + dx, y + dy, arrives, port, _GAP / 2), dash)

    def _arrow(self, x: int, y: int, color: int, direction: int, code: str) -> str:
        tip_x, tip_y = self._port(x, y, color, direction, _GAP - 1)
        dx, dy = OFFSETS[direction]
        base_x, base_y = tip_x - 7 * dx, tip_y - 7 * dy
        points = f"{tip_x:.1f},{tip_y:.1f} {base_x - 3.5 * dy:.1f},{base_y - 3.5 * dx:.1f} "
        points += f"{base_x + 3.5 * dy:.1f},{base_y + 3.5 * dx:.1f}"
        return f'<polygon points="{points}" fill="{code}" stroke="none"/>'

    def _ramp(self, x: int, y: int, color: int, comes: int, goes: int, code: str) -> str:
        across, down = self._node(x, y, color)
        if not comes and not goes:
            return ""
        ring = f'<circle cx="{across:.1f}" cy="{down:.1f}" r="5.5" fill="white"/>' if comes else ""
        disc = f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3" fill="{code}" stroke="none"/>' if goes else ""
        return ring + disc

    def _cross(self, end: DeadEnd) -> str:
        across, down = self._port(end.x, end.y, end.color, end.direction, _GAP / 2)
        return (
            f'<path d="M{across - 4:.1f},{down - 4:.1f} l8,8 m0,-8 l-8,8" stroke="#c00000" stroke-width="2"'
            f' fill="none"><title>color {end.color}: {escape(end.reason)}</title></path>'
        )

    def _legend(self, images: list[int]) -> Iterator[str]:
        left, row = self.width, _MARGIN + 10
        for color in self.used:
            note = self.program.stream_colors.get(color)
            text = f"color {color}" + (f" (memcpy stream, {note})" if note else "")
            yield (
                f'<line x1="{left}" y1="{row}" x2="{left + 26}" y2="{row}" stroke="{color_code(color)}"'
                f' stroke-width="4"/><text x="{left + 36}" y="{row + 4}">{text}</text>'
            )
            row += _LEGEND_ROW
        row += _LEGEND_ROW // 2
        signs = (
            (
                '<circle cx="{x}" cy="{y}" r="5.5" fill="white" stroke="#333" stroke-width="2"/>',
                "from the compute element",
            ),
            ('<circle cx="{x}" cy="{y}" r="3.5" fill="#333"/>', "to the compute element"),
            (
                '<line x1="{l}" y1="{y}" x2="{r}" y2="{y}" stroke="#333" stroke-width="2" stroke-dasharray="4 3"/>',
                "switch positions after the first",
            ),
            ('<path d="M{x},{y} m-4,-4 l8,8 m0,-8 l-8,8" stroke="#c00000" stroke-width="2"/>', "leads nowhere"),
        )
        for sign, text in signs:
            yield sign.format(x=left + 13, y=row, l=left, r=left + 26)
            yield f'<text x="{left + 36}" y="{row + 4}">{text}</text>'
            row += _LEGEND_ROW
        row += _LEGEND_ROW // 2
        for number in images:
            fill = _IMAGE_FILLS[number % len(_IMAGE_FILLS)]
            yield f'<rect x="{left + 2}" y="{row - 8}" width="22" height="15" fill="{fill}" stroke="#9aa4ae"/>'
            yield f'<text x="{left + 36}" y="{row + 4}">{escape(self.program.images[number].name[:60])}</text>'
            row += _LEGEND_ROW
