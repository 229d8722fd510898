"""The plot of simulated over published cycles, as SVG: both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from validation.suite import Measured

_SIZE: Final = 560
_MARGIN: Final = 64
_COLORS: Final = {"wse2": "#1f6fb4", "wse3": "#c8551b"}


def scatter_svg(results: Sequence[Measured]) -> str:
    """The plot. Filled marks are validation points, hollow ones calibration points, squares those whose program's
    structure is an assumption; the band is 20 % to either side."""
    low = math.floor(math.log10(min(min(r.published, r.simulated) for r in results)))
    high = math.ceil(math.log10(max(max(r.published, r.simulated) for r in results)))
    span = _SIZE - 2 * _MARGIN

    def x(value: float) -> float:
        return _MARGIN + span * (math.log10(value) - low) / (high - low)

    def y(value: float) -> float:
        return _SIZE - x(value)

    bottom, top = 10.0**low, 10.0**high
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" width="{_SIZE}" height="{_SIZE}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_SIZE}" height="{_SIZE}" fill="white"/>',
    ]
    for power in range(low, high + 1):
        at, label = 10.0**power, f'10<tspan dy="-5" font-size="9">{power}</tspan>'
        parts += [
            f'<path d="M{x(at):.1f} {y(bottom):.1f}V{y(top):.1f}M{x(bottom):.1f} {y(at):.1f}H{x(top):.1f}" '
            'stroke="#e3e6ea"/>',
            f'<text x="{x(at):.1f}" y="{_SIZE - _MARGIN + 20}" text-anchor="middle">{label}</text>',
            f'<text x="{_MARGIN - 8}" y="{y(at) + 4:.1f}" text-anchor="end">{label}</text>',
        ]
    for factor, style in (
        (1.0, 'stroke="#555"'),
        (1.2, 'stroke="#aaa" stroke-dasharray="4 4"'),
        (1 / 1.2, 'stroke="#aaa" stroke-dasharray="4 4"'),
    ):
        start, end = max(bottom, bottom / factor), min(top, top / factor)
        line = f"M{x(start):.1f} {y(start * factor):.1f}L{x(end):.1f} {y(end * factor):.1f}"
        parts.append(f'<path d="{line}" {style} fill="none"/>')
    parts += [_mark(result, x(result.published), y(result.simulated)) for result in results]
    middle = _SIZE / 2
    parts += [
        f'<text x="{middle}" y="{_SIZE - 16}" text-anchor="middle">published cycles</text>',
        f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">simulated cycles</text>',
        *_legend(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _mark(result: Measured, x: float, y: float) -> str:
    color = _COLORS[result.arch]
    fill = color if result.split == "validation" else "white"
    title = f"<title>{escape(result.id)}: {result.simulated:g} / {result.published:g} = {result.ratio:.3f}</title>"
    style = f'fill="{fill}" fill-opacity="0.75" stroke="{color}"'
    if result.structure == "assumed":
        return f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6" {style}>{title}</rect>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" {style}>{title}</circle>'


def _legend() -> list[str]:
    entries = (
        (f'<circle cx="0" cy="-4" r="3.5" fill="{_COLORS["wse2"]}"/>', "WSE-2"),
        (f'<circle cx="0" cy="-4" r="3.5" fill="{_COLORS["wse3"]}"/>', "WSE-3"),
        ('<circle cx="0" cy="-4" r="3.5" fill="white" stroke="#555"/>', "hollow: calibration"),
        ('<rect x="-3" y="-7" width="6" height="6" fill="#555"/>', "square: structure assumed"),
        ('<path d="M-6 -4H6" stroke="#aaa" stroke-dasharray="4 4"/>', "20 % off"),
    )
    return [
        f'<g transform="translate({_MARGIN + 16} {_MARGIN + 16 + 18 * row})">{mark}<text x="12">{text}</text></g>'
        for row, (mark, text) in enumerate(entries)
    ]
