"""Where a run's cycles went: by source line, task, operation and reason of stalls, and what went over the links.

    recorder = ProfileRecorder(program)
    machine = Machine(program, trace=recorder)
    ...
    profile = recorder.profile()

A profile sums up; `trace_recorder` keeps single events. Cycles are those of the main threads unless a name says
otherwise; they are sums over PEs. A *busy* cycle is one in which a task is running, stalled or not. Where a run ends
before its tasks do (a fault, a deadlock, a budget), each counts as a run that lasted until then, and so does the
operation that its main thread waits for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fabrica_bench.csl.ir import EAST, NORTH, RAMP, SOUTH, WEST
from fabrica_bench.wse.pe import ProcessingElement
from fabrica_bench.wse.router import DIRECTION_NAMES

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import Program
    from fabrica_bench.wse.machine import Machine

MAIN_THREAD: Final = -1
_LINKS: Final = (NORTH, SOUTH, EAST, WEST, RAMP)

Place = tuple[str, int]  # file and line


@dataclass(frozen=True)
class TaskCost:
    """Runs of one task or launched function. `kind`: data, local, control or launch."""

    name: str
    kind: str
    runs: int
    cycles: int


@dataclass(frozen=True)
class LineCost:
    """Main-thread cycles of one source line: its scalar code and its synchronous operations with their stalls."""

    file: str
    line: int
    scalar: int
    operations: int

    @property
    def cycles(self) -> int:
        """Both together."""
        return self.scalar + self.operations


@dataclass(frozen=True)
class OperationCost:
    """A DSD operation at one place. `microthread`: it ran beside the main thread; `cycles` last from its start to its
    end, register loads and stalls included."""

    op: str
    file: str
    line: int
    microthread: bool
    count: int
    elements: int
    cycles: int


@dataclass(frozen=True)
class StallCost:
    """Cycles that operations at one place lost. `reason`: empty_queue, full_queue, bank or issue_slot."""

    reason: str
    what: str
    file: str
    line: int
    microthread: bool
    cycles: int


@dataclass(frozen=True)
class LinkUse:
    """Wavelets that left the router of (x, y) in one direction on one color. RAMP: to the PE's own compute element.
    `utilization`: share of the cycles from the program's first to its last event."""

    x: int
    y: int
    direction: str
    color: int
    wavelets: int
    utilization: float


@dataclass(frozen=True)
class PeUse:
    """One PE. `stalled` cycles, of all its threads, may lie within busy ones; `received`, `sent`: wavelets."""

    x: int
    y: int
    busy: int
    stalled: int
    received: int
    sent: int


@dataclass(frozen=True)
class Profile:
    """The profile of a run. Lists are in order of cost, `links` and `pes` in order of place.

    Attributes:
        cycles: from the first task or operation to the last event.
    """

    arch: str
    width: int
    height: int
    cycles: int
    tasks: tuple[TaskCost, ...]
    lines: tuple[LineCost, ...]
    operations: tuple[OperationCost, ...]
    stalls: tuple[StallCost, ...]
    links: tuple[LinkUse, ...]
    pes: tuple[PeUse, ...]

    def stall_totals(self) -> dict[str, int]:
        """Cycles lost by reason."""
        totals: Counter[str] = Counter()
        for stall in self.stalls:
            totals[stall.reason] += stall.cycles
        return dict(totals)

    def color_totals(self) -> dict[int, tuple[int, float]]:
        """By color: wavelets over links between routers, and the utilization of its busiest link."""
        found: dict[int, tuple[int, float]] = {}
        for link in self.links:
            if link.direction != "RAMP":
                wavelets, most = found.get(link.color, (0, 0.0))
                found[link.color] = (wavelets + link.wavelets, max(most, link.utilization))
        return dict(sorted(found.items()))

    def to_record(self) -> dict[str, Any]:
        """For JSON; `profile_from_record` is the way back."""
        return asdict(self)


def profile_from_record(record: dict[str, Any]) -> Profile:
    """A profile that `to_record` wrote.

    Raises:
        KeyError, TypeError: The record is not one.
    """
    kinds = {
        "tasks": TaskCost,
        "lines": LineCost,
        "operations": OperationCost,
        "stalls": StallCost,
        "links": LinkUse,
        "pes": PeUse,
    }
    lists = {name: tuple(kind(**item) for item in record[name]) for name, kind in kinds.items()}
    return Profile(
        arch=str(record["arch"]),
        width=int(record["width"]),
        height=int(record["height"]),
        cycles=int(record["cycles"]),
        **lists,
    )


class _Unfinished(NamedTuple):
    """A task that is running: its cycles so far, up to `end`, and the operation that it waits for, if any."""

    x: int
    y: int
    name: str
    kind: str
    cycles: int
    end: int
    waits: tuple[str, Place, int, int] | None
    """Operation, place, elements so far and cycles so far."""


class ProfileRecorder:
    """A trace sink that sums up. A machine that gets it counts cycles by line, and calls `attach`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._machine: Machine | None = None
        self._first = -1
        self._last = 0
        self._running: dict[tuple[int, int], tuple[int, str, str]] = {}
        self._tasks: Counter[tuple[str, str]] = Counter()
        self._task_runs: Counter[tuple[str, str]] = Counter()
        self._flying: dict[tuple[int, int, int], tuple[int, str, int, int]] = {}
        self._operations: defaultdict[tuple[str, Place, bool], list[int]] = defaultdict(lambda: [0, 0, 0])
        self._line_operations: Counter[Place] = Counter()
        self._in_operations: Counter[tuple[int, int]] = Counter()
        self._stalls: Counter[tuple[str, str, Place, bool]] = Counter()
        self._links: Counter[tuple[int, int, int, int]] = Counter()
        self._busy: Counter[tuple[int, int]] = Counter()
        self._stalled: Counter[tuple[int, int]] = Counter()
        self._received: Counter[tuple[int, int]] = Counter()
        self._sent: Counter[tuple[int, int]] = Counter()
        self._just_started: tuple[int, int, int] | None = None

    def attach(self, machine: Machine) -> None:
        """The machine whose PEs count cycles by line."""
        self._machine = machine

    # ------------------------------------------------------------------------------------------ the sink

    def wavelet(self, cycle: int, x: int, y: int, color: int, direction: int, word: int, control: bool) -> None:
        """Nothing new: `forward` told it."""

    def forward(
        self, cycle: int, x: int, y: int, color: int, port: int, queue: int, mask: int, word: int, control: bool
    ) -> None:
        """Count a wavelet on each link that it leaves by."""
        self._see(cycle)
        for direction in _LINKS:
            if mask & direction:
                self._links[x, y, direction, color] += 1
        if mask & RAMP:
            self._received[x, y] += 1

    def inject(self, cycle: int, x: int, y: int, color: int, queue: int, word: int, control: bool) -> None:
        """Count it."""
        self._sent[x, y] += 1

    def task_start(self, cycle: int, x: int, y: int, name: str, kind: str) -> None:
        """Remember it until it ends."""
        self._see(cycle)
        self._running[x, y] = (cycle, name, kind)

    def task_end(self, cycle: int, x: int, y: int, name: str) -> None:
        """Add its cycles."""
        self._see(cycle)
        start, name, kind = self._running.pop((x, y), (cycle, name, "local"))
        self._tasks[name, kind] += cycle - start
        self._task_runs[name, kind] += 1
        self._busy[x, y] += cycle - start

    def dsd_start(self, cycle: int, x: int, y: int, op: str, length: int, thread: int, loc: int) -> None:
        """Remember it until it ends."""
        self._see(cycle)
        self._flying[x, y, thread] = (cycle, op, length, loc)
        self._just_started = (x, y, thread)

    def dsd_end(self, cycle: int, x: int, y: int, op: str, thread: int) -> None:
        """Add its cycles."""
        # The end of a memory operation comes right after its start and is exclusive; others end within `cycle`.
        end = cycle if self._just_started == (x, y, thread) else cycle + 1
        self._just_started = None
        start, op, length, loc = self._flying.pop((x, y, thread), (end, op, 0, 0))
        place = self._place(x, y, loc)
        entry = self._operations[op, place, thread != MAIN_THREAD]
        entry[0] += 1
        entry[1] += length
        entry[2] += end - start
        if thread == MAIN_THREAD:
            self._line_operations[place] += end - start
            self._in_operations[x, y] += end - start
        self._see(end)

    def stall(self, cycle: int, x: int, y: int, reason: str, what: str, thread: int, loc: int, cycles: int) -> None:
        """Add it."""
        self._just_started = None
        self._stalls[reason, what, self._place(x, y, loc), thread != MAIN_THREAD] += cycles
        self._stalled[x, y] += cycles

    def command(self, text: str, start: int, end: int) -> None:
        """Host commands are outside of the device's time."""

    def _see(self, cycle: int) -> None:
        if self._first < 0 or cycle < self._first:
            self._first = cycle
        if cycle > self._last:
            self._last = cycle

    def _place(self, x: int, y: int, loc: int) -> Place:
        image = self.program.images[self.program.tiles[y][x]]
        file, line, _ = image.locations[loc] if 0 <= loc < len(image.locations) else ("", 0, 0)
        return file or image.file, line

    # ------------------------------------------------------------------------------------------ the result

    def profile(self) -> Profile:
        """What was seen so far."""
        unfinished = [self._unfinished(pe) for pe in self._elements() if (pe.x, pe.y) in self._running]
        last = max([self._last, *(task.end for task in unfinished)])
        cycles = max(last - max(self._first, 0), 0)
        tasks, runs, busy = self._tasks.copy(), self._task_runs.copy(), self._busy.copy()
        for task in unfinished:
            tasks[task.name, task.kind] += task.cycles
            runs[task.name, task.kind] += 1
            busy[task.x, task.y] += task.cycles
        waits = [task.waits for task in unfinished if task.waits is not None]
        return Profile(
            arch=self.program.arch,
            width=self.program.width,
            height=self.program.height,
            cycles=cycles,
            tasks=tuple(TaskCost(name, kind, runs[name, kind], spent) for (name, kind), spent in _by_cost(tasks)),
            lines=self._line_costs(waits),
            operations=self._operation_costs(waits),
            stalls=tuple(
                StallCost(reason, what, place[0], place[1], microthread, spent)
                for (reason, what, place, microthread), spent in _by_cost(self._stalls)
            ),
            links=tuple(
                LinkUse(x, y, DIRECTION_NAMES[direction], color, number, round(number / max(cycles, 1), 4))
                for (x, y, direction, color), number in sorted(self._links.items())
            ),
            pes=tuple(
                PeUse(x, y, busy[x, y], self._stalled[x, y], self._received[x, y], self._sent[x, y])
                for y in range(self.program.height)
                for x in range(self.program.width)
            ),
        )

    def _elements(self) -> list[ProcessingElement]:
        elements = self._machine.elements if self._machine is not None else ()
        return [pe for pe in elements if isinstance(pe, ProcessingElement)]

    def _unfinished(self, pe: ProcessingElement) -> _Unfinished:
        place = pe.x, pe.y
        start, name, kind = self._running[place]
        now = self._machine.fabric.now if self._machine is not None else start
        waits = self._flying.get((*place, MAIN_THREAD))
        waiting = None
        end = pe.t
        if waits is not None:
            begin, op, _, loc = waits
            end = max(now, begin)
            done = sum(flying.count - flying.remaining for flying in pe.ops if flying.thread == MAIN_THREAD)
            waiting = op, self._place(*place, loc), done, end - begin
        elif pe.polled is not None:
            end = max(now, pe.t)
        # A fault stops a task between two places at which it tells its time; what its lines have counted is known.
        counted = sum(pe.line_cycles) + self._in_operations[place] + (waiting[3] if waiting else 0) - self._busy[place]
        cycles = max(end - start, counted)
        return _Unfinished(*place, name, kind, cycles, start + cycles, waiting)

    def _line_costs(self, waits: Iterable[tuple[str, Place, int, int]]) -> tuple[LineCost, ...]:
        operations = self._line_operations.copy()
        for _, place, _, spent in waits:
            operations[place] += spent
        scalar: Counter[Place] = Counter()
        for pe in self._elements():
            for loc, spent in enumerate(pe.line_cycles):
                if spent:
                    scalar[self._place(pe.x, pe.y, loc)] += spent
        places = set(scalar) | set(operations)
        costs = [LineCost(*place, scalar[place], operations[place]) for place in places]
        return tuple(sorted(costs, key=lambda cost: (-cost.cycles, cost.file, cost.line)))

    def _operation_costs(self, waits: Iterable[tuple[str, Place, int, int]]) -> tuple[OperationCost, ...]:
        found = {key: list(entry) for key, entry in self._operations.items()}
        for op, place, elements, spent in waits:
            entry = found.setdefault((op, place, False), [0, 0, 0])
            for position, number in enumerate((1, elements, spent)):
                entry[position] += number
        costs = [OperationCost(op, *place, microthread, *entry) for (op, place, microthread), entry in found.items()]
        return tuple(sorted(costs, key=lambda cost: (-cost.cycles, cost.file, cost.line, cost.op)))


def _by_cost(costs: Counter[Any]) -> list[tuple[Any, int]]:
    """Entries from the most expensive one on; equal ones in order of their keys."""
    return sorted(costs.items(), key=lambda entry: (-entry[1], repr(entry[0])))
