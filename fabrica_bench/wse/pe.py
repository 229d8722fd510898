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
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from fabrica_bench.wse import control, intrinsics, numeric, traffic
from fabrica_bench.wse.memory import AccessError, PeMemory
from fabrica_bench.wse.ports import Ports
from fabrica_bench.wse.queues import InputQueue
from fabrica_bench.wse.router import Router
from fabrica_bench.wse.tasks import data_arguments

if TYPE_CHECKING:
    from fabrica_bench.wse.executor import ImageCode
    from fabrica_bench.wse.fabric import Fabric
    from fabrica_bench.wse.machine import Machine
    from fabrica_bench.wse.microthread import FabricOp

#: how far a main thread may run ahead of the clock while nothing can interact with it
RUN_AHEAD = 1 << 16
_MAIN_PRIORITIES = (1, 2, 3, 5)  # between low (0) and medium (2) by default; high is 4


class State(IntEnum):
    """What the main thread is doing. `t` is when it goes on (RUN, START, END)."""

    IDLE = 0
    RUN = 1  # runs code, or will from cycle t
    START = 2  # starts the fabric operation in `pending` at cycle t
    OPERATION = 3  # stalled by its own synchronous operation
    POLL = 4  # stalled until `polled` is ready
    END = 5  # the task ends at cycle t


class ProcessingElement(Ports):
    """See the module's docstring. `t`, `limit`, `sp`, `pending`, `result` belong to the executor's protocol."""

    def __init__(self, machine: Machine, fabric: Fabric, router: Router, code: ImageCode, memory: PeMemory) -> None:
        super().__init__(machine, fabric, router, code, memory)
        router.pe = self
        costs = fabric.costs
        self._dispatch = costs["task.dispatch"]
        self._redispatch = costs["task.redispatch"]
        self._launch_start = costs["task.launch"]
        self._end = costs["task.end"]
        self._launch_cost = costs["dsd.launch"]
        self._switch_quarters = round(4 * costs.number("issue.ut_switch"))
        self._alternates = bool(costs["issue.main_alternates"])
        # main thread
        self.state = State.IDLE
        self.limit = 0
        self.pending: FabricOp | None = None
        self.polled: Any = None
        self._activation: Iterator[None] | None = None
        self._calls: deque[tuple[str, tuple[int | float, ...], str]] = deque()
        self._main_priority = _MAIN_PRIORITIES[0]
        # microthreads
        self.ops: list[FabricOp] = []
        self.threads: dict[int, FabricOp] = {}
        self._last_op: FabricOp | None = None
        self._free_from = 0
        self._switch_debt = 0  # quarters of a cycle
        self._main_had_slot = False
        self._task_ended = -1
        self._issued = -1  # the last cycle in which an operation issued
        # for reports
        self.ran: set[str] = set()
        self.last_task = ""
        for name, arguments in self.image.settings:
            intrinsics.INTRINSIC_TABLE[name].run(self, *arguments)
        if self.tasks.active:
            fabric.wake_pe(self, 0)

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
        self._issued = self.clock.issued = now
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
        before = self.t
        try:
            next(self._activation)
        except StopIteration:
            self.machine.busy += self.t - before
            self.state = State.END
            self.clock.ended = self.t
            self.t += self._end
            return
        except Exception as error:
            fault = self.code.fault_of(self, error)
            if fault is None:
                raise
            raise fault from error
        self.machine.busy += self.t - before
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
            start = op.start
            self.ops.append(op)
            if self.state == State.OPERATION and start <= now and self._issued < now:
                self._issue(now)  # its registers are loaded and the slot is free: the first element goes at once
            self.fabric.wake_pe(self, max(start, now + 1))
        elif trace is not None:
            trace.dsd_end(now, self.x, self.y, op.name, op.thread)

    def place(self) -> int:
        """Source location of the main thread, for reports; 0 if unknown."""
        if self._activation is None:
            return 0
        return self.code.place_of(self._activation) or self.loc

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
        self._task_ended = now
        self.listening = True
        self.last_task, self.task_name = self.task_name, ""
        self.machine.on_idle(self)

    # ------------------------------------------------------------------------------------------ 3. task picker

    def _pick(self, now: int) -> bool:
        """Start the next task; False if there is none."""
        if self._calls:
            name, args, kind = self._calls.popleft()
            self._begin(name, args, kind, now + (self._launch_start if kind == "launch" else self._start_cost(now)))
            return True
        if self.tasks.due:
            self.tasks.activate_due(now)
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
        self.tasks.take(chosen, now)
        if chosen in self.tasks.local:
            self._begin(self.tasks.local[chosen], (), "local", now + self._start_cost(now))
        else:
            self._dispatch_handlers()
        return True

    def _start_cost(self, now: int) -> int:
        """Cycles until a task that is picked now starts. Right behind another it was picked while that one ended."""
        return self._redispatch if now == self._task_ended else self._dispatch

    def _begin_wavelet_task(self, queue: InputQueue, now: int) -> None:
        word, is_control = queue.pop(self, now)
        if is_control:
            entry = control.entry(word) + queue.table_offset
            if entry not in self.tasks.control:
                raise traffic.blame_sender(
                    traffic.feeding(self.router, queue.color),
                    self,
                    f"a control wavelet on {queue.label} names control task {entry}, which is not bound",
                    {"payload": f"{word:#010x}", "entry": entry},
                )
            name, kind = self.tasks.control[entry], "control"
        else:
            name, kind = self.tasks.data_function(queue.task_id), "data"
        function = self.image.functions[name]
        bits = data_arguments(function, word)
        args = tuple(numeric.from_bits(b, type_) for b, type_ in zip(bits, function.registers, strict=False))
        self._begin(name, args, kind, now + self._start_cost(now))

    def _begin(self, name: str, args: tuple[int | float, ...], kind: str, cycle: int) -> None:
        self.task_name = name
        self.ran.add(name)
        self._activation = self.code.call(self, name, args)
        self.state = State.RUN
        self.listening = False
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

    # ------------------------------------------------------------------------------------------ microthreads

    def set_main_priority(self, level: int) -> None:
        """Level of the main thread among the microthreads."""
        self._main_priority = _MAIN_PRIORITIES[min(level, len(_MAIN_PRIORITIES) - 1)]

    def claim_thread(self, number: int, op: FabricOp) -> None:
        """Occupy a microthread."""
        other = self.threads.get(number)
        if other is not None:
            remedy = "a queue of another number" if self.is_wse2 else "another .ut_id"
            raise self.fault(
                f"microthread {number} is still running @{other.name} ({self.describe(other.loc)}): start this when "
                f"that has ended, or give one of them {remedy}",
                {"ut": number},
            )
        self.threads[number] = op

    def release_thread(self, number: int) -> None:
        """The microthread is free again."""
        self.threads.pop(number, None)

    def free_thread(self) -> int:
        """Lowest microthread that is not running, for operations between FIFOs and memory."""
        return next(number for number in range(64) if number not in self.threads)
