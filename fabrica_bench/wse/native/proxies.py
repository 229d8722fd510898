"""What `wse.machine.Machine` asks of its fabric, PEs and streams, answered from the kernel's flat state."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fabrica_bench.wse.faults import PePosition
from fabrica_bench.wse.memory import PeMemory
from fabrica_bench.wse.native.layout import Records, address_of

if TYPE_CHECKING:
    from fabrica_bench.wse.native.machine import NativeMachine

PUMP, _PYTHON = 0, 2  # what the kernel calls the host for: `Machine._pump`, or an action kept here


class Clock:
    """The clock as `Machine` sees it."""

    trace = None

    def __init__(self, machine: NativeMachine) -> None:
        self._machine = machine
        self._state = machine._state
        self._actions: dict[int, Callable[[int], None]] = {}
        self._last = 0

    @property
    def now(self) -> int:
        return self._state.get("now")

    def call(self, action: Callable[[int], None], cycle: int) -> None:
        """Have `action(cycle)` called in the host phase of `cycle`."""
        if action == self._machine._pump:
            self._state.lib.call("call_host", self._state.m, PUMP, 0, cycle)
            return
        self._last += 1
        self._actions[self._last] = action
        self._state.lib.call("call_host", self._state.m, _PYTHON, self._last, cycle)

    def take(self, number: int) -> Callable[[int], None]:
        """The action with this number, which is due."""
        return self._actions.pop(number)


class Elements:
    """The PEs in order, made when asked for."""

    def __init__(self, machine: NativeMachine) -> None:
        self._machine = machine

    def __len__(self) -> int:
        return self._machine._state.count

    def __getitem__(self, index: int) -> PeView:
        return self._machine.element(index)


class PeView:
    """One PE as `Machine` sees it."""

    def __init__(self, machine: NativeMachine, index: int) -> None:
        state = machine._state
        self.position = PePosition(index % machine.program.width, index // machine.program.width)
        self.image = machine.program.images[int(state.tiles[index])]
        self.memory = HostMemory(machine, index)


class HostMemory(PeMemory):
    """Memory that tells the machine about writes of the host."""

    __slots__ = ("_index", "_machine")

    def __init__(self, machine: NativeMachine, index: int) -> None:
        super().__init__(machine._state.memory[index])
        self._machine = machine
        self._index = index

    def write(self, address: int, data: bytes) -> None:
        super().write(address, data)
        self._machine.poked_memory(self._index, address, bytes(data))


class Feeder:
    """Words on their way to one color of one PE (see `streams.StreamFeeder`)."""

    def __init__(self, machine: NativeMachine, index: int, color: int) -> None:
        self._state = machine._state
        self._record = Records(self._state.lib.structs["Feeder"], 1)
        self._record["pe"] = self._state.pes.address_at(index)
        self._record["color"] = color
        self._record["scheduled"] = -1
        self._words = np.zeros(0, dtype=np.int64)
        self.pe = machine.element(index)

    @property
    def words(self) -> range:
        """As many as are not yet delivered."""
        return range(int(self._record["count"][0]))

    def push(self, words: Any, now: int) -> None:
        """Queue words behind those not yet delivered."""
        record = self._record
        head, count = int(record["head"][0]), int(record["count"][0])
        self._words = np.concatenate([self._words[head : head + count], np.asarray(words).astype(np.int64)])
        record["words"] = address_of(self._words)
        record["head"] = 0
        record["count"] = len(self._words)
        self._state.lib.call("push_feeder", self._state.m, record.address)


class Sink:
    """Words that a PE sends to the host on one color (see `streams.StreamSink`)."""

    def __init__(self, machine: NativeMachine, index: int, color: int) -> None:
        self._state = machine._state
        layout = self._state.lib.structs["Color"]
        self._pe = self._state.pes.address_at(index)
        place = self._state.lib.call("color_of", self._state.m, self._pe, color)
        words = (ctypes.c_int64 * layout.words).from_address(place)  # of the program's memory, which outlives this
        self._record = Records(layout, 1, words=np.ctypeslib.as_array(words))
        self._record["exists"] = 1
        self._record["has_sink"] = 1
        self._record["sink_poke"] = 1
        self._buffer = np.zeros(0, dtype=np.int64)

    def expect(self, count: int, now: int) -> None:
        """Accept `count` more words."""
        record = self._record
        held = int(record["sink_count"][0])
        wanted = int(record["sink_wanted"][0]) + count
        fresh = np.zeros(held + wanted, dtype=np.int64)
        fresh[:held] = self._buffer[:held]
        self._buffer = fresh
        record["sink_words"] = address_of(fresh)
        record["sink_capacity"] = len(fresh)
        record["sink_wanted"] = wanted
        self._state.lib.call("wake_router", self._state.m, self._pe, now + 1)

    @property
    def words(self) -> _SinkWords:
        """The words taken, as a list that can be shortened from the front."""
        return _SinkWords(self)

    def held(self) -> Any:
        return self._buffer[: int(self._record["sink_count"][0])]

    def drop(self, count: int) -> None:
        held = self.held()[count:].copy()
        self._buffer[: len(held)] = held
        self._record["sink_count"] = len(held)


class _SinkWords:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def __len__(self) -> int:
        return len(self._sink.held())

    def __getitem__(self, part: slice) -> Any:
        return self._sink.held()[part].astype(np.uint32)

    def __delitem__(self, part: slice) -> None:
        self._sink.drop(part.stop)
