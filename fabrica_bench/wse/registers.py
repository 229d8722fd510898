"""Small pieces of a compute element's state: time stamp counter and explicit DSRs."""

from __future__ import annotations

from fabrica_bench.csl.ir import Dsd, DsdConfig
from fabrica_bench.wse import cursors

_COUNTER_MASK = (1 << 48) - 1


class TimestampCounter:
    """48-bit cycle counter of one PE (Cerebras SDK docs, `<time>`): enabling starts and clears it."""

    __slots__ = ("_held", "_running", "_start")

    def __init__(self) -> None:
        self._running = False
        self._start = 0
        self._held = 0

    def enable(self, cycle: int) -> None:
        """Start from zero."""
        self._running = True
        self._start = cycle

    def disable(self, cycle: int) -> None:
        """Stop; the value stays readable."""
        self._held = self.value(cycle)
        self._running = False

    def reset(self, cycle: int) -> None:
        """Clear; keeps running if it runs."""
        self._start = cycle
        self._held = 0

    def value(self, cycle: int) -> int:
        """Reading in `cycle`."""
        return (cycle - self._start if self._running else self._held) & _COUNTER_MASK


class Dsr:
    """Contents of an explicit DSR: a descriptor and, for fabric ones, the asynchronous settings of the load."""

    __slots__ = ("config", "control_id", "done_id", "dsd", "save_address")

    def __init__(self, dsd: Dsd, config: DsdConfig, done_id: int, control_id: int, save_address: bool) -> None:
        self.dsd = dsd
        self.config = config
        self.done_id = done_id
        self.control_id = control_id
        self.save_address = save_address

    def finish(self, count: int, size: int) -> None:
        """After an operation over `count` elements: the length is as loaded, a saved address moves on."""
        if self.save_address and count:
            self.dsd = self.dsd._replace(base=cursors.address_after(self.dsd, count, size))
