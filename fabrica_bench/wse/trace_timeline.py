"""The events of a recorded run as intervals: tasks, DSD operations and stalls with start and end, and wavelets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from fabrica_bench.wse.trace_recorder import (
    Forward,
    HostCommand,
    Inject,
    OpEnd,
    OpStart,
    Stall,
    TaskEnd,
    TaskStart,
)

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import Program
    from fabrica_bench.wse.trace_recorder import TraceRecorder

MAIN_THREAD: Final = -1

_QUEUE: Final = re.compile(r"queue (?P<queue>\d+) \(color (?P<color>\d+)\)")
_COLOR: Final = re.compile(r"color (?P<color>\d+)")


class SpanKind(StrEnum):
    TASK = "task"
    OP = "op"
    STALL = "stall"


class Span(NamedTuple):
    """One interval of one thread of one PE, cycles `start` to `end` (exclusive).

    `thread` is -1 for the main thread, else a microthread. `detail` is the kind of a task, the length of an operation
    in words, or the queue that a stall waited for. `finished` is false if the run, or the trace, ended first.
    """

    kind: SpanKind
    x: int
    y: int
    start: int
    end: int
    thread: int
    name: str
    detail: str
    loc: int
    finished: bool


@dataclass
class Timeline:
    """Everything that an exporter needs. Lists are in the order of the events."""

    program: Program
    spans: list[Span] = field(default_factory=list)
    injections: list[Inject] = field(default_factory=list)
    forwards: list[Forward] = field(default_factory=list)
    commands: list[HostCommand] = field(default_factory=list)
    first_cycle: int = 0
    last_cycle: int = 0
    truncated_at: int | None = None

    def place(self, span: Span) -> str:
        """`file:line` of a span, empty if unknown."""
        image = self.program.images[self.program.tiles[span.y][span.x]]
        if not 0 < span.loc < len(image.locations):
            return ""
        file, line, _ = image.locations[span.loc]
        return f"{file}:{line}"


def build_timeline(recorder: TraceRecorder) -> Timeline:
    """Pair starts with ends. What never ended is closed at the last cycle; what began before the window, at its
    start."""
    return _Builder(recorder).build()


class _Builder:
    def __init__(self, recorder: TraceRecorder) -> None:
        self.recorder = recorder
        first, last = recorder.window.cycles
        end = recorder.truncated_at if recorder.truncated_at is not None else recorder.last_cycle
        self.line = Timeline(
            recorder.program, first_cycle=first, last_cycle=min(last, end), truncated_at=recorder.truncated_at
        )
        self.tasks: dict[tuple[int, int], TaskStart] = {}
        self.ops: dict[tuple[int, int, int], OpStart] = {}

    def build(self) -> Timeline:
        line = self.line
        for event in self.recorder.events():
            match event:
                case Forward():
                    line.forwards.append(event)
                case Inject():
                    line.injections.append(event)
                case TaskStart():
                    self.tasks[event.x, event.y] = event
                case TaskEnd():
                    start = self.tasks.pop((event.x, event.y), None)
                    self._task(
                        start or TaskStart(line.first_cycle, event.x, event.y, event.name, ""), event.cycle, True
                    )
                case OpStart():
                    self.ops[event.x, event.y, event.thread] = event
                case OpEnd():
                    key = (event.x, event.y, event.thread)
                    begun = self.ops.pop(key, None)
                    self._op(
                        begun or OpStart(line.first_cycle, *key[:2], event.op, 0, event.thread, 0), event.cycle, True
                    )
                case Stall():
                    self._stall(event)
                case HostCommand():
                    line.commands.append(event)
        for task in self.tasks.values():
            self._task(task, max(line.last_cycle, task.cycle), False)
        for op in self.ops.values():
            self._op(op, max(line.last_cycle, op.cycle), False)
        return line

    def _task(self, start: TaskStart, end: int, finished: bool) -> None:
        cycle, x, y, name, kind = start
        image = self.line.program.images[self.line.program.tiles[y][x]]
        function = image.functions.get(name)
        loc = function.loc if function is not None else 0
        self.line.spans.append(Span(SpanKind.TASK, x, y, cycle, end, MAIN_THREAD, name, kind, loc, finished))

    def _op(self, start: OpStart, end: int, finished: bool) -> None:
        cycle, x, y, op, length, thread, loc = start
        self.line.spans.append(Span(SpanKind.OP, x, y, cycle, end, thread, op, str(length), loc, finished))

    def _stall(self, event: Stall) -> None:
        start = max(event.cycle - event.cycles, self.line.first_cycle)
        self.line.spans.append(
            Span(
                SpanKind.STALL,
                event.x,
                event.y,
                start,
                event.cycle,
                event.thread,
                event.reason,
                event.what,
                event.loc,
                True,
            )
        )


def queue_and_color(what: str) -> tuple[int | None, int | None]:
    """Numbers of the queue and the color that a stall's text names, as far as it does."""
    found = _QUEUE.search(what)
    if found:
        return int(found["queue"]), int(found["color"])
    color = _COLOR.search(what)
    return None, int(color["color"]) if color else None
