"""The host's side of memcpy streaming: words fed to a PE's color, words taken from it.

A direct model: words appear at the PE's input queue and vanish at its router, at the pace of the cost table. memcpy's
own routes, colors and commands are not simulated (Cerebras SDK docs describe only their interface).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from fabrica_bench.csl.ir import RAMP

if TYPE_CHECKING:
    from fabrica_bench.wse.fabric import Fabric
    from fabrica_bench.wse.pe import ProcessingElement
    from fabrica_bench.wse.router import Router


class StreamFeeder:
    """Words on their way to one color of one PE, across any number of host commands."""

    def __init__(self, fabric: Fabric, pe: ProcessingElement, color: int, on_empty: Callable[[], None]) -> None:
        self.fabric = fabric
        self.pe = pe
        self.color = color
        self.words: deque[int] = deque()
        self.pushed = 0
        self._on_empty = on_empty
        self.interval = fabric.costs["host.stream_in_interval"]
        self._next = 0
        self._scheduled = -1

    def push(self, words: list[int], now: int) -> None:
        """Queue words behind those not yet delivered."""
        self.words.extend(words)
        self.pushed += len(words)
        self.wake(max(now + 1, self._next))

    def wake(self, cycle: int) -> None:
        """Try to deliver in `cycle`, or as soon after as the pace allows."""
        cycle = max(cycle, self._next)
        if self.words and self._scheduled != cycle:
            self._scheduled = cycle
            self.fabric.call(self._feed, cycle)

    def _feed(self, now: int) -> None:
        if not self.words or now < self._next or not self.pe.can_receive(self.color, self):
            return
        word = self.words.popleft()
        self.pe.receive(self.color, now + self.fabric.ramp, word, 0)
        if self.fabric.trace is not None:
            self.fabric.trace.forward(now, self.pe.x, self.pe.y, self.color, 0, -1, RAMP, word, False)
        self._next = now + self.interval
        if self.words:
            self.wake(self._next)
        else:
            self._on_empty()


class StreamSink:
    """Words that a PE sends to the host on one color. `wanted` words are still expected by host commands."""

    def __init__(self, fabric: Fabric, router: Router) -> None:
        self.fabric = fabric
        self.router = router
        self.wanted = 0
        self.words: list[int] = []
        self.on_full: Callable[[], None] | None = None
        self.interval = fabric.costs["host.stream_out_interval"]
        self._next = 0

    def expect(self, count: int, now: int) -> None:
        """Accept `count` more words."""
        self.wanted += count
        self.fabric.wake_router(self.router, now + 1)

    def accepts(self, now: int) -> bool:
        """True if a word may be taken now; otherwise the router is woken when one may."""
        if not self.wanted:
            return False
        if now < self._next:
            self.fabric.wake_router(self.router, self._next)
            return False
        return True

    def take(self, word: int, now: int) -> None:
        """Take one word."""
        self.words.append(word)
        self.wanted -= 1
        self._next = now + self.interval
        if not self.wanted and self.on_full is not None:
            self.on_full()
