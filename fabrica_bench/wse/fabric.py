"""The event loop: time, and who has something to do when.

A cycle that somebody asked to be woken in is executed in three phases, in this order:

    1. host      commands that begin or end in this cycle, words fed to streams
    2. routers   each woken router forwards wavelets (order irrelevant, see `router`)
    3. elements  each woken compute element: microthreads, then the main thread, then the task picker (see `pe`)

Effects on another component take at least one cycle, so the order inside a phase changes no result; it is the order in
which components asked to be woken, which is deterministic. Cycles in which nobody is woken cost nothing.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from fabrica_bench.wse.commands import Limits
from fabrica_bench.wse.costs import CostTable
from fabrica_bench.wse.faults import BudgetExceeded
from fabrica_bench.wse.router import Channel, Router

if TYPE_CHECKING:
    from fabrica_bench.wse.element import Element
    from fabrica_bench.wse.trace import TraceSink

_WALL_CHECK_PERIOD = 512  # executed cycles between looks at the clock


class _Slot:
    """Who is woken in one cycle."""

    __slots__ = ("elements", "host", "routers")

    def __init__(self) -> None:
        self.host: list[Callable[[int], None]] = []
        self.routers: list[Router] = []
        self.elements: list[Element] = []


class Fabric:
    """Clock and wake-up calls. `now` is the cycle being executed.

    `takes_strays`: the PEs around the program rectangle take what is sent to them and drop it. Those that memcpy puts
    there do: a public program whose control color runs off its last row passes at every size on the vendor's simulator
    (cs5220_hw4, `leaderboard_output.txt`). Without memcpy nobody is known to be there: wavelets stay in the buffer.
    """

    def __init__(self, costs: CostTable, limits: Limits, trace: TraceSink | None, *, takes_strays: bool) -> None:
        self.costs = costs
        self.limits = limits
        self.trace = trace
        self.now = 0
        self.hop = costs["fabric.hop"]
        self.ramp = costs["fabric.ramp"]
        self.buffer_depth = costs["fabric.router_buffer"]
        self.takes_strays = takes_strays
        self._slots: dict[int, _Slot] = {}
        self._times: list[int] = []
        self._edges: dict[tuple[int, int, int, int], Channel] = {}
        self._deadline: float | None = None
        self._until_wall_check = _WALL_CHECK_PERIOD

    # -------------------------------------------------------------------------------------------- wake-ups

    def _slot(self, cycle: int) -> _Slot:
        slot = self._slots.get(cycle)
        if slot is None:
            slot = self._slots[cycle] = _Slot()
            heapq.heappush(self._times, cycle)
        return slot

    def wake_router(self, router: Router, cycle: int) -> None:
        """Have `router` stepped in `cycle`, which must lie after the current one."""
        if router.scheduled != cycle:
            router.scheduled = cycle
            slot = self._slots.get(cycle)
            (slot if slot is not None else self._slot(cycle)).routers.append(router)

    def wake_pe(self, pe: Element, cycle: int) -> None:
        """Have `pe` stepped in `cycle`: a later one, or the current one if its phase has not begun."""
        if pe.scheduled != cycle:
            pe.scheduled = cycle
            slot = self._slots.get(cycle)
            (slot if slot is not None else self._slot(cycle)).elements.append(pe)

    def call(self, action: Callable[[int], None], cycle: int) -> None:
        """Have `action(cycle)` called in the host phase of `cycle`."""
        self._slot(cycle).host.append(action)

    def edge_channel(self, router: Router, direction: int, color: int) -> Channel:
        """Buffer of the PE beyond the rectangle's edge: it keeps nothing, or it fills up and never drains."""
        key = (router.x, router.y, direction, color)
        channel = self._edges.get(key)
        if channel is None:
            channel = self._edges[key] = Channel(None, direction, color, self.buffer_depth)
            if self.takes_strays:
                channel.queue = deque(maxlen=0)
        return channel

    # ------------------------------------------------------------------------------------------------ time

    def start_clock(self) -> None:
        """Begin to count wall time against the limit."""
        seconds = self.limits.wall_seconds
        if seconds is not None and self._deadline is None:
            self._deadline = time.monotonic() + seconds

    @property
    def is_idle(self) -> bool:
        """Nobody has anything to do."""
        return not self._times

    def run_cycle(self) -> None:
        """Go to the next cycle in which somebody is woken, and execute it."""
        now = heapq.heappop(self._times)
        if now > self.limits.max_cycles:
            raise BudgetExceeded(f"the run needs more than its {self.limits.max_cycles} cycles")
        self.now = now
        self._until_wall_check -= 1
        if self._until_wall_check <= 0:
            self.check_wall()
        slot = self._slots[now]
        for action in slot.host:
            action(now)
        for router in slot.routers:
            router.step(now)
        for pe in slot.elements:
            pe.step(now)
        del self._slots[now]

    def check_wall(self) -> None:
        """Raise if the wall-clock limit has passed."""
        self._until_wall_check = _WALL_CHECK_PERIOD
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise BudgetExceeded(
                f"the run took more than its {self.limits.wall_seconds} s of wall time (cycle {self.now})"
            )
