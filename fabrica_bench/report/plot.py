"""The speed-up plot: one line per task on a logarithmic axis, a mark per valid attempt, as inline SVG.

Attempts that would lie on the same spot share a mark, so that the drawing stays small however many there are. The
shape of a mark tells the target: a circle for WSE-3, a diamond for WSE-2; the two marks of a pair lie on one line.
Where there are several entries, colours tell them apart, and the marks of excluded ones are hollow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

LABEL_WIDTH: Final = 210
PLOT_WIDTH: Final = 520
ROW_HEIGHT: Final = 22
HEAD_HEIGHT: Final = 26
GROUP_HEIGHT: Final = 24
RIGHT_MARGIN: Final = 90
LEGEND_WIDTH: Final = 200
LEGEND_COLUMNS: Final = 4
COLOURS: Final = 8
"""Classes `e0` and so on of the style sheet; more entries than that share colours, and the marks' titles name them."""

STEP: Final = 2.0
"""Marks nearer than this many units on one line are drawn as one."""


@dataclass(frozen=True)
class Mark:
    """One attempt: its speed-up over the reference, or None with the reason why it has none.

    Attributes:
        entry: Whose it is; empty where there is one entry only.
        trusted: Whether its entry isn't excluded; other marks are hollow.
    """

    task: str
    level: int
    speedup: float | None
    reason: str
    target: str = "wse3"
    entry: str = ""
    trusted: bool = True


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


@dataclass(frozen=True)
class TaskLine:
    """The marks of one task."""

    task: str
    level: int
    marks: tuple[Mark, ...]

    @property
    def valid(self) -> list[Mark]:
        return [mark for mark in self.marks if mark.speedup is not None]

    @property
    def text(self) -> str:
        """What stands at the end of the line: the speed-up, or how many there are; the reason where there is none."""
        speedups = [mark.speedup for mark in self.valid if mark.speedup is not None]
        if not speedups:
            return self.marks[0].reason if len({mark.reason for mark in self.marks}) == 1 else "none valid"
        if len(self.marks) == 1:
            return f"{speedups[0]:.3f}×"
        return f"{len(speedups)} of {len(self.marks)}"


def task_lines(marks: Sequence[Mark]) -> list[TaskLine]:
    """Marks gathered by task, sorted by level, within a level in the given order."""
    groups: dict[str, list[Mark]] = {}
    for mark in marks:
        groups.setdefault(mark.task, []).append(mark)
    lines = [TaskLine(name, found[0].level, tuple(found)) for name, found in groups.items()]
    return sorted(lines, key=lambda line: line.level)


def speedup_svg(marks: Sequence[Mark]) -> str:
    """Draw the marks grouped by level, within a level in the given order.

    Colours come from the page's CSS variables, so the drawing follows dark mode.
    """
    lines = task_lines(marks)
    axis = LogAxis.covering([mark.speedup for mark in marks if mark.speedup is not None])
    height = HEAD_HEIGHT + len(lines) * ROW_HEIGHT + len({line.level for line in lines}) * GROUP_HEIGHT + 8
    entries = {mark.entry: mark for mark in reversed(marks) if mark.entry}
    colours = {name: f"e{index % COLOURS}" for index, name in enumerate(reversed(entries))}
    legend = -(-len(colours) // LEGEND_COLUMNS) * ROW_HEIGHT
    width = LABEL_WIDTH + PLOT_WIDTH + RIGHT_MARGIN
    parts = [
        f'<svg class="plot" viewBox="0 0 {width} {height + legend}" width="{width}" height="{height + legend}" '
        'role="img" aria-label="Speed-up over the reference by task, logarithmic axis">'
    ]
    for index, (name, colour) in enumerate(colours.items()):
        x = 10.0 + index % LEGEND_COLUMNS * LEGEND_WIDTH
        y = height + (index // LEGEND_COLUMNS + 0.5) * ROW_HEIGHT
        parts.append(_shape(entries[name], colour, x, y, name))
        parts.append(f'<text class="legend" x="{x + 12:.1f}" y="{y + 4:.1f}">{escape(name[:28])}</text>')
    for value, label in axis.ticks():
        x = _x(axis, value)
        kind = "parity" if value == 1.0 else "tick"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" y1="{HEAD_HEIGHT - 6}" x2="{x:.1f}" y2="{height - 4}"/>')
        parts.append(f'<text class="axis" x="{x:.1f}" y="14" text-anchor="middle">{label}</text>')
    parts.extend(_rows(axis, lines, colours))
    parts.append("</svg>")
    return "\n".join(parts)


def _rows(axis: LogAxis, lines: Sequence[TaskLine], colours: Mapping[str, str]) -> list[str]:
    parts: list[str] = []
    y = float(HEAD_HEIGHT)
    level: int | None = None
    for line in lines:
        if line.level != level:
            level = line.level
            parts.append(f'<text class="group" x="4" y="{y + 17:.1f}">Level {level}</text>')
            y += GROUP_HEIGHT
        middle = y + ROW_HEIGHT / 2
        parts.append(
            f'<text class="label" x="{LABEL_WIDTH - 10}" y="{middle + 4:.1f}" text-anchor="end">'
            f"{escape(line.task)}</text>"
        )
        parts += _line(axis, line, middle, colours)
        y += ROW_HEIGHT
    return parts


def _line(axis: LogAxis, line: TaskLine, middle: float, colours: Mapping[str, str]) -> list[str]:
    if not line.valid:
        return [f'<text class="none" x="{LABEL_WIDTH + 6}" y="{middle + 4:.1f}">{escape(line.text)}</text>']
    spots: dict[tuple[str, str, int], list[Mark]] = {}
    for mark in line.valid:
        assert mark.speedup is not None
        spots.setdefault((mark.target, mark.entry, round(_x(axis, mark.speedup) / STEP)), []).append(mark)
    parts: list[str] = []
    parity = _x(axis, 1.0)
    for (_, entry, _), found in sorted(spots.items()):
        speedup = found[0].speedup
        assert speedup is not None
        x = _x(axis, speedup)
        side = "faster" if speedup > 1 else "slower" if speedup < 1 else "same"
        if len(line.marks) == 1:
            parts.append(
                f'<line class="stem {side}" x1="{parity:.1f}" y1="{middle:.1f}" x2="{x:.1f}" y2="{middle:.1f}"/>'
            )
        parts.append(_shape(found[0], colours.get(entry, side), x, middle, _title(found)))
    parts.append(
        f'<text class="value" x="{LABEL_WIDTH + PLOT_WIDTH + 14}" y="{middle + 4:.1f}">{escape(line.text)}</text>'
    )
    return parts


def _shape(mark: Mark, colour: str, x: float, y: float, title: str) -> str:
    """A circle or a diamond, of the colour's class; `hollow` where its entry isn't trusted."""
    kind = colour if mark.trusted else f"{colour} hollow"
    inside = f"<title>{escape(title)}</title>"
    if mark.target == "wse2":
        points = f"{x:.1f},{y - 6:.1f} {x + 6:.1f},{y:.1f} {x:.1f},{y + 6:.1f} {x - 6:.1f},{y:.1f}"
        return f'<polygon class="{kind}" points="{points}">{inside}</polygon>'
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="5">{inside}</circle>'


def _title(marks: Sequence[Mark]) -> str:
    mark = marks[0]
    who = f" {mark.entry}" if mark.entry else ""
    more = f" and {len(marks) - 1} more" if len(marks) > 1 else ""
    return f"{mark.task}{who} ({mark.target}): {mark.speedup:.3f}{more}"


def _x(axis: LogAxis, value: float) -> float:
    return LABEL_WIDTH + axis.position(value) * PLOT_WIDTH


def _ratio(exponent: int) -> str:
    return f"{2**exponent}×" if exponent >= 0 else f"1/{2**-exponent}×"
