"""Input and output queues of a compute element: binding to colors, delivery, injection, flush and status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabrica_bench.csl import ir
from fabrica_bench.wse.element import ROUTABLE_COLORS, Element
from fabrica_bench.wse.memory import PeMemory
from fabrica_bench.wse.queues import InputQueue
from fabrica_bench.wse.router import CONTROL, Channel, Router
from fabrica_bench.wse.tasks import TEARDOWN_TASK

if TYPE_CHECKING:
    from fabrica_bench.wse.executor import ImageCode
    from fabrica_bench.wse.fabric import Fabric
    from fabrica_bench.wse.machine import Machine
    from fabrica_bench.wse.microthread import FabricOp
    from fabrica_bench.wse.streams import StreamFeeder


class Ports(Element):
    """An element with its queues. `listening`: words that arrive for no running operation are of interest."""

    def __init__(self, machine: Machine, fabric: Fabric, router: Router, code: ImageCode, memory: PeMemory) -> None:
        super().__init__(machine, fabric, router, code, memory)
        self.inputs: list[InputQueue] = []
        self._by_color: dict[int, InputQueue] = {}
        self.outputs: dict[int, Channel] = {}
        self.output_colors: dict[int, int] = {}
        self.flushed = {"input": 0, "output": 0}
        self._flushing_outputs = 0
        self.listening = True
        table = self.image.control_table
        for queue in self.image.queues:
            if queue.direction == "output":
                self.output_colors[queue.queue] = queue.color
                continue
            added = self._add_input(queue.queue, queue.color)
            if table is not None:
                added.table_offset = queue.ctrl_table_id * table[1]

    # ------------------------------------------------------------------------------------------ input queues

    def _add_input(self, number: int, color: int) -> InputQueue:
        costs = self.fabric.costs
        depths = costs.by_queue("fabric.input_queue_depth")
        depth = depths[number] if 0 <= number < len(depths) else costs["fabric.implicit_queue_depth"]
        task_id = color if self.is_wse2 else number
        queue = InputQueue(number, color, depth + costs["fabric.input_queue_extra"], task_id)
        self.inputs.append(queue)
        self._by_color[color] = queue
        return queue

    def queue_for(self, color: int) -> InputQueue | None:
        """Queue that takes this color's words; on WSE-2 a color without a queue gets one of its own."""
        queue = self._by_color.get(color)
        if queue is None and self.is_wse2:
            queue = self._add_input(-1, color)
        return queue

    def can_receive(self, color: int, feeder: StreamFeeder | None = None) -> bool:
        """Room for one more word of this color. If not, the asker is woken when there is."""
        queue = self.queue_for(color)
        if queue is None:
            return False
        if len(queue.queue) < queue.capacity:
            return True
        if feeder is not None:
            queue.feeder = feeder
        else:
            queue.router_waits = True
        return False

    def receive(self, color: int, cycle: int, word: int, is_control: int) -> None:
        """A word that can be used from `cycle` on."""
        queue = self._by_color[color]
        queue.queue.append((cycle, word, is_control))
        if self.listening or queue.watched:
            self.fabric.wake_pe(self, cycle)

    def input_of(self, dsd: ir.Dsd) -> InputQueue:
        """Queue that a fabin DSD reads."""
        if self.is_wse2:
            color = dsd.color if dsd.color >= 0 else self._color_of_queue(dsd.queue)
            self._check_color(color)
            queue = self._by_color.get(color)
            if queue is None:
                queue = self._add_input(dsd.queue, color)
            return queue
        for queue in self.inputs:
            if queue.number == dsd.queue if dsd.queue >= 0 else queue.color == dsd.color:
                return queue
        if dsd.queue >= 0:
            missing = f"input queue {dsd.queue} is read, but no @initialize_queue of this PE gives it a color"
        else:
            missing = f"color {dsd.color} is read, but no @initialize_queue of this PE gives it an input queue"
        raise self.fault(missing, {})

    def _color_of_queue(self, number: int) -> int:
        for queue in self.inputs:
            if queue.number == number:
                return queue.color
        raise self.fault(f"input queue {number} is read, but it has no color", {"queue": number})

    def claim_queue(self, queue: InputQueue, op: FabricOp) -> None:
        """Attach a fabric operation to an input queue."""
        if queue.op is not None and queue.op is not op:
            other = self.describe(queue.op.loc)
            raise self.fault(f"{queue.label} is still used by @{queue.op.name} ({other})", {})
        queue.op = op
        queue.watched = True

    def release_queue(self, queue: InputQueue) -> None:
        """The operation is over."""
        queue.op = None
        queue.watched = False

    # ------------------------------------------------------------------------------------------ output queues

    def output_of(self, dsd: ir.Dsd) -> tuple[Channel, int]:
        """Output queue and color of a fabout DSD."""
        number = max(dsd.queue, 0)
        color = dsd.color
        if not self.is_wse2:
            color = self.output_colors.get(number, color)
        if color < 0:
            raise self.fault(f"output queue {number} has no color; call @initialize_queue for it", {"queue": number})
        self._check_color(color)
        channel = self.channel(number)
        channel.loc, channel.sent_color = self.loc, color
        return channel, color

    def _check_color(self, color: int) -> None:
        if color >= ROUTABLE_COLORS:
            raise self.fault(
                f"there is no color {color}: the last one that can be routed is {ROUTABLE_COLORS - 1}", {"color": color}
            )

    def claim_output(self, channel: Channel, op: FabricOp) -> None:
        """Attach a fabric operation to an output queue."""
        other = channel.op
        if other is not None and other is not op:
            raise self.fault(
                f"output queue {channel.queue_id} is still used by @{other.name} ({self.describe(other.loc)})",
                {"queue": channel.queue_id},
            )
        channel.op = op

    def channel(self, number: int) -> Channel:
        """The output queue's channel into the router."""
        channel = self.outputs.get(number)
        if channel is None:
            costs = self.fabric.costs
            depths = costs.by_queue("fabric.output_queue_depth")
            if not 0 <= number < len(depths):
                raise self.fault(f"there is no output queue {number}: the last one is {len(depths) - 1}", {})
            depth = depths[number] + costs["fabric.output_queue_extra"]
            channel = self.outputs[number] = Channel(self.router, ir.RAMP, -1, depth, number)
        return channel

    def inject(self, channel: Channel, color: int, word: int, flags: int, now: int) -> None:
        """Put a word in an output queue; the router sees it after the ramp."""
        color = self.router.ramp_color(color)
        self.router.put(channel, (now + 1 + self.fabric.ramp, word, flags, color))
        if self.fabric.trace is not None:
            self.fabric.trace.inject(now, self.x, self.y, color, channel.queue_id, word, bool(flags & CONTROL))

    # ------------------------------------------------------------------------------------------ queue maintenance

    def queue_status(self, side: str) -> int:
        """Empty bits in the low byte, full bits in the high byte; absent queues are empty."""
        empty, full = 0xFF, 0
        if side == "input":
            levels = [(queue.number, len(queue.queue), queue.capacity) for queue in self.inputs if queue.number >= 0]
        else:
            levels = [(number, len(channel.queue), channel.depth) for number, channel in self.outputs.items()]
        for number, used, depth in levels:
            if used:
                empty &= ~(1 << number)
            if used >= depth:
                full |= 1 << number
        return empty | full << 8

    def flush_queue(self, side: str, number: int) -> None:
        """Activate the teardown task once the queue is empty."""
        if side == "output":
            self._flushing_outputs |= 1 << number
            self.check_output_flush()
            return
        for queue in self.inputs:
            if queue.number == number:
                queue.flushing = True
                if not queue.queue:
                    self.note_flush("input", queue)
                return
        self._flush_done("input", number)

    def check_output_flush(self) -> None:
        """Note the output queues being flushed that are empty now."""
        for number in range(8):
            if self._flushing_outputs >> number & 1:
                channel = self.outputs.get(number)
                if channel is None or not channel.queue:
                    self._flushing_outputs &= ~(1 << number)
                    self._flush_done("output", number)
                else:
                    channel.feeder_waits = True

    def note_flush(self, side: str, queue: InputQueue) -> None:
        """An input queue being flushed has become empty."""
        queue.flushing = False
        self._flush_done(side, queue.number)

    def _flush_done(self, side: str, number: int) -> None:
        self.flushed[side] |= 1 << number
        self.activate(TEARDOWN_TASK)
        self.fabric.wake_pe(self, self.fabric.now + 1)

    def rebind_queue(self, side: str, number: int, color: int) -> None:
        """Bind a queue to another color; it must be empty."""
        if side == "output":
            channel = self.outputs.get(number)
            if channel is not None and channel.queue:
                raise self.fault(
                    f"output queue {number} is bound to another color while it holds {len(channel.queue)} word(s)", {}
                )
            self.output_colors[number] = color
            return
        for queue in self.inputs:
            if queue.number == number:
                if queue.queue:
                    raise self.fault(
                        f"input queue {number} is bound to another color while it holds {len(queue.queue)} word(s)", {}
                    )
                self._by_color.pop(queue.color, None)
                queue.color = color
                self._by_color[color] = queue
                break
        else:
            self._add_input(number, color)
        self.fabric.wake_router(self.router, self.fabric.now + 1)
