"""A trace sink that keeps a run's events, so that exporters can write them in the format of a viewer.

    recorder = TraceRecorder(program, TraceWindow(cycles=(0, 20_000)))
    machine = Machine(program, trace=recorder)
    ...
    for event in recorder.events(): ...

Every wavelet gets a number of its own, which it keeps from the output queue (or the host's stream) over all its hops
and copies. The routers don't know it: the recorder follows each first-in first-out buffer of the fabric instead.

An event takes a few dozen bytes, and at most `TraceWindow.max_events` are kept; `truncated_at` tells where a longer
run was cut.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from fabrica_bench.csl.ir import EAST, NORTH, RAMP, SOUTH, WEST
from fabrica_bench.wse.router import OFFSETS, OPPOSITE

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import Program

DEFAULT_MAX_EVENTS: Final = 500_000
LAST_CYCLE: Final = 1 << 62

#: kind, control flag, x, y, cycle, five numbers, payload
_RECORD: Final = struct.Struct("<BBHHqiiiiiI")


class Kind(IntEnum):
    """What an event tells. The numbers `a`..`e` of a record depend on it; see the event classes."""

    FORWARD = 0
    INJECT = 1
    TASK_START = 2
    TASK_END = 3
    OP_START = 4
    OP_END = 5
    STALL = 6
    COMMAND = 7


class Forward(NamedTuple):
    """A router forwarded wavelet `ident` from `port` (0: the host's stream) to every direction of `mask`.

    `color` is the one under which the wavelet entered this router, color swap applied.
    """

    cycle: int
    x: int
    y: int
    ident: int
    color: int
    port: int
    queue: int
    mask: int
    word: int
    control: bool


class Inject(NamedTuple):
    """A compute element put wavelet `ident` in output queue `queue`."""

    cycle: int
    x: int
    y: int
    ident: int
    color: int
    queue: int
    word: int
    control: bool


class TaskStart(NamedTuple):
    """A task or launched function began; `kind` is data, local, control or launch."""

    cycle: int
    x: int
    y: int
    name: str
    kind: str


class TaskEnd(NamedTuple):
    """It returned."""

    cycle: int
    x: int
    y: int
    name: str


class OpStart(NamedTuple):
    """A DSD operation began on microthread `thread` (-1: the main thread). `loc` indexes the image's locations."""

    cycle: int
    x: int
    y: int
    op: str
    length: int
    thread: int
    loc: int


class OpEnd(NamedTuple):
    """It is complete; `cycle` is the first cycle after it."""

    cycle: int
    x: int
    y: int
    op: str
    thread: int


class Stall(NamedTuple):
    """A thread lost the `cycles` before `cycle`; `what` names the queue, if one is to blame."""

    cycle: int
    x: int
    y: int
    reason: str
    what: str
    thread: int
    loc: int
    cycles: int


class HostCommand(NamedTuple):
    """The host's command `text` was done from `cycle` to `end`."""

    cycle: int
    end: int
    text: str


Event = Forward | Inject | TaskStart | TaskEnd | OpStart | OpEnd | Stall | HostCommand


@dataclass(frozen=True)
class TraceWindow:
    """What to keep: events of the cycles from `cycles[0]` to `cycles[1]` inclusive, of the PEs in `region` (first and
    last column, first and last row; None: all), and at most `max_events` of them."""

    cycles: tuple[int, int] = (0, LAST_CYCLE)
    region: tuple[int, int, int, int] | None = None
    max_events: int = DEFAULT_MAX_EVENTS


class TraceRecorder:
    """See the module's docstring.

    Attributes:
        program: the program that runs.
        count: events kept.
        truncated_at: cycle of the first event that no longer found room, or None.
        last_cycle: last cycle of any event seen, kept or not.
    """

    def __init__(self, program: Program, window: TraceWindow | None = None) -> None:
        self.program = program
        self.window = window or TraceWindow()
        self.count = 0
        self.truncated_at: int | None = None
        self.last_cycle = 0
        self._records = bytearray()
        self._names: list[str] = []
        self._name_ids: dict[str, int] = {}
        self._buffers: dict[tuple[int, int, int, int], deque[int]] = {}
        self._idents = 0
        self._just_started: tuple[int, int, int] | None = None

    # ------------------------------------------------------------------------------------------ the sink

    def wavelet(self, cycle: int, x: int, y: int, color: int, direction: int, word: int, control: bool) -> None:
        """Nothing new: `forward` told it."""

    def forward(
        self, cycle: int, x: int, y: int, color: int, port: int, queue: int, mask: int, word: int, control: bool
    ) -> None:
        """See `Forward`."""
        ident = self._leave(x, y, port, queue if port == RAMP else color) if port else self._new_ident()
        for direction in (NORTH, SOUTH, EAST, WEST):
            if mask & direction:
                self._enter(x, y, direction, color, ident)
        self._keep(Kind.FORWARD, cycle, x, y, (ident, color, port, queue, mask), word, control)

    def inject(self, cycle: int, x: int, y: int, color: int, queue: int, word: int, control: bool) -> None:
        """See `Inject`."""
        ident = self._new_ident()
        self._buffers.setdefault((x, y, RAMP, queue), deque()).append(ident)
        self._keep(Kind.INJECT, cycle, x, y, (ident, color, queue, 0, 0), word, control)

    def task_start(self, cycle: int, x: int, y: int, name: str, kind: str) -> None:
        """See `TaskStart`."""
        self._keep(Kind.TASK_START, cycle, x, y, (self._name(name), self._name(kind), 0, 0, 0))

    def task_end(self, cycle: int, x: int, y: int, name: str) -> None:
        """See `TaskEnd`."""
        self._keep(Kind.TASK_END, cycle, x, y, (self._name(name), 0, 0, 0, 0))

    def dsd_start(self, cycle: int, x: int, y: int, op: str, length: int, thread: int, loc: int) -> None:
        """See `OpStart`."""
        self._keep(Kind.OP_START, cycle, x, y, (self._name(op), length, thread, loc, 0))
        self._just_started = (x, y, thread)

    def dsd_end(self, cycle: int, x: int, y: int, op: str, thread: int) -> None:
        """See `OpEnd`."""
        # The end of a memory operation comes right after its start and is exclusive; others end within `cycle`.
        exclusive = self._just_started == (x, y, thread)
        self._keep(Kind.OP_END, cycle if exclusive else cycle + 1, x, y, (self._name(op), thread, 0, 0, 0))

    def stall(self, cycle: int, x: int, y: int, reason: str, what: str, thread: int, loc: int, cycles: int) -> None:
        """See `Stall`."""
        self._keep(Kind.STALL, cycle, x, y, (self._name(reason), self._name(what), thread, loc, _int32(cycles)))

    def command(self, text: str, start: int, end: int) -> None:
        """See `HostCommand`."""
        first, last = self.window.cycles
        if start <= last and end >= first:
            self._store(Kind.COMMAND, start, 0, 0, (self._name(text), _int32(end - start), 0, 0, 0), 0, False)

    # ------------------------------------------------------------------------------------------ the way of a wavelet

    def _new_ident(self) -> int:
        self._idents += 1
        return self._idents

    def _enter(self, x: int, y: int, direction: int, color: int, ident: int) -> None:
        """The wavelet goes to the neighbour in `direction`."""
        dx, dy = OFFSETS[direction]
        x, y, port = x + dx, y + dy, OPPOSITE[direction]
        if 0 <= x < self.program.width and 0 <= y < self.program.height:
            color = arrival_color(self.program, x, y, port, color)
            self._buffers.setdefault((x, y, port, color), deque()).append(ident)

    def _leave(self, x: int, y: int, port: int, key: int) -> int:
        buffer = self._buffers.get((x, y, port, key))
        return buffer.popleft() if buffer else self._new_ident()

    # ------------------------------------------------------------------------------------------ storage

    def _name(self, text: str) -> int:
        number = self._name_ids.get(text)
        if number is None:
            number = self._name_ids[text] = len(self._names)
            self._names.append(text)
        return number

    def _keep(
        self,
        kind: Kind,
        cycle: int,
        x: int,
        y: int,
        numbers: tuple[int, int, int, int, int],
        word: int = 0,
        control: bool = False,
    ) -> None:
        self._just_started = None
        if cycle > self.last_cycle:
            self.last_cycle = cycle
        window = self.window
        if not window.cycles[0] <= cycle <= window.cycles[1]:
            return
        if window.region is not None:
            left, right, top, bottom = window.region
            if not (left <= x <= right and top <= y <= bottom):
                return
        self._store(kind, cycle, x, y, numbers, word, control)

    def _store(
        self, kind: Kind, cycle: int, x: int, y: int, numbers: tuple[int, ...], word: int, control: bool
    ) -> None:
        if self.count >= self.window.max_events:
            if self.truncated_at is None:
                self.truncated_at = cycle
            return
        self.count += 1
        self._records += _RECORD.pack(kind, control, x, y, cycle, *numbers, word & 0xFFFFFFFF)

    # ------------------------------------------------------------------------------------------ reading

    def events(self) -> Iterator[Event]:
        """The events in the order in which they were told: in order of cycles for each router and each thread, but
        not over all PEs, because a main thread may run ahead of the clock."""
        names = self._names
        for kind, control, x, y, cycle, a, b, c, d, e, word in _RECORD.iter_unpack(bytes(self._records)):
            if kind == Kind.FORWARD:
                yield Forward(cycle, x, y, a, b, c, d, e, word, bool(control))
            elif kind == Kind.INJECT:
                yield Inject(cycle, x, y, a, b, c, word, bool(control))
            elif kind == Kind.TASK_START:
                yield TaskStart(cycle, x, y, names[a], names[b])
            elif kind == Kind.TASK_END:
                yield TaskEnd(cycle, x, y, names[a])
            elif kind == Kind.OP_START:
                yield OpStart(cycle, x, y, names[a], b, c, d)
            elif kind == Kind.OP_END:
                yield OpEnd(cycle, x, y, names[a], b)
            elif kind == Kind.STALL:
                yield Stall(cycle, x, y, names[a], names[b], c, d, e)
            else:
                yield HostCommand(cycle, cycle + b, names[a])


def arrival_color(program: Program, x: int, y: int, port: int, color: int) -> int:
    """Color under which a wavelet sent as `color` enters the router of (x, y) through `port`: its partner's color
    swap may apply."""
    partner = program.colors[y][x].get(color ^ 1)
    if partner is not None and (partner.color_swap_x if port in (EAST, WEST) else partner.color_swap_y):
        return color ^ 1
    return color


def _int32(value: int) -> int:
    return min(value, 0x7FFFFFFF)
