"""Compute element of one PE: main thread, microthreads, task picker.

One `step` is one cycle:

    1. microthreads   at most one operation issues (round robin within the highest priority that is ready); a
                      synchronous operation of the main thread takes part. While the main thread computes, the two
                      share the slot.
    2. main thread    runs segments until it is ahead of the clock (see `executor`), or starts a fabric operation
    3. task picker    with an idle main thread: picks the next runnable id

The element is woken by words that arrive, slots that get free in an output queue, its own plans, and the host.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ir
from fabrica_bench.wse import control, numeric
from fabrica_bench.wse.config_space import CONFIG_START, ConfigSpace
from fabrica_bench.wse.faults import Fault, PePosition, SourceLocation
from fabrica_bench.wse.memory import MEMORY_BYTES, AccessError, PeMemory
from fabrica_bench.wse.queues import FifoState, InputQueue
from fabrica_bench.wse.registers import Dsr, TimestampCounter
from fabrica_bench.wse.router import CONTROL, Channel, Router
from fabrica_bench.wse.tasks import TEARDOWN_TASK, TaskTable, data_arguments

if TYPE_CHECKING:
    from fabrica_bench.wse.executor import ImageCode
    from fabrica_bench.wse.fabric import Fabric
    from fabrica_bench.wse.machine import Machine
    from fabrica_bench.wse.microthread import FabricOp
    from fabrica_bench.wse.streams import StreamFeeder

#: how far a main thread may run ahead of the clock while nothing can interact with it
RUN_AHEAD = 1 << 16
ROUTABLE_COLORS = 24
INPUT_QUEUES = 8
_PRNG_COUNT = 4
_PRNG_START = 0xDEADBEEF & 0x7FFFFF
_MAIN_PRIORITIES = (1, 2, 3, 5)  # between low (0) and medium (2) by default; high is 4
_PRINT_BUFFER = 1024


class State(IntEnum):
    """What the main thread is doing. `t` is when it goes on (RUN, START, END)."""

    IDLE = 0
    RUN = 1  # runs code, or will from cycle t
    START = 2  # starts the fabric operation in `pending` at cycle t
    OPERATION = 3  # stalled by its own synchronous operation
    POLL = 4  # stalled until `polled` is ready
    END = 5  # the task ends at cycle t


class ProcessingElement:
    """See the module's docstring. `t`, `limit`, `sp`, `pending`, `result` belong to the executor's protocol."""

    def __init__(self, machine: Machine, fabric: Fabric, router: Router, code: ImageCode, memory: PeMemory) -> None:
        image = code.image
        self.machine = machine
        self.fabric = fabric
        self.router = router
        router.pe = self
        self.code = code
        self.image = image
        self.memory = memory
        self.x, self.y = router.x, router.y
        self.scheduled = -1
        self.stepped = -1
        costs = fabric.costs
        self._dispatch = costs["task.dispatch"]
        self._end = costs["task.end"]
        self._launch_cost = costs["dsd.launch"]
        self._switch_quarters = round(4 * costs.number("issue.ut_switch"))
        self._alternates = bool(costs["issue.main_alternates"])
        self.is_wse2 = costs.arch == "wse2"
        # main thread
        self.state = State.IDLE
        self.t = 0
        self.limit = 0
        self.sp = image.stack_top or MEMORY_BYTES
        self.stack_floor = image.data_end
        self.loc = 0
        self.task_name = ""
        self.pending: FabricOp | None = None
        self.result = 1
        self.polled: Any = None
        self._activation: Iterator[None] | None = None
        self._calls: deque[tuple[str, tuple[int | float, ...], str]] = deque()
        self._main_priority = _MAIN_PRIORITIES[0]
        # microthreads
        self.ops: list[FabricOp] = []
        self.threads: dict[int, FabricOp] = {}
        self.blocked_threads = 0
        self._free_from = 0
        self._last_op: FabricOp | None = None
        self._switch_debt = 0
        self._main_had_slot = False
        # tasks, queues, registers
        self.tasks = TaskTable(image, ROUTABLE_COLORS if self.is_wse2 else INPUT_QUEUES)
        self.inputs: list[InputQueue] = []
        self._by_color: dict[int, InputQueue] = {}
        self.outputs: dict[int, Channel] = {}
        self.output_colors: dict[int, int] = {}
        self.fifos = [FifoState(config) for config in image.fifos]
        self._dsrs: dict[tuple[str, int], Dsr] = {}
        self.counter = TimestampCounter()
        self.prngs = [_PRNG_START] * _PRNG_COUNT
        self.active_prng = 0
        self.carry = 0
        self.transform_mask = 0x30
        self.config_words = dict(image.config_words)
        self.registers = ConfigSpace(self, self.config_words)
        memory.u16[CONFIG_START] = self.registers
        memory.i16[CONFIG_START] = ConfigSpace(self, self.config_words, signed=True)
        self.flushed = {"input": 0, "output": 0}
        self._flushing_outputs = 0
        self._teardown_pending = 0
        self._print = bytearray()
        self.stream_ready = True
        self._initialize()

    def _initialize(self) -> None:
        image = self.image
        for variable in image.globals.values():
            if variable.init:
                try:
                    self.memory.write(variable.address, variable.init)
                except AccessError as error:
                    raise self.fault(f"variable {variable.name!r} does not fit: {error}", {}) from error
        for queue in image.queues:
            if queue.direction == "input":
                added = self._add_input(queue.queue, queue.color)
                if image.control_table is not None:
                    added.table_offset = queue.ctrl_table_id * image.control_table[1]
            else:
                self.output_colors[queue.queue] = queue.color
        for load in image.dsr_loads:
            self.load_dsr((load.dsr, load.config, load.save_address, load.single_step), *_static_load(load))
        if self.tasks.active:
            self.fabric.wake_pe(self, 0)

    # ------------------------------------------------------------------------------------------ one cycle

    def step(self, now: int) -> None:
        """Execute one cycle."""
        if self.stepped == now:
            return
        self.stepped = now
        try:
            self._step(now)
        except AccessError as error:
            raise self.fault(str(error), {}) from error

    def _step(self, now: int) -> None:
        if self._flushing_outputs:
            self.check_output_flush()
        if self.ops:
            self._issue(now)
        while True:
            state = self.state
            if state == State.RUN:
                if self.t > now:
                    self.fabric.wake_pe(self, self.t)
                    return
                self._resume(now)
            elif state == State.START:
                if self.t > now:
                    self.fabric.wake_pe(self, self.t)
                    return
                self._start_operation(now)
            elif state == State.END:
                if self.t > now:
                    self.fabric.wake_pe(self, self.t)
                    return
                self._finish_task(now)
            elif state == State.POLL:
                if not self.polled.ready(now):
                    return
                self._release_poll()
                self.t = now
                self.state = State.RUN
            elif state == State.IDLE:
                if not self._pick(now):
                    return
            else:
                return

    # ------------------------------------------------------------------------------------------ 1. microthreads

    def _issue(self, now: int) -> None:
        best: FabricOp | None = None
        wake = 0
        for op in self.ops:
            if op.start > now:
                wake = op.start if not wake else min(wake, op.start)
                continue
            if (best is None or op.priority > best.priority) and op.ready(now) and not self._is_held(op):
                best = op
        if best is not None:
            if now < self._free_from:
                wake = self._free_from
            elif self._main_wins(best):
                wake = now + 1
            else:
                self._run_op(best, now)
                wake = max(now + 1, self._free_from)
        else:
            self._watch_queues(now)
        if wake and self.ops:
            self.fabric.wake_pe(self, wake)

    def _is_held(self, op: FabricOp) -> bool:
        return op.thread >= 0 and bool(self.blocked_threads >> op.thread & 1)

    def _main_wins(self, op: FabricOp) -> bool:
        """The main thread and a microthread of lower priority take turns; others go first."""
        if self.state != State.RUN:
            self._main_had_slot = False
            return False
        if op.priority < self._main_priority and self._alternates and not self._main_had_slot:
            self._main_had_slot = True
            return True
        self._main_had_slot = False
        self.t += 1
        return False

    def _run_op(self, op: FabricOp, now: int) -> None:
        if self.fabric.trace is not None and now > op.expected:
            full = "output" in op.blocked_by or "full" in op.blocked_by
            reason = op.blocked_by and ("full_queue" if full else "empty_queue")
            lost = now - op.expected
            self.fabric.trace.stall(now, self.x, self.y, reason or "issue_slot", op.blocked_by, op.thread, op.loc, lost)
        op.blocked_by = ""
        self.loc = op.loc
        op.issue(now)
        self.ops.remove(op)
        if op.done:
            self._complete(op, now)
        else:
            self.ops.append(op)
        if self._last_op is not op and self._last_op in self.ops:
            self._switch_debt += self._switch_quarters
            self._free_from = now + 1 + (self._switch_debt >> 2)
            self._switch_debt &= 3
        self._last_op = op

    def _complete(self, op: FabricOp, now: int) -> None:
        if self.fabric.trace is not None:
            self.fabric.trace.dsd_end(now, self.x, self.y, op.name, op.thread)
        if not op.is_async:
            self.state = State.RUN
            self.t = now + 1
            self.fabric.wake_pe(self, now + 1)

    def _watch_queues(self, now: int) -> None:
        """Nothing can issue: wake up when a word that is on its way down the ramp has arrived."""
        for op in self.ops:
            for end in op.inputs:
                queue = end.queue.queue
                if queue and queue[0][0] > now:
                    self.fabric.wake_pe(self, queue[0][0])

    # ------------------------------------------------------------------------------------------ 2. main thread

    def _resume(self, now: int) -> None:
        self.limit = now if self.ops else now + RUN_AHEAD
        assert self._activation is not None
        try:
            next(self._activation)
        except StopIteration:
            self.state = State.END
            self.t += self._end
            return
        except Exception as error:
            fault = self.code.fault_of(self, error)
            if fault is None:
                raise
            raise fault from error
        if self.pending is not None:
            self.state = State.START
        if self.t > self.fabric.limits.max_cycles or self.t > now + RUN_AHEAD:
            self.fabric.check_wall()

    def _start_operation(self, now: int) -> None:
        op = self.pending
        assert op is not None
        self.pending = None
        self.loc = op.loc
        trace = self.fabric.trace
        op.attach(now)
        if trace is not None:
            trace.dsd_start(now, self.x, self.y, op.name, op.count, op.thread, op.loc)
        if op.is_async:
            self.state = State.RUN
            self.t = op.start + self._launch_cost
            self.result = 1
        elif op.done:
            self.state = State.RUN
            self.t = op.start
        else:
            op.priority = self._main_priority
            self.state = State.OPERATION
        if not op.done:
            self.ops.append(op)
            # The first element may issue in this very cycle only through the next step.
            self.fabric.wake_pe(self, max(op.start, now + 1))
        elif trace is not None:
            trace.dsd_end(now, self.x, self.y, op.name, op.thread)

    def poll(self, end: Any) -> None:
        """Called from `@map`: stall the main thread until a fabric end is ready."""
        self.polled = end
        self.state = State.POLL
        queue = getattr(end, "queue", None)
        if queue is not None:
            queue.watched = True

    def _release_poll(self) -> None:
        queue = getattr(self.polled, "queue", None)
        if queue is not None:
            queue.watched = queue.op is not None
        self.polled = None

    def _finish_task(self, now: int) -> None:
        if self.fabric.trace is not None:
            self.fabric.trace.task_end(now, self.x, self.y, self.task_name)
        self._activation = None
        self.state = State.IDLE
        self.task_name = ""
        self.machine.on_idle(self)

    # ------------------------------------------------------------------------------------------ 3. task picker

    def _pick(self, now: int) -> bool:
        """Start the next task; False if there is none."""
        if self._calls:
            name, args, kind = self._calls.popleft()
            self._begin(name, args, kind, now + (0 if kind == "launch" else self._dispatch))
            return True
        ready = 0
        queues: dict[int, InputQueue] = {}
        for queue in self.inputs:
            if queue.queue and queue.op is None and not queue.watched:
                arrival, word, is_control = queue.queue[0]
                if arrival > now:
                    self.fabric.wake_pe(self, arrival)
                elif not self.tasks.is_blocked(queue.task_id):
                    if is_control and control.entry(word) == control.NO_ENTRY:
                        queue.pop(self, now)
                        self.fabric.wake_pe(self, now + 1)
                    elif is_control or queue.task_id in self.tasks.data:
                        ready |= 1 << queue.task_id
                        queues.setdefault(queue.task_id, queue)
        chosen = self.tasks.pick(ready)
        if chosen < 0:
            return False
        if chosen in queues:
            self._begin_wavelet_task(queues[chosen], now)
            return True
        self.tasks.active &= ~(1 << chosen)
        if chosen in self.tasks.local:
            self._begin(self.tasks.local[chosen], (), "local", now + self._dispatch)
        else:
            self._dispatch_handlers()
        return True

    def _begin_wavelet_task(self, queue: InputQueue, now: int) -> None:
        word, is_control = queue.pop(self, now)
        if is_control:
            entry = control.entry(word) + queue.table_offset
            if entry not in self.tasks.control:
                raise self.fault(
                    f"a control wavelet on {queue.label} names control task {entry}, which is not bound",
                    {"payload": f"{word:#010x}", "entry": entry},
                )
            name, kind = self.tasks.control[entry], "control"
        else:
            name, kind = self.tasks.data_function(queue.task_id), "data"
        function = self.image.functions[name]
        bits = data_arguments(function, word)
        args = tuple(numeric.from_bits(b, type_) for b, type_ in zip(bits, function.registers, strict=False))
        self._begin(name, args, kind, now + self._dispatch)

    def _begin(self, name: str, args: tuple[int | float, ...], kind: str, cycle: int) -> None:
        self.task_name = name
        self._activation = self.code.call(self, name, args)
        self.state = State.RUN
        self.t = cycle
        if self.fabric.trace is not None:
            self.fabric.trace.task_start(cycle, self.x, self.y, name, kind)

    def _dispatch_handlers(self) -> None:
        """The task the compiler would generate for id 29: call the handlers of what happened."""
        pending = self._teardown_pending
        for color, handler in sorted(self.image.teardown_handlers.items()):
            if pending >> color & 1:
                self._teardown_pending &= ~(1 << color)
                self._calls.append((handler, (), "local"))
        for side, queue, handler in self.image.empty_queue_handlers:
            if self.flushed[side] >> queue & 1:
                self._calls.append((handler, (), "local"))

    def launch(self, name: str, args: tuple[int | float, ...], now: int) -> None:
        """The host calls a function; it starts now, or after the running task."""
        self._calls.appendleft((name, args, "launch"))
        self.stream_ready = False
        self.fabric.wake_pe(self, now)

    @property
    def is_idle(self) -> bool:
        """No task runs and no host call waits."""
        return self.state == State.IDLE and not self._calls

    # ------------------------------------------------------------------------------------------ flags

    def activate(self, id_: int) -> None:
        """Set the active flag of a local task."""
        if id_ not in self.tasks.local and id_ != TEARDOWN_TASK:
            raise self.fault(f"local task {id_} is activated, but no task is bound to this id", {"id": id_})
        self.tasks.active |= 1 << id_

    def block(self, space: str, id_: int) -> None:
        """Set a block flag."""
        if space == "ut":
            self.blocked_threads |= 1 << id_
        else:
            self.tasks.blocked |= 1 << (id_ & 31)

    def unblock(self, space: str, id_: int) -> None:
        """Clear a block flag."""
        if space == "ut":
            self.blocked_threads &= ~(1 << id_)
            self.fabric.wake_pe(self, self.fabric.now + 1)
        else:
            self.tasks.blocked &= ~(1 << (id_ & 31))

    def wake(self, wake: ir.Wake, id_: int) -> None:
        """What a completion or a control wavelet asks for."""
        if wake.action == "activate":
            self.activate(id_)
        elif wake.action == "unblock":
            self.unblock(wake.space, id_)

    def set_task_priority(self, id_: int, level: int) -> None:
        """HIGH (1) or LOW (0)."""
        self.tasks.high = self.tasks.high & ~(1 << id_) | (1 << id_ if level else 0)

    def set_main_priority(self, level: int) -> None:
        """Level of the main thread among the microthreads."""
        self._main_priority = _MAIN_PRIORITIES[min(level, len(_MAIN_PRIORITIES) - 1)]

    def on_teardown(self, color: int) -> None:
        """A TEARDOWN command took effect at the router."""
        self._teardown_pending |= 1 << color
        self.activate(TEARDOWN_TASK)
        self.fabric.wake_pe(self, self.fabric.now + 1)

    def take_teardown_pending(self) -> int:
        """Colors torn down since the last call."""
        pending, self._teardown_pending = self._teardown_pending, 0
        return pending

    def unblock_cmd_stream(self) -> None:
        """The host may send the next command."""
        self.stream_ready = True
        self.machine.on_unblock(self, self.fabric.now)

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
        if self.state == State.IDLE or queue.watched:
            self.fabric.wake_pe(self, cycle)

    def input_of(self, dsd: ir.Dsd) -> InputQueue:
        """Queue that a fabin DSD reads."""
        if self.is_wse2:
            color = dsd.color if dsd.color >= 0 else self._color_of_queue(dsd.queue)
            queue = self._by_color.get(color)
            if queue is None:
                queue = self._add_input(dsd.queue, color)
            return queue
        for queue in self.inputs:
            if queue.number == dsd.queue if dsd.queue >= 0 else queue.color == dsd.color:
                return queue
        name = f"input queue {dsd.queue}" if dsd.queue >= 0 else f"color {dsd.color}"
        raise self.fault(f"{name} is read, but @initialize_queue never bound an input queue to it", {})

    def _color_of_queue(self, number: int) -> int:
        for queue in self.inputs:
            if queue.number == number:
                return queue.color
        raise self.fault(f"input queue {number} is read, but it has no color", {"queue": number})

    def claim_queue(self, queue: InputQueue, op: FabricOp) -> None:
        """Attach a fabric operation to an input queue."""
        if queue.op is not None and queue.op is not op:
            other = self._location(queue.op.loc)
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
        return self.channel(number), color

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

    # ------------------------------------------------------------------------------------------ microthreads, DSRs

    def claim_thread(self, number: int, op: FabricOp) -> None:
        """Occupy a microthread."""
        other = self.threads.get(number)
        if other is not None:
            raise self.fault(
                f"microthread {number} is still running @{other.name} ({self._location(other.loc)})", {"ut": number}
            )
        self.threads[number] = op

    def release_thread(self, number: int) -> None:
        """The microthread is free again."""
        self.threads.pop(number, None)

    def free_thread(self) -> int:
        """Lowest microthread that is not running, for operations between FIFOs and memory."""
        return next(number for number in range(64) if number not in self.threads)

    def load_dsr(self, static: tuple[Any, ...], dsd: ir.Dsd, done_id: int, control_id: int) -> None:
        """Fill an explicit DSR."""
        ref, config, save_address, _ = static
        self._dsrs[(ref.file, ref.index)] = Dsr(dsd, config, done_id, control_id, save_address)

    def dsr(self, ref: ir.DsrRef) -> Dsr:
        """Contents of an explicit DSR."""
        dsr = self._dsrs.get((ref.file, ref.index))
        if dsr is None:
            raise self.fault(f"DSR {ref.file} {ref.index} is used before @load_to_dsr", {})
        return dsr

    def add_with_carry(self, a: int, b: int) -> int:
        """16-bit sum with the carry of the previous one."""
        total = a + b + self.carry
        self.carry = total >> 16
        return total & 0xFFFF

    # ------------------------------------------------------------------------------------------ host view, reports

    def export_address(self, id_: int) -> int:
        """Address of the exported variable with this id."""
        for export in self.machine.program.exports:
            if export.id == id_ and export.name in self.image.exports:
                return self.image.globals[self.image.exports[export.name].target].address
        raise self.fault(f"no exported symbol has id {id_} on this PE", {"id": id_})

    def print_bytes(self, data: bytes) -> None:
        """Append to the print buffer; a newline, or a full buffer, ends the line."""
        for byte in data:
            if byte == 10 or len(self._print) >= _PRINT_BUFFER:
                self.machine.log(self.t, self._print)
                self._print.clear()
            if byte != 10:
                self._print.append(byte)

    @property
    def position(self) -> PePosition:
        """Column and row."""
        return PePosition(self.x, self.y)

    def location(self, loc: int) -> SourceLocation:
        """Source place of a location index."""
        if 0 < loc < len(self.image.locations):
            return SourceLocation(*self.image.locations[loc])
        return SourceLocation(self.image.file)

    def _location(self, loc: int) -> str:
        return str(self.location(loc))

    def fault(self, message: str, values: Mapping[str, object]) -> Fault:
        """A fault at the current place."""
        cycle = max(self.t, self.fabric.now) if self.state == State.RUN else self.fabric.now
        return Fault(self.position, self.location(self.loc), self.task_name, message, values, cycle)


def _static_load(load: ir.LoadDsr) -> tuple[ir.Dsd, int, int]:
    """Values of a comptime DSR load."""

    def number(wake: ir.Wake | None) -> int:
        return wake.id.value if wake is not None and isinstance(wake.id, ir.Imm) else 0  # type: ignore[return-value]

    assert isinstance(load.dsd, ir.Imm)
    assert isinstance(load.dsd.value, ir.Dsd)
    return load.dsd.value, number(load.config.on_done), number(load.config.on_control)
