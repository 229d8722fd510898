"""A heat map of a profile's PE grid as SVG: one square per PE, arrows for the links between routers.

A square is the redder, the more of the run its compute element was busy; a dark bar at its foot is the share of stalled
cycles. An arrow is the thicker, the more wavelets went over the link.
"""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fabrica_bench.wse.profile import PeUse, Profile

MAX_PES: Final = 4096
"""PEs in one picture; more give a file that viewers can't handle."""

_CELL: Final = 46
_GAP: Final = 22
_MARGIN: Final = 40
_STEPS: Final = {"EAST": (1, 0), "WEST": (-1, 0), "NORTH": (0, -1), "SOUTH": (0, 1)}


def heat_map_svg(profile: Profile, title: str) -> str:
    """The picture as an SVG document.

    Raises:
        ValueError: The grid has more than `MAX_PES` PEs.
    """
    if profile.width * profile.height > MAX_PES:
        raise ValueError(f"more than {MAX_PES} PEs")
    pitch = _CELL + _GAP
    width = max(2 * _MARGIN + profile.width * pitch, 360)
    height = 2 * _MARGIN + profile.height * pitch + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_MARGIN}" y="22" font-size="13">{escape(title)}: {profile.cycles:,} cycles</text>',
    ]
    parts += [_square(pe, max(profile.cycles, 1)) for pe in profile.pes]
    parts += _links(profile)
    parts += _legend(height)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _square(pe: PeUse, cycles: int) -> str:
    x, y = _MARGIN + pe.x * (_CELL + _GAP), _MARGIN + pe.y * (_CELL + _GAP)
    busy, stalled = min(pe.busy / cycles, 1.0), min(pe.stalled / cycles, 1.0)
    text = (
        f"PE({pe.x},{pe.y}): busy {pe.busy:,} cycles ({busy:.0%}), stalled {pe.stalled:,}; "
        f"{pe.received:,} wavelets in, {pe.sent:,} out"
    )
    bar = f'<rect x="{x}" y="{y + _CELL - 5}" width="{_CELL * stalled:.1f}" height="5" fill="#34495e"/>'
    dark = "white" if busy > 0.6 else "#222"
    return (
        f'<g><title>{text}</title><rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" fill="{_heat(busy)}" '
        f'stroke="#888"/>{bar}<text x="{x + _CELL / 2}" y="{y + _CELL / 2 + 2}" text-anchor="middle" fill="{dark}">'
        f"{busy:.0%}</text></g>"
    )


def _heat(share: float) -> str:
    """From pale yellow over orange to dark red."""
    low, middle, high = (255, 250, 220), (245, 150, 70), (150, 10, 30)
    first, second, part = (low, middle, share * 2) if share < 0.5 else (middle, high, share * 2 - 1)
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(first, second, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _links(profile: Profile) -> list[str]:
    totals: Counter[tuple[int, int, str]] = Counter()
    colors: dict[tuple[int, int, str], list[str]] = {}
    for link in profile.links:
        if link.direction in _STEPS:
            key = (link.x, link.y, link.direction)
            totals[key] += link.wavelets
            colors.setdefault(key, []).append(f"color {link.color}: {link.wavelets:,}")
    most = max(totals.values(), default=1)
    parts = []
    for (px, py, direction), wavelets in sorted(totals.items()):
        dx, dy = _STEPS[direction]
        # The two directions of a link lie beside each other.
        x = _MARGIN + px * (_CELL + _GAP) + _CELL / 2 + dx * _CELL / 2 - dy * 7
        y = _MARGIN + py * (_CELL + _GAP) + _CELL / 2 + dy * _CELL / 2 + dx * 7
        tip = f"{x + dx * (_GAP - 2):g} {y + dy * (_GAP - 2):g}"
        share = wavelets / max(profile.cycles, 1)
        text = f"PE({px},{py}) {direction}: {wavelets:,} wavelets ({share:.1%} of the cycles); "
        parts.append(
            f'<path d="M{x:g} {y:g}L{tip}" stroke="#1f6fb4" stroke-width="{1 + 6 * wavelets / most:.1f}">'
            f"<title>{text}{', '.join(colors[px, py, direction])}</title></path>"
        )
    return parts


def _legend(height: int) -> list[str]:
    y = height - 26
    swatches = [
        f'<rect x="{_MARGIN + 14 * step}" y="{y}" width="14" height="10" fill="{_heat(step / 8)}"/>'
        for step in range(9)
    ]
    text = "busy: 0 to 100 % of the cycles; dark bar: stalled; blue: wavelets"
    return [*swatches, f'<text x="{_MARGIN + 134}" y="{y + 9}">{text}</text>']
