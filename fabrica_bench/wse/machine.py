"""A simulated machine that runs one compiled program under host commands.

    machine = Machine(program)
    handle = machine.submit(Launch("main"))
    machine.wait(handle)

memcpy is modelled directly (its command protocol is not public): commands begin strictly in order of submission. A copy
waits until every PE takes commands and no task runs; a launch begins on all PEs in the same cycle and ends when the
last one called `unblock_cmd_stream`. Consecutive streams overlap; a stream to the device whose words nobody takes
counts as buffered once nothing else can advance.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import numpy as np

from fabrica_bench.csl import ir
from fabrica_bench.wse import numeric
from fabrica_bench.wse.commands import (
    Command,
    CopyIn,
    CopyOut,
    Handle,
    Launch,
    LaunchWindow,
    Limits,
    StreamIn,
    StreamOut,
)
from fabrica_bench.wse.costs import load_costs
from fabrica_bench.wse.deadlock import busy, explain
from fabrica_bench.wse.evidence import CLOCK_FIELDS, Activity, HeldWords, Readback
from fabrica_bench.wse.extents import Extents
from fabrica_bench.wse.fabric import Fabric
from fabrica_bench.wse.faults import BudgetExceeded, Deadlock, DeadlockReport, Fault, SourceLocation, StuckWavelets
from fabrica_bench.wse.leftovers import Leftover, leftovers
from fabrica_bench.wse.memory import AccessError, Arena, PeMemory
from fabrica_bench.wse.pe import ProcessingElement
from fabrica_bench.wse.profile import ProfileRecorder
from fabrica_bench.wse.reference import CALL_DEPTH, ReferenceExecutor
from fabrica_bench.wse.router import OFFSETS, Router
from fabrica_bench.wse.streams import StreamFeeder, StreamSink

if TYPE_CHECKING:
    from fabrica_bench.wse.element import Element
    from fabrica_bench.wse.executor import Executor
    from fabrica_bench.wse.trace import TraceSink

__all__ = ["Machine"]


#: PEs that the reference executor takes; each is some 60 KB of objects.
REFERENCE_PES = 65_536


def check_size(program: ir.Program, most: int) -> None:
    """Raise BudgetExceeded for a rectangle of more than `most` PEs."""
    if program.width * program.height > most:
        raise BudgetExceeded(
            f"the rectangle of {program.width} by {program.height} PEs is too large to simulate: at most {most} PEs"
        )


class Machine:
    """See the module's docstring.

    Attributes:
        program: the compiled program.
        sim_log: lines `@<cycle> text` printed by the PEs, in order of cycles.
        launch_windows: one entry per finished launch.
    """

    def __init__(
        self,
        program: ir.Program,
        *,
        limits: Limits | None = None,
        trace: TraceSink | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.program = program
        self.costs = load_costs(program.arch)
        self.limits = limits or Limits()
        self.fabric = Fabric(self.costs, self.limits, trace, takes_strays=program.memcpy)
        self.launch_windows: list[LaunchWindow] = []
        self.activity: list[Activity] = []
        self.readbacks: list[Readback] = []
        self.busy = 0
        self.extents = Extents()
        self._log: list[tuple[int, str]] = []
        self._lost_lines = 0
        self._pending: deque[Handle] = deque()
        self._running: list[Handle] = []
        self._feeders: dict[tuple[int, int, int], StreamFeeder] = {}
        self._not_ready = 0
        self._poked = False
        by_line = isinstance(trace, ProfileRecorder)
        self._build(executor or ReferenceExecutor(by_line))
        if isinstance(trace, ProfileRecorder):
            trace.attach(self)

    def _build(self, executor: Executor) -> None:
        program = self.program
        check_size(program, self.limits.max_pes or REFERENCE_PES)
        arena = Arena(program.width * program.height)
        codes = [executor.prepare(image, self.costs, program.fp16) for image in program.images]
        self.elements: list[ProcessingElement] = []
        routers: dict[tuple[int, int], Router] = {}
        for y in range(program.height):
            for x in range(program.width):
                routers[x, y] = Router(self.fabric, x, y, program.colors[y][x])
        for (x, y), router in routers.items():
            for direction, (dx, dy) in OFFSETS.items():
                neighbor = routers.get((x + dx, y + dy))
                if neighbor is not None:
                    router.neighbors[direction] = neighbor
        for (x, y), router in routers.items():
            memory = PeMemory(arena.slice(y * program.width + x))
            code = codes[program.tiles[y][x]]
            self.elements.append(ProcessingElement(self, self.fabric, router, code, memory))
            for color, way in program.stream_colors.items():
                if way == "d2h":
                    router.color_state(color).sink = StreamSink(self.fabric, router)

    # ------------------------------------------------------------------------------------------ public state

    @property
    def cycle(self) -> int:
        """The clock."""
        return self.fabric.now

    @property
    def sim_log(self) -> list[str]:
        """Printed lines, in order of cycles."""
        lines = [f"@{cycle} {text}" for cycle, text in sorted(self._log, key=lambda entry: entry[0])]
        return [*lines, f"... and {self._lost_lines} more lines, which were not kept"] if self._lost_lines else lines

    @property
    def busy_cycles(self) -> int:
        """Cycles that main threads spent executing code and memory operations, over all PEs."""
        return self.busy

    def clocks(self) -> dict[str, list[int]]:
        """The fields of `PeClock`, each for all PEs row by row."""
        return {name: [getattr(pe.clock, name) for pe in self.elements] for name in CLOCK_FIELDS}

    def _note(self, kind: Literal["copy", "launch"], name: str, now: int) -> None:
        self.activity.append(Activity(kind, name, now, self.busy_cycles, self._last_issue()))

    def _last_issue(self) -> int:
        return max(pe.clock.issued for pe in self.elements)

    def _held(self, x: int, y: int) -> HeldWords | None:
        """What the PE held when it last read the counter, None when it never did."""
        return self.pe(x, y).held

    def _at_work(self, x: int, y: int) -> int:
        """Until which cycle the PE was at work."""
        clock = self.pe(x, y).clock
        return max(clock.ended, clock.issued)

    def pe(self, x: int, y: int) -> ProcessingElement:
        """The PE in column `x` and row `y` of the program rectangle."""
        if not (0 <= x < self.program.width and 0 <= y < self.program.height):
            raise self._host_fault(f"PE({x},{y}) is outside the {self.program.width}x{self.program.height} rectangle")
        return self.elements[y * self.program.width + x]

    def find_global(self, x: int, y: int, name: str) -> ir.Global | None:
        """A variable of the PE's program by name, or None."""
        return self.pe(x, y).image.globals.get(name)

    def read_symbol(self, x: int, y: int, name: str) -> bytes:
        """Bytes of a variable."""
        variable = self.find_global(x, y, name)
        if variable is None:
            raise self._host_fault(f"PE({x},{y}) has no variable {name!r}")
        return self.pe(x, y).memory.read(variable.address, variable.size)

    # ------------------------------------------------------------------------------------------ host commands

    def submit(self, command: Command) -> Handle:
        """Queue a command; it runs while `wait` or `drain` advance time.

        Raises:
            Fault: unknown symbol or function, wrong number of arguments, region or data of the wrong shape.
        """
        self._check(command)
        handle = Handle(command)
        self._pending.append(handle)
        self._poke()
        return handle

    def wait(self, handle: Handle) -> None:
        """Advance time until the command is done.

        Raises:
            Fault, Deadlock, BudgetExceeded: see `faults`.
        """
        with self._watched():
            while not handle.done:
                self._advance()

    def drain(self) -> None:
        """Finish all commands, then let the PEs run until nothing happens any more, at most `Limits.drain_cycles`."""
        with self._watched():
            while self._pending or self._running:
                self._advance()
            end = self.fabric.now + self.limits.drain_cycles
            while not self.fabric.is_idle and self.fabric.now < end:
                self.fabric.run_cycle()

    def leftovers(self) -> list[Leftover]:
        """Wavelets that nobody took; none while something still happens."""
        return self._undelivered() + leftovers(self.elements) if self.fabric.is_idle else []

    def _undelivered(self) -> list[Leftover]:
        return [
            Leftover(feeder.pe.position, color, len(feeder.words), "the host's stream")
            for (_, _, color), feeder in self._feeders.items()
            if feeder.words
        ]

    def _advance(self) -> None:
        if self.fabric.is_idle:
            self._unstick()
        else:
            self.fabric.run_cycle()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Count wall time; say what the PEs were doing when a budget ran out."""
        self.fabric.start_clock()
        recursion = sys.getrecursionlimit()
        sys.setrecursionlimit(max(recursion, CALL_DEPTH))
        try:
            yield
        except BudgetExceeded as error:
            raise BudgetExceeded("\n".join([str(error), *busy(self.elements)])) from None
        finally:
            sys.setrecursionlimit(recursion)

    def _unstick(self) -> None:
        """Nobody can advance: count undelivered input as buffered, or give up."""
        buffered = [handle for handle in self._running if isinstance(handle.command, StreamIn)]
        for handle in buffered:
            self._finish(handle, self.fabric.now)
        if not buffered:
            raise Deadlock(self._report())

    def _report(self) -> DeadlockReport:
        current = self._running or list(self._pending)
        command = current[0].command if current else None
        unready = [pe.position for pe in self.elements if not pe.stream_ready]
        waiting = [
            StuckWavelets(feeder.pe.position, color, len(feeder.words), "the host's stream", "nobody takes them")
            for (_, _, color), feeder in self._feeders.items()
            if feeder.words
        ]
        queued = {item.command.color: item.command for item in self._pending if isinstance(item.command, StreamIn)}
        text = self._host_wait(command, bool(self._running))
        later = {color: _describe(item) for color, item in queued.items()} if isinstance(command, Launch) else {}
        fed = {place: feeder.pushed for place, feeder in self._feeders.items()}
        return explain(self.elements, self.fabric.now, text, unready, waiting, later, fed)

    def _host_wait(self, command: Command | None, is_running: bool) -> str:
        text = _describe(command)
        if not is_running:
            return f"the {text} to begin: it begins when no task runs and every PE takes commands"
        if isinstance(command, Launch):
            return f"the {text} to end: {self._not_ready} of {len(self.elements)} PE(s) did not call unblock_cmd_stream"
        if isinstance(command, StreamOut):
            arrived = sum(len(sink.words) for _, _, sink in self._sinks(command))
            return f"the {text}: {arrived} of {command.l * command.w * command.h} words arrived"
        return f"the {text}"

    # ------------------------------------------------------------------------------------------ progress of commands

    def _poke(self) -> None:
        if not self._poked:
            self._poked = True
            self.fabric.call(self._pump, self.fabric.now + 1)

    def on_idle(self, pe: Element) -> None:
        """A PE finished a task."""
        if self._pending and not self._not_ready:
            self._poke()

    def on_unblock(self, pe: Element, now: int) -> None:
        """A PE takes commands again."""
        for handle in self._running:
            if isinstance(handle.command, Launch):
                self._not_ready -= 1
                if self._not_ready == 0:
                    self._finish(handle, now)
                    self.launch_windows.append(LaunchWindow(handle.command.name, handle.start_cycle, now))

    def _pump(self, now: int) -> None:
        """Begin the commands that may begin."""
        self._poked = False
        self._check_streams(now)
        while self._pending and self._may_begin(self._pending[0].command):
            self._begin(self._pending.popleft(), now)

    def _may_begin(self, command: Command) -> bool:
        if any(not isinstance(handle.command, StreamIn | StreamOut) for handle in self._running):
            return False
        if self._not_ready:
            return False
        if isinstance(command, StreamIn | StreamOut):
            return True
        if self._running:
            return False
        return isinstance(command, Launch) or all(pe.is_idle for pe in self.elements)

    def _begin(self, handle: Handle, now: int) -> None:
        handle.start_cycle = now
        self._running.append(handle)
        match handle.command:
            case Launch():
                self._not_ready = len(self.elements)
                self.fabric.call(lambda cycle: self._launch(handle, cycle), now + self.costs["host.launch"])
            case CopyIn() as command:
                if self.activity and self.activity[-1].kind == "launch":
                    self._note("copy", command.symbol, now)
                self._copy_in(command)
                self._end_later(handle, now, "host.copy_in_word", command.l)
            case CopyOut() as command:
                handle.result = self._copy_out(command, now)
                self._end_later(handle, now, "host.copy_out_word", command.l)
            case StreamIn() as command:
                self._stream_in(command, now)
            case StreamOut() as command:
                for y in range(command.py, command.py + command.h):
                    for x in range(command.px, command.px + command.w):
                        self._sink(x, y, command.color).expect(command.l, now)

    def _end_later(self, handle: Handle, now: int, per_word: str, words: int) -> None:
        cycles = self.costs["host.command"] + int(self.costs.number(per_word) * words)
        self.fabric.call(lambda cycle: self._finish(handle, cycle), now + cycles)

    def _finish(self, handle: Handle, now: int) -> None:
        handle.done = True
        handle.end_cycle = now
        self._running.remove(handle)
        if self.fabric.trace is not None:
            self.fabric.trace.command(_describe(handle.command), handle.start_cycle, now)
        self._poke()

    def _launch(self, handle: Handle, now: int) -> None:
        command = handle.command
        assert isinstance(command, Launch)
        handle.start_cycle = now
        self._note("launch", command.name, now)
        silent = 0
        for pe in self.elements:
            symbol = pe.image.exports.get(command.name)
            if symbol is None or symbol.kind != "fn":
                silent += 1  # a PE without the function ignores the call
                continue
            args = tuple(numeric.from_bits(b, type_) for b, type_ in zip(command.args, symbol.params, strict=True))
            pe.launch(symbol.target, args, now)
        self._not_ready -= silent
        if self._not_ready == 0:
            self._finish(handle, now)

    # ------------------------------------------------------------------------------------------ copies and streams

    def _tensor(self, pe: ProcessingElement, symbol: str) -> int:
        """Address of the data behind an exported pointer, or of an exported array."""
        export = pe.image.exports.get(symbol)
        if export is None or export.kind != "var":
            raise self._host_fault(
                f"{pe.position} exports no variable {symbol!r}: its program needs an @export_symbol for it,"
                " or the host's copy a region without this PE"
            )
        variable = pe.image.globals[export.target]
        if export.type_name.lstrip().startswith(("[*]", "*")):
            return pe.memory.read_int(variable.address, 2)
        return variable.address

    def _pointer(self, pe: ProcessingElement, symbol: str) -> tuple[int, bytes]:
        """Address and bytes of the variable that is exported."""
        variable = pe.image.globals[pe.image.exports[symbol].target]
        return variable.address, pe.memory.read(variable.address, min(variable.size, 2))

    def _copy_in(self, command: CopyIn) -> None:
        size = np.uint16 if command.bits == 16 else np.uint32
        for row in range(command.h):
            for column in range(command.w):
                pe = self.pe(command.px + column, command.py + row)
                data = command.data[row, column].astype(size).tobytes()
                address = self._tensor(pe, command.symbol)
                try:
                    pe.memory.write(address, data)
                except AccessError as error:
                    raise self._host_fault(f"copy to {command.symbol!r} of {pe.position}: {error}") from error
                held = self._held(command.px + column, command.py + row)
                if held is not None:
                    held.follow(address, data)
                self.extents.check(pe.image, pe.position, ("to", command.symbol), address, len(data))

    def _copy_out(self, command: CopyOut, now: int) -> np.ndarray:
        size = np.dtype(np.uint16 if command.bits == 16 else np.uint32)
        result = np.zeros((command.h, command.w, command.l), dtype=np.uint32)
        changed, latest = 0, -1
        for row in range(command.h):
            for column in range(command.w):
                x, y = command.px + column, command.py + row
                pe = self.pe(x, y)
                address = self._tensor(pe, command.symbol)
                try:
                    data = pe.memory.read(address, command.l * size.itemsize)
                except AccessError as error:
                    raise self._host_fault(f"copy from {command.symbol!r} of {pe.position}: {error}") from error
                self.extents.check(pe.image, pe.position, ("from", command.symbol), address, len(data))
                held = self._held(x, y)
                if held is not None and (
                    held.differs(address, data) or held.differs(*self._pointer(pe, command.symbol))
                ):
                    changed += 1
                    latest = max(latest, self._at_work(x, y))
                result[row, column] = np.frombuffer(data, dtype=size)
        self.readbacks.append(Readback(command.symbol, now, changed, latest))
        return result

    def _stream_in(self, command: StreamIn, now: int) -> None:
        for row in range(command.h):
            for column in range(command.w):
                x, y = command.px + column, command.py + row
                feeder = self._feeders.get((x, y, command.color))
                if feeder is None:
                    feeder = StreamFeeder(self.fabric, self.pe(x, y), command.color, self._poke)
                    self._feeders[x, y, command.color] = feeder
                feeder.push(command.data[row, column].tolist(), now)

    def _sink(self, x: int, y: int, color: int) -> StreamSink:
        state = self.pe(x, y).router.color_state(color)
        if state.sink is None:
            state.sink = StreamSink(self.fabric, self.pe(x, y).router)
        state.sink.on_full = self._poke
        return state.sink

    def _check_streams(self, now: int) -> None:
        """Finish the streams whose words have all arrived, in order of submission."""
        for handle in list(self._running):
            command = handle.command
            if isinstance(command, StreamIn):
                complete = all(not feeder.words for feeder in self._region_feeders(command))
            else:
                complete = isinstance(command, StreamOut) and self._collect(handle, command)
            if complete:
                self._finish(handle, now)

    def _region_feeders(self, command: StreamIn) -> list[StreamFeeder]:
        return [
            self._feeders[x, y, command.color]
            for y in range(command.py, command.py + command.h)
            for x in range(command.px, command.px + command.w)
        ]

    def _sinks(self, command: StreamOut) -> list[tuple[int, int, StreamSink]]:
        return [
            (y, x, self._sink(command.px + x, command.py + y, command.color))
            for y in range(command.h)
            for x in range(command.w)
        ]

    def _collect(self, handle: Handle, command: StreamOut) -> bool:
        places = self._sinks(command)
        if any(len(sink.words) < command.l for _, _, sink in places):
            return False
        handle.result = np.zeros((command.h, command.w, command.l), dtype=np.uint32)
        for y, x, sink in places:
            handle.result[y, x] = sink.words[: command.l]
            del sink.words[: command.l]
        return True

    # ------------------------------------------------------------------------------------------ checks, log

    def _check(self, command: Command) -> None:
        if isinstance(command, Launch):
            functions = [i.exports[command.name] for i in self.program.images if command.name in i.exports]
            functions = [symbol for symbol in functions if symbol.kind == "fn"]
            if not functions:
                raise self._host_fault(f"no PE exports a function {command.name!r}")
            for symbol in functions:
                if len(symbol.params) != len(command.args):
                    raise self._host_fault(
                        f"{command.name!r} takes {len(symbol.params)} argument(s), not {len(command.args)}"
                    )
            return
        inside = (
            command.w > 0
            and command.h > 0
            and 0 <= command.px <= self.program.width - command.w
            and 0 <= command.py <= self.program.height - command.h
        )
        if not inside:
            raise self._host_fault(
                f"region ({command.px}, {command.py}) {command.w}x{command.h} is not inside the program rectangle of"
                f" {self.program.width}x{self.program.height} PEs"
            )
        if isinstance(command, CopyIn | StreamIn) and command.data.shape[:2] != (command.h, command.w):
            raise self._host_fault(f"data of shape {command.data.shape} for a region of {command.h}x{command.w} PEs")

    def _host_fault(self, message: str) -> Fault:
        return Fault(None, SourceLocation(), "", message)

    def log(self, cycle: int, line: bytes | bytearray) -> None:
        """A PE printed a line."""
        if len(self._log) < self.limits.log_lines:
            text = bytes(line).split(b"\0", 1)[0].decode("latin-1")
            self._log.append((cycle, text))
        else:
            self._lost_lines += 1


def _describe(command: Command | None) -> str:
    match command:
        case Launch(name=name):
            return f"launch of {name!r}"
        case CopyIn(symbol=symbol) | CopyOut(symbol=symbol):
            return f"copy of {symbol!r}"
        case StreamIn(color=color):
            return f"stream to the device on color {color}"
        case StreamOut(color=color, l=l):
            return f"stream from the device on color {color} ({l} word(s) from each PE)"
    return "nothing"
