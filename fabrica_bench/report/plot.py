"""The speed-up plot: one mark per valid attempt on a logarithmic axis, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

LABEL_WIDTH: Final = 210
PLOT_WIDTH: Final = 520
ROW_HEIGHT: Final = 22
HEAD_HEIGHT: Final = 26
GROUP_HEIGHT: Final = 24
RIGHT_MARGIN: Final = 90


@dataclass(frozen=True)
class Mark:
    """One attempt: its speed-up over the reference, or None with the reason why it has none."""

    task: str
    level: int
    speedup: float | None
    reason: str


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis between two powers of two that always contains parity.

    Attributes:
        low: Exponent of the left end.
        high: Exponent of the right end.
    """

    low: int
    high: int

    @classmethod
    def covering(cls, values: Sequence[float]) -> LogAxis:
        """The smallest axis that contains every value and at least 1/2 to 2."""
        exponents = [math.log2(value) for value in values] or [0.0]
        return cls(min(-1, math.floor(min(exponents))), max(1, math.ceil(max(exponents))))

    def position(self, value: float) -> float:
        """Where a positive value lies, 0 at the left end and 1 at the right end."""
        return (math.log2(value) - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """(value, label) of at most about a dozen ticks; parity is always one of them."""
        step = max(1, math.ceil((self.high - self.low) / 12))
        exponents = sorted({*range(0, self.high + 1, step), *range(0, self.low - 1, -step)})
        return [(2.0**exponent, _ratio(exponent)) for exponent in exponents]


def speedup_svg(marks: Sequence[Mark]) -> str:
    """Draw the marks grouped by level, within a level in the given order.

    Colours come from the page's CSS variables, so the drawing follows dark mode.
    """
    marks = sorted(marks, key=lambda mark: mark.level)
    axis = LogAxis.covering([mark.speedup for mark in marks if mark.speedup is not None])
    height = HEAD_HEIGHT + len(marks) * ROW_HEIGHT + len({mark.level for mark in marks}) * GROUP_HEIGHT + 8
    width = LABEL_WIDTH + PLOT_WIDTH + RIGHT_MARGIN
    parts = [
        f'<svg class="plot" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="Speed-up over the reference by task, logarithmic axis">'
    ]
    for value, label in axis.ticks():
        x = _x(axis, value)
        kind = "parity" if value == 1.0 else "tick"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" y1="{HEAD_HEIGHT - 6}" x2="{x:.1f}" y2="{height - 4}"/>')
        parts.append(f'<text class="axis" x="{x:.1f}" y="14" text-anchor="middle">{label}</text>')
    parts.extend(_rows(axis, marks))
    parts.append("</svg>")
    return "\n".join(parts)


def _rows(axis: LogAxis, marks: Sequence[Mark]) -> list[str]:
    parts: list[str] = []
    y = float(HEAD_HEIGHT)
    level: int | None = None
    for mark in marks:
        if mark.level != level:
            level = mark.level
            parts.append(f'<text class="group" x="4" y="{y + 17:.1f}">Level {level}</text>')
            y += GROUP_HEIGHT
        middle = y + ROW_HEIGHT / 2
        parts.append(
            f'<text class="label" x="{LABEL_WIDTH - 10}" y="{middle + 4:.1f}" text-anchor="end">'
            f"{escape(mark.task)}</text>"
        )
        parts.append(_mark(axis, mark, middle))
        y += ROW_HEIGHT
    return parts


def _mark(axis: LogAxis, mark: Mark, middle: float) -> str:
    if mark.speedup is None:
        return f'<text class="none" x="{LABEL_WIDTH + 6}" y="{middle + 4:.1f}">{escape(mark.reason)}</text>'
    x, parity = _x(axis, mark.speedup), _x(axis, 1.0)
    side = "faster" if mark.speedup > 1 else "slower" if mark.speedup < 1 else "same"
    return (
        f'<line class="stem {side}" x1="{parity:.1f}" y1="{middle:.1f}" x2="{x:.1f}" y2="{middle:.1f}"/>'
        f'<circle class="{side}" cx="{x:.1f}" cy="{middle:.1f}" r="5">'
        f"<title>{escape(mark.task)}: {mark.speedup:.3f}</title></circle>"
        f'<text class="value" x="{LABEL_WIDTH + PLOT_WIDTH + 14}" y="{middle + 4:.1f}">{mark.speedup:.3f}×</text>'
    )


def _x(axis: LogAxis, value: float) -> float:
    return LABEL_WIDTH + axis.position(value) * PLOT_WIDTH


def _ratio(exponent: int) -> str:
    return f"{2**exponent}×" if exponent >= 0 else f"1/{2**-exponent}×"
