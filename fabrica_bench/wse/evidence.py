"""What the simulator itself knows about when a program worked, for those who judge its own time stamps.

A program takes its time stamps itself and could say anything. Beside them the machine keeps, for every PE, when the
counter was really read and with which value, when the PE gave the command stream back, when its last task and its
last fabric operation did something, and what its variables held when it last read the counter; for every launch, how
much work all PEs together had done until then; and for every copy to the host, which PEs had changed the copied words
since they last read the counter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from fabrica_bench.csl import ir
from fabrica_bench.wse.memory import MEMORY_BYTES

CLOCK_FIELDS: Final = ("first_read", "first_value", "last_read", "last_value", "released", "ended", "issued")


class PeClock:
    """Cycles of one PE, -1 for what never happened.

    Attributes:
        first_read, first_value: First reading of the time stamp counter since it was enabled: in which cycle, and what
            the program was given.
        last_read, last_value: The same of the last reading.
        released: Last call of `unblock_cmd_stream`.
        ended: What the main thread's last task had reached when it returned.
        issued: Last cycle in which an operation with a fabric or FIFO operand moved something.
    """

    __slots__ = CLOCK_FIELDS

    def __init__(self) -> None:
        self.first_read = self.first_value = self.last_read = self.last_value = -1
        self.released = self.ended = self.issued = -1

    def note(self, cycle: int, value: int) -> None:
        """The counter was read."""
        if self.first_read < 0:
            self.first_read, self.first_value = cycle, value
        self.last_read, self.last_value = cycle, value


class HeldWords:
    """What a PE's variables held at some moment; afterwards the host's own copies are followed.

    Attributes:
        begin: Address of the first byte. What lies outside the variables is not held.
        data: The bytes.
    """

    __slots__ = ("begin", "data")

    def __init__(self, begin: int, data: bytearray | memoryview) -> None:
        self.begin = begin
        self.data = data

    def differs(self, address: int, data: bytes) -> bool:
        """Whether these bytes, read now, are others than those held; so is what lies outside the variables."""
        start = address - self.begin
        return start < 0 or start + len(data) > len(self.data) or bytes(self.data[start : start + len(data)]) != data

    def follow(self, address: int, data: bytes) -> None:
        """The host stored these bytes."""
        start = address - self.begin
        first, last = max(start, 0), min(start + len(data), len(self.data))
        if first < last:
            self.data[first:last] = data[first - start : last - start]


def held_range(image: ir.Image) -> tuple[int, int]:
    """Where a program's variables begin and end, in whole 64-bit words."""
    return image.code_bytes & ~7, min((image.data_end + 7) & ~7, MEMORY_BYTES)


@dataclass(frozen=True)
class Readback:
    """A copy to the host, compared with what the PEs held when they last read the counter.

    Attributes:
        symbol: What was copied.
        cycle: When the copy began.
        changed: PEs that read the counter and hold other words now, or show the host another place.
        latest: Until which cycle one of these PEs was at work: its last task, or its last fabric operation; -1 for
            none.
    """

    symbol: str
    cycle: int
    changed: int
    latest: int


@dataclass(frozen=True)
class Activity:
    """What the PEs had done when a host command began.

    Attributes:
        kind: A launch, or the first copy to the device after a launch.
        name: The launched function, or the symbol.
        cycle: When the command began.
        busy: Cycles that main threads had worked until then, over all PEs.
        issued: Last cycle until then in which an operation with a fabric or FIFO operand moved something.
    """

    kind: Literal["copy", "launch"]
    name: str
    cycle: int
    busy: int
    issued: int


@dataclass(frozen=True)
class RunEvidence:
    """The evidence about one launched function in one run.

    Attributes:
        start, end: Cycles of its first launch's start and its last launch's end.
        work_before: Cycles of main threads, over all PEs, between the first copy of data to the device before a launch
            and that launch; the data were there, and the window was not open yet.
        moves_before: Whether an operation moved something in that time.
        clocks: The fields of `PeClock`, each for all PEs row by row.
        readbacks: The copies to the host after the first launch.
    """

    start: int
    end: int
    work_before: int
    moves_before: bool
    clocks: Mapping[str, tuple[int, ...]]
    readbacks: tuple[Readback, ...] = ()


def read_evidence(statistics: Mapping[str, Any], entry: str) -> RunEvidence | None:
    """The evidence in the content of a `sim_stats.json`; None when the function was never launched.

    Raises:
        KeyError, TypeError, ValueError: It is no such content.
    """
    windows = [item for item in statistics["launches"] if item["name"] == entry]
    if not windows:
        return None
    work, moved = 0, False
    copied: Mapping[str, Any] | None = None
    for item in statistics["activity"]:
        if item["kind"] == "copy":
            copied = item
            continue
        if copied is not None:
            work += int(item["busy"]) - int(copied["busy"])
            moved = moved or int(item["issued"]) >= int(copied["cycle"])
        copied = None
    clocks = {name: tuple(int(value) for value in statistics["clocks"][name]) for name in CLOCK_FIELDS}
    start, end = int(windows[0]["start"]), int(windows[-1]["end"])
    readbacks = tuple(
        Readback(str(item["symbol"]), int(item["cycle"]), int(item["changed"]), int(item["latest"]))
        for item in statistics["readbacks"]
        if int(item["cycle"]) >= start
    )
    return RunEvidence(start, end, work, moved, clocks, readbacks)
