"""Wavelets that nobody took by the end of a run.

While the host waits for something, wavelets that can't move are part of the deadlock's report. When the host waits for
nothing, the vendor's documents know no message; a programmer who asks why a result is wrong should hear of them all the
same, so `cs_python` prints a warning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fabrica_bench.csl.ir import RAMP
from fabrica_bench.wse.faults import PePosition
from fabrica_bench.wse.pe import ProcessingElement
from fabrica_bench.wse.router import DIRECTION_NAMES

_SHOWN_COLORS = 6


class Leftover(NamedTuple):
    """Wavelets of one color in one place of a PE."""

    pe: PePosition
    color: int
    words: int
    place: str


def place_name(port: int, number: int) -> str:
    """Where wavelets wait. `port`: direction of a router's input, RAMP for an output queue, 0 for an input queue."""
    if port == RAMP:
        return f"output queue {number}"
    if port:
        return f"the router's input from {DIRECTION_NAMES[port]}"
    return f"input queue {number}" if number >= 0 else "the input queue of the color"


def leftovers(elements: Iterable[ProcessingElement]) -> list[Leftover]:
    """In order of PEs: first what waits before the router, then what waits in input queues."""
    found = []
    for pe in elements:
        for channel in pe.router.active:
            place = place_name(channel.port, channel.queue_id)
            found.append(Leftover(pe.position, channel.queue[0][3], len(channel.queue), place))
        for queue in pe.inputs:
            if queue.queue:
                found.append(Leftover(pe.position, queue.color, len(queue.queue), place_name(0, queue.number)))
    return found


def describe(found: Iterable[Leftover]) -> str:
    """The text of a warning, one line for each color; empty if nothing was left."""
    by_color: dict[int, list[Leftover]] = {}
    for entry in found:
        by_color.setdefault(entry.color, []).append(entry)
    lines = []
    for color, entries in sorted(by_color.items())[:_SHOWN_COLORS]:
        count = sum(entry.words for entry in entries)
        more = f", and in {len(entries) - 1} more place(s)" if len(entries) > 1 else ""
        lines.append(f"\n  color {color}: {count}, first in {entries[0].place} of {entries[0].pe}{more}")
    if len(by_color) > _SHOWN_COLORS:
        lines.append(f"\n  and {len(by_color) - _SHOWN_COLORS} more color(s)")
    return f"wavelets that nobody took by the end of the run{''.join(lines)}" if lines else ""
