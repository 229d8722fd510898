"""What a run can tell an observer. A machine without a sink pays nothing but a `None` test per event."""

from __future__ import annotations

from typing import Protocol


class TraceSink(Protocol):
    """Receiver of simulation events. Cycles of different PEs may arrive out of order; sort by cycle if needed.

    `x`, `y` are columns and rows of the program rectangle. `direction` is one of the masks NORTH=1 SOUTH=2 EAST=4
    WEST=8 RAMP=16: where the wavelet leaves the router to.
    """

    def wavelet(self, cycle: int, x: int, y: int, color: int, direction: int, word: int, control: bool) -> None:
        """A wavelet left the router of (x, y)."""

    def forward(
        self, cycle: int, x: int, y: int, color: int, port: int, queue: int, mask: int, word: int, control: bool
    ) -> None:
        """The router of (x, y) forwarded a wavelet from `port` to every direction of `mask` (0: a filter dropped it).

        `queue`: output queue that it came from, if `port` is RAMP, else -1. `port` 0: a stream of the host. A `wavelet`
        event per direction follows. Events of one router come in order, so whoever keeps a first-in first-out list per
        input can follow each wavelet.
        """

    def inject(self, cycle: int, x: int, y: int, color: int, queue: int, word: int, control: bool) -> None:
        """The compute element put a wavelet in an output queue."""

    def task_start(self, cycle: int, x: int, y: int, name: str, kind: str) -> None:
        """A task or launched function began. `kind`: data | local | control | launch."""

    def task_end(self, cycle: int, x: int, y: int, name: str) -> None:
        """The task returned."""

    def dsd_start(self, cycle: int, x: int, y: int, op: str, length: int, thread: int, loc: int) -> None:
        """A DSD operation began on microthread `thread` (-1: main thread). `loc` indexes the image's locations."""

    def dsd_end(self, cycle: int, x: int, y: int, op: str, thread: int) -> None:
        """It completed; for memory operations `cycle` is the first cycle after it."""

    def stall(self, cycle: int, x: int, y: int, reason: str, what: str, thread: int, loc: int, cycles: int) -> None:
        """A thread lost the `cycles` before `cycle`. `reason`: empty_queue | full_queue | bank | issue_slot. `what` is
        the queue in question."""

    def command(self, text: str, start: int, end: int) -> None:
        """A host command was done from cycle `start` to `end`."""
