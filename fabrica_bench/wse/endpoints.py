"""Where the elements of a fabric operation come from and go to.

Every end has `ready(now)` (may the next element be taken or put in this cycle?), and `get(now)` or `put(bits, now,
last)`. An end that is not ready leaves a note where it waits, so that whoever ends the wait wakes the PE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fabrica_bench.csl import ir
from fabrica_bench.wse import cursors
from fabrica_bench.wse.queues import FifoState, InputQueue
from fabrica_bench.wse.router import ADVANCE_AFTER, CONTROL, Channel

if TYPE_CHECKING:
    from fabrica_bench.wse.dsd import Operand
    from fabrica_bench.wse.pe import ProcessingElement

PACKED_MODES = ("32", "64", "32_or_64", "max")
TRANSFORMED = 0b11  # the two top bits of a control wavelet stored with `control_transform`


class MemoryEnd:
    """Elements of a memory DSD, in order. `zero`: clear each element once it was read."""

    gate = False
    what = ""

    def __init__(self, pe: ProcessingElement, operand: Operand, count: int, zero: bool = False) -> None:
        self._memory = pe.memory
        self._size = operand.size
        self._zero = zero
        self._at = operand.base
        self._step = operand.step
        self._places: Iterator[int] | None = None
        if not operand.linear:
            self._places = iter(_endless(operand, count))

    def ready(self, now: int) -> bool:
        return True

    def _next(self) -> int:
        if self._places is not None:
            return next(self._places)
        place = self._at
        self._at += self._step
        return place

    def get(self, now: int) -> int:
        place = self._next()
        bits = self._memory.read_int(place, self._size)
        if self._zero:
            self._memory.write_int(place, 0, self._size)
        return bits

    def put(self, bits: int, now: int, last: bool) -> None:
        self._memory.write_int(self._next(), bits, self._size)


def _endless(operand: Operand, count: int) -> Iterator[int]:
    assert operand.dsd is not None
    total = count if count > 0 else cursors.length(operand.dsd)
    places = [int(place) for place in operand.addresses(max(total, 1))]
    while True:
        yield from places


class ScalarEnd:
    """The same value for every element."""

    gate = False
    what = ""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def ready(self, now: int) -> bool:
        return True

    def get(self, now: int) -> int:
        return self.bits


class PointerEnd:
    """A scalar in memory as destination; as source it gives the running value of a reduction."""

    gate = False
    what = ""

    def __init__(self, pe: ProcessingElement, address: int, size: int, bits: int = 0) -> None:
        self._memory = pe.memory
        self._address = address
        self._size = size
        self.bits = bits

    def ready(self, now: int) -> bool:
        return True

    def get(self, now: int) -> int:
        return self.bits

    def put(self, bits: int, now: int, last: bool) -> None:
        self.bits = bits
        self._memory.write_int(self._address, bits, self._size)


class NullEnd:
    """Destination of an operation that only consumes."""

    gate = False
    what = ""

    def ready(self, now: int) -> bool:
        return True

    def put(self, bits: int, now: int, last: bool) -> None:
        return None


class FabricIn:
    """Words of an input queue. In packed mode a word holds two 16-bit elements, the first in its low half."""

    gate = True

    def __init__(self, pe: ProcessingElement, queue: InputQueue, dsd: ir.Dsd, size: int) -> None:
        self._pe = pe
        self.queue = queue
        self._transform = dsd.control_transform
        self._mask = 0xFFFF if size == 2 else 0xFFFFFFFF
        self._packed = size == 2 and dsd.simd_mode in PACKED_MODES
        self._half: int | None = None
        self._words = queue.queue
        self.what = queue.label

    def ready(self, now: int) -> bool:
        words = self._words
        return (bool(words) and words[0][0] <= now) or self._half is not None

    def control_waits(self, now: int) -> bool:
        """The next word is a control wavelet."""
        return self._half is None and self.queue.head_ready(now) and bool(self.queue.queue[0][2])

    def get(self, now: int) -> int:
        if self._half is not None:
            half, self._half = self._half, None
            return half
        word, control = self.queue.pop(self._pe, now)
        if control and self._transform:
            word ^= self._pe.transform_mask << 26
        if self._packed:
            self._half = word >> 16
        return word & self._mask


class FabricOut:
    """Words put in an output queue."""

    gate = True

    def __init__(self, pe: ProcessingElement, channel: Channel, color: int, dsd: ir.Dsd, size: int, index: int) -> None:
        self._pe = pe
        self.channel = channel
        self.color = color
        self._flags = CONTROL if dsd.control else 0
        self._advance = dsd.advance_switch
        self._transform = dsd.control_transform
        self._index = index << 16 if dsd.wavelet_index_offset else 0
        self._packed = size == 2 and dsd.simd_mode in PACKED_MODES
        self._half: int | None = None
        self.what = f"output queue {channel.queue_id} (color {color})"

    def ready(self, now: int) -> bool:
        if len(self.channel.queue) < self.channel.depth:
            return True
        self.channel.feeder_waits = True
        return False

    def put(self, bits: int, now: int, last: bool) -> None:
        if self._packed:
            if self._half is None and not last:
                self._half = bits
                return
            bits, self._half = (bits, None) if self._half is None else (self._half | bits << 16, None)
        elif self._index:
            bits = bits & 0xFFFF | self._index
        flags = self._flags
        if self._transform and bits >> 30 == TRANSFORMED:
            bits ^= self._pe.transform_mask << 26
            flags |= CONTROL
        if last and self._advance:
            flags |= ADVANCE_AFTER
        self._pe.inject(self.channel, self.color, bits, flags, now)


class FifoEnd:
    """A FIFO as source or destination. `stops`: what an operation does when it finds too little (None: wait)."""

    gate = True

    def __init__(self, pe: ProcessingElement, fifo: FifoState, is_source: bool, is_async: bool) -> None:
        self._pe = pe
        self.fifo = fifo
        self.is_source = is_source
        action = fifo.config.empty_action if is_source else fifo.config.full_action
        self.action = "wait" if action == "suspend" or (is_async and action == "test_or_suspend") else action
        self.what = f"FIFO {fifo.config.name} ({'empty' if is_source else 'full'})"

    def ready(self, now: int) -> bool:
        return self.fifo.count > 0 if self.is_source else self.fifo.count < self.fifo.capacity

    def note_shortage(self, remaining: int) -> None:
        """Remember how much the operation still needs, for activation by the other side."""
        needs = max(1, min(remaining, self.fifo.capacity))
        if self.is_source:
            self.fifo.pop_needs = needs
        else:
            self.fifo.push_needs = needs

    def get(self, now: int) -> int:
        return self.fifo.pop(self._pe)

    def put(self, bits: int, now: int, last: bool) -> None:
        self.fifo.push(self._pe, bits)


SourceEnd = MemoryEnd | ScalarEnd | PointerEnd | FabricIn | FifoEnd
DestEnd = MemoryEnd | PointerEnd | FabricOut | FifoEnd | NullEnd
