"""Input queues and FIFOs of a compute element."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from fabrica_bench.csl.ir import Fifo
from fabrica_bench.wse.memory import PeMemory

if TYPE_CHECKING:
    from fabrica_bench.wse.microthread import FabricOp
    from fabrica_bench.wse.pe import ProcessingElement
    from fabrica_bench.wse.streams import StreamFeeder


class InputQueue:
    """Words that arrived for one color. `number` is the queue id, -1 for the implicit queue of a WSE-2 color.

    `task_id` is the id whose block flag and data task govern the queue: the color on WSE-2, the queue on WSE-3.
    `table_offset` is added to the entry of control wavelets (a control task table of its own, WSE-3).
    """

    __slots__ = (
        "capacity",
        "color",
        "feeder",
        "flushing",
        "number",
        "op",
        "queue",
        "router_waits",
        "table_offset",
        "task_id",
        "watched",
    )

    def __init__(self, number: int, color: int, capacity: int, task_id: int) -> None:
        self.number = number
        self.color = color
        self.capacity = capacity
        self.task_id = task_id
        self.queue: deque[tuple[int, int, int]] = deque()
        self.op: FabricOp | None = None
        self.watched = False
        self.flushing = False
        self.router_waits = False
        self.table_offset = 0
        self.feeder: StreamFeeder | None = None

    @property
    def label(self) -> str:
        """How reports name it."""
        return f"input queue {self.number} (color {self.color})" if self.number >= 0 else f"color {self.color}"

    def head_ready(self, now: int) -> bool:
        """A word is there and has come down the ramp."""
        return bool(self.queue) and self.queue[0][0] <= now

    def pop(self, pe: ProcessingElement, now: int) -> tuple[int, int]:
        """Take (word, control flag)."""
        _, word, control = self.queue.popleft()
        if self.router_waits:
            self.router_waits = False
            pe.fabric.wake_router(pe.router, now + 1)
        if self.feeder is not None:
            feeder, self.feeder = self.feeder, None
            feeder.wake(now + 1)
        if self.flushing and not self.queue:
            pe.note_flush("input", self)
        return word, control


class FifoState:
    """A FIFO in PE memory. `read_length`, `write_length`: per-operation lengths, 0 means "from the other operand"."""

    __slots__ = (
        "capacity",
        "config",
        "count",
        "head",
        "pop_needs",
        "push_needs",
        "read_length",
        "write_length",
    )

    def __init__(self, config: Fifo) -> None:
        self.config = config
        self.capacity = config.capacity
        self.count = 0
        self.head = 0
        self.read_length = 0
        self.write_length = 0
        self.pop_needs = 0
        self.push_needs = 0

    def push(self, pe: ProcessingElement, bits: int) -> None:
        """Append an element; wakes the pop that found too little, if this completes what it needs."""
        config = self.config
        place = (self.head + self.count) % self.capacity
        _memory(pe).write_int(config.address + place * config.element_bytes, bits, config.element_bytes)
        self.count += 1
        if self.pop_needs and self.count >= self.pop_needs:
            self.pop_needs = 0
            if config.activate_push >= 0:
                pe.activate(config.activate_push)

    def pop(self, pe: ProcessingElement) -> int:
        """Take the oldest element; wakes the push that found too little room, if this completes what it needs."""
        config = self.config
        bits = _memory(pe).read_int(config.address + self.head * config.element_bytes, config.element_bytes)
        self.head = (self.head + 1) % self.capacity
        self.count -= 1
        if self.push_needs and self.capacity - self.count >= self.push_needs:
            self.push_needs = 0
            if config.activate_pop >= 0:
                pe.activate(config.activate_pop)
        return bits


def _memory(pe: ProcessingElement) -> PeMemory:
    return pe.memory
