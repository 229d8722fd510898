"""A machine whose PEs and fabric run as machine code.

Host commands are handled by `wse.machine.Machine`; what it asks of the fabric and the PEs, this module answers from
flat arrays. The kernel stops whenever it meets something that only the reference executor can do or explain: a fault, a
deadlock, a feature that was found missing at run time. The commands given so far are then repeated on a reference
machine, which reports the fault, or goes on from there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fabrica_bench.csl import ir
from fabrica_bench.csl.exhaustion import hit_own_limit
from fabrica_bench.wse import numeric
from fabrica_bench.wse.commands import Command, Handle, Launch, LaunchWindow, Limits, StreamIn, StreamOut
from fabrica_bench.wse.costs import load_costs
from fabrica_bench.wse.element import ROUTABLE_COLORS
from fabrica_bench.wse.evidence import CLOCK_FIELDS, HeldWords
from fabrica_bench.wse.faults import BudgetExceeded
from fabrica_bench.wse.leftovers import Leftover, place_name
from fabrica_bench.wse.machine import REFERENCE_PES, Machine, check_size
from fabrica_bench.wse.native.layout import address_of
from fabrica_bench.wse.native.library import library
from fabrica_bench.wse.native.loading import LoadedImage, LoadedProgram
from fabrica_bench.wse.native.places import busy
from fabrica_bench.wse.native.proxies import PUMP, Clock, Elements, Feeder, PeView, Sink
from fabrica_bench.wse.native.team import BAIL as TEAM_BAIL
from fabrica_bench.wse.native.team import SERIAL, THIN, THIN_CYCLES, Team, is_divisible, lane_count

_LOGGER = logging.getLogger("fabrica_bench.wse")
_CHUNK = 4_000_000  # units of work between looks at the clock: a fraction of a second
_THIN_CHUNK = 400_000  # units of work after which several lanes are tried again
_QUICK_CHUNK = 20_000  # the same while quick code runs
#: Cycles of main threads that quick code may do: in scalar loops a tenth of a second (benchmarks/machine_code.py).
#: Waiting for words counts for nothing, as better code would be no faster at it.
PATIENCE = 300_000_000
#: Cycles times PEs of a run out of budget that are repeated on the reference, which can say where the program was.
REPLAYED_CYCLES = 1_000_000
#: PEs that public build scripts give a program on a WSE-3, 762 by 1172: a whole wafer.
WAFER_PES = 762 * 1172
_LEFTOVERS = 65_536  # places with wavelets that are looked at after a run
BAIL, IDLE, HOST, LAUNCH_DONE, BUDGET, CHUNK, UNTIL, GROW = 1, 2, 3, 4, 5, 6, 7, 8


class NativeMachine(Machine):
    """See `Machine`.

    Args:
        threads: See `team.lane_count`.
        thin: See `team.THIN`.
        quick: See `LoadedProgram`.
        patience: Cycles of main threads that such a program may do before better code is made for it.

    Raises:
        NativeUnsupported: The program needs the reference executor.
    """

    def __init__(
        self,
        program: ir.Program,
        *,
        limits: Limits | None = None,
        threads: int | None = None,
        thin: int = THIN,
        quick: bool | None = None,
        patience: int = PATIENCE,
    ) -> None:
        self._reference: Machine | None = None
        self._journal: list[tuple[Any, ...]] = []
        self._twins: dict[int, Handle] = {}
        self._proxies: dict[int, PeView] = {}
        self._inside = False
        self._patience = patience
        self._quiet = False  # nothing happens any more
        self._deadline: float | None = None
        self.fabric: Any = None
        limits = limits or Limits()
        check_size(program, limits.max_pes or WAFER_PES)
        try:
            self._state = LoadedProgram(program, load_costs(program.arch), limits, library(), quick)
        except (OSError, MemoryError) as problem:
            text = f"the rectangle of {program.width} by {program.height} PEs needs more memory than there is"
            if not hit_own_limit(problem):
                raise MemoryError(text) from problem
            raise BudgetExceeded(f"{text} ({problem})") from problem
        lanes = lane_count(self._state.count, threads)
        self._lanes = lanes if lanes > 1 and is_divisible(program) else 1
        self._thin = thin
        self._team: Team | None = None
        super().__init__(program, limits=limits)

    def _build(self, executor: Any) -> None:
        self.fabric = Clock(self)
        self.elements: Any = Elements(self)
        self._outlets: dict[tuple[int, int, int], Sink] = {}

    # ------------------------------------------------------------------------------------------ shared with the kernel

    @property
    def _not_ready(self) -> int:
        return self._state.get("not_ready")

    @_not_ready.setter
    def _not_ready(self, value: int) -> None:
        self._state.set("not_ready", value)

    @property
    def _poked(self) -> bool:
        return bool(self._state.get("host_poked"))

    @_poked.setter
    def _poked(self, value: bool) -> None:
        self._state.set("host_poked", int(value))

    # ------------------------------------------------------------------------------------------ public

    @property
    def cycle(self) -> int:
        return self._reference.cycle if self._reference else self._state.get("now")

    @property
    def executor_name(self) -> str:
        """Who runs the program now: `native`, or `reference` after a fall-back."""
        return "reference" if self._reference else "native"

    @property
    def busy_cycles(self) -> int:
        """Cycles that main threads spent executing code and memory operations, over all PEs."""
        return self._reference.busy_cycles if self._reference else self._state.get("busy")

    def clocks(self) -> dict[str, list[int]]:
        """See `Machine.clocks`."""
        if self._reference:
            return self._reference.clocks()
        return {name: self._state.pes[name].tolist() for name in CLOCK_FIELDS}

    def _last_issue(self) -> int:
        return int(self._state.pes["issued"].max())

    def _held(self, x: int, y: int) -> HeldWords | None:
        index = y * self.program.width + x
        return self._state.held(index) if self._state.pes["last_read"][index] >= 0 else None

    def _at_work(self, x: int, y: int) -> int:
        index, pes = y * self.program.width + x, self._state.pes
        return int(max(pes["ended"][index], pes["issued"][index]))

    @property
    def sim_log(self) -> list[str]:
        if self._reference:
            return self._reference.sim_log
        self._drain_log()
        return super().sim_log

    def pe(self, x: int, y: int) -> Any:
        if self._reference:
            return self._reference.pe(x, y)
        if not (0 <= x < self.program.width and 0 <= y < self.program.height):
            raise self._host_fault(f"PE({x},{y}) is outside the {self.program.width}x{self.program.height} rectangle")
        return self.element(y * self.program.width + x)

    def element(self, index: int) -> PeView:
        """Proxy of a PE."""
        proxy = self._proxies.get(index)
        if proxy is None:
            proxy = self._proxies[index] = PeView(self, index)
        return proxy

    def submit(self, command: Command) -> Handle:
        color = command.color if isinstance(command, StreamIn | StreamOut) else 0
        if not 0 <= color < ROUTABLE_COLORS and self._reference is None:
            self._fall_back(self._journal)
        handle = super().submit(command)
        if self._reference:
            self._twins[id(handle)] = self._reference.submit(command)
        self._journal.append(("submit", command, handle))
        return handle

    def wait(self, handle: Handle) -> None:
        self._journal.append(("wait", handle))
        if self._reference is None:
            self._start_clock()
            self._simulate(lambda: handle.done)
        if self._reference is not None:
            self._follow(lambda reference: reference.wait(self._twins[id(handle)]))

    def drain(self) -> None:
        self._journal.append(("drain",))
        if self._reference is None:
            self._start_clock()
            self._simulate(lambda: not self._pending and not self._running)
        if self._reference is None:
            self._quiet = False
            self._simulate(lambda: False, until=self._state.get("now") + self.limits.drain_cycles)
        if self._reference is not None:
            self._follow(lambda reference: reference.drain())

    def leftovers(self) -> list[Leftover]:
        if self._reference:
            return self._reference.leftovers()
        if not self._quiet:
            return []
        table = np.zeros((_LEFTOVERS, 5), dtype=np.int64)
        count = self._state.lib.call("leftovers", self._state.m, address_of(table), _LEFTOVERS)
        found = self._undelivered()
        for index, port, number, color, words in table[:count].tolist():
            found.append(Leftover(self.element(index).position, color, words, place_name(port, number)))
        return found

    # ------------------------------------------------------------------------------------------ the loop

    def _start_clock(self) -> None:
        if self.limits.wall_seconds is not None and self._deadline is None:
            self._deadline = time.monotonic() + self.limits.wall_seconds

    def check_wall(self) -> None:
        """Raise if the wall-clock limit has passed."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise self._cut_short(
                f"the run took more than its {self.limits.wall_seconds} s of wall time (cycle {self.cycle})"
            )

    def _cut_short(self, text: str) -> BudgetExceeded:
        return BudgetExceeded("\n".join([text, *busy(self._state)]))

    def _simulate(self, finished: Callable[[], bool], until: int = -1) -> None:
        """Run until `finished` holds at the end of a cycle, `until` is reached, or the reference executor takes over.
        With `until` an idle fabric ends it; without, an idle fabric is a deadlock."""
        state = self._state
        call = state.lib.call
        while self._reference is None:
            done = finished()
            if done and not state.get("in_cycle"):
                return
            if not done:
                self._look_at_code()
            state.set("host_pending", int(bool(self._pending)))
            state.set("launch_running", int(any(isinstance(h.command, Launch) for h in self._running)))
            work = -1 if done else self._chunk()
            if self._lanes > 1 and not done and until < 0 and self._is_divided():
                verdict = SERIAL if state.get("in_cycle") else self._run_lanes()
                if verdict & TEAM_BAIL:
                    self._fall_back(self._journal[:-1])
                    continue
                if not verdict & (SERIAL | THIN_CYCLES):
                    self.check_wall()
                    continue
                work = 0 if verdict & SERIAL else _THIN_CHUNK
            reason = call("run", state.m, work, until)
            if reason == HOST:
                self._host_action()
            elif reason == LAUNCH_DONE:
                state.set("launch_done", 0)
                self._end_launch(state.get("now"))
            elif reason == CHUNK:
                self._drain_log()
                if not done:
                    self.check_wall()
            elif reason == UNTIL:
                return
            elif reason == IDLE:
                if until >= 0:
                    self._quiet = True
                    return
                self._unstick()
            elif reason == BUDGET and self.limits.max_cycles * len(self.elements) > REPLAYED_CYCLES:
                raise self._cut_short(f"the run needs more than its {self.limits.max_cycles} cycles")
            else:
                self._fall_back(self._journal[:-1])

    def _chunk(self) -> int:
        return min(self._patience, _QUICK_CHUNK) if self._state.quick else _CHUNK

    def _look_at_code(self) -> None:
        if self._state.quick and self._state.get("busy") >= self._patience:
            self._state.optimise()

    def _is_divided(self) -> bool:
        """Nothing is at work but a launched function."""
        state = self._state
        return bool(
            state.get("launch_running")
            and state.get("not_ready")
            and not state.get("log_count")
            and not any(len(feeder.words) for feeder in self._feeders.values())
            and not any(isinstance(handle.command, StreamIn | StreamOut) for handle in self._running)
        )

    def _run_lanes(self) -> int:
        if self._team is None:
            try:
                self._team = Team(self._state, self._lanes, thin=self._thin)
            except (OSError, MemoryError, RuntimeError):  # no memory, or no threads: one core will do
                self._lanes = 1
                return THIN_CYCLES
        return self._team.run(self._chunk())

    def _host_action(self) -> None:
        state = self._state
        now = state.get("now")
        self._inside = True
        try:
            if state.get("host_item") == PUMP:
                self._pump(now)
            else:
                self.fabric.take(state.get("host_what"))(now)
        finally:
            self._inside = False
        if state.get("stop") == BAIL:
            self._fall_back(self._journal[:-1])

    def _end_launch(self, now: int) -> None:
        for handle in list(self._running):
            if isinstance(handle.command, Launch):
                self._finish(handle, now)
                self.launch_windows.append(LaunchWindow(handle.command.name, handle.start_cycle, now))

    def _unstick(self) -> None:
        buffered = [handle for handle in self._running if isinstance(handle.command, StreamIn)]
        for handle in buffered:
            self._finish(handle, self._state.get("now"))
        if not buffered:
            self._fall_back(self._journal[:-1])

    def _may_begin(self, command: Command) -> bool:
        if any(not isinstance(handle.command, StreamIn | StreamOut) for handle in self._running):
            return False
        if self._not_ready:
            return False
        if isinstance(command, StreamIn | StreamOut):
            return True
        if self._running:
            return False
        return isinstance(command, Launch) or self._all_idle()

    def _all_idle(self) -> bool:
        pes = self._state.pes
        return not pes["state"].any() and not pes["call_count"].any()

    def _launch(self, handle: Handle, now: int) -> None:
        command = handle.command
        assert isinstance(command, Launch)
        handle.start_cycle = now
        self._note("launch", command.name, now)
        images = self._state.images
        functions = np.full(len(images), -1, dtype=np.int64)
        args = np.zeros((len(images), 16), dtype=np.int64)
        for loaded in images:
            symbol = loaded.image.exports.get(command.name)
            if symbol is not None and symbol.kind == "fn":
                functions[loaded.number] = loaded.functions[symbol.target]
                args[loaded.number] = _argument_words(command, symbol, loaded)
        silent = self._state.lib.call(
            "launch_all", self._state.m, address_of(functions), address_of(args), address_of(self._state.tiles)
        )
        self._not_ready -= silent
        if self._not_ready == 0:
            self._finish(handle, now)

    # ------------------------------------------------------------------------------------------ streams

    def _stream_in(self, command: StreamIn, now: int) -> None:
        for row in range(command.h):
            for column in range(command.w):
                x, y = command.px + column, command.py + row
                feeder = self._feeders.get((x, y, command.color))
                if feeder is None:
                    fresh: Any = Feeder(self, y * self.program.width + x, command.color)
                    feeder = self._feeders[x, y, command.color] = fresh
                feeder.push(command.data[row, column].tolist(), now)

    def _sink(self, x: int, y: int, color: int) -> Any:
        sink = self._outlets.get((x, y, color))
        if sink is None:
            sink = self._outlets[x, y, color] = Sink(self, y * self.program.width + x, color)
        return sink

    # ------------------------------------------------------------------------------------------ log

    def _drain_log(self) -> None:
        state = self._state
        end = state.get("log_count")
        if not end:
            return
        entries = state.log[:end].tolist()
        at = 0
        while at < end:
            cycle, length = entries[at], entries[at + 1]
            self.log(cycle, bytes(entries[at + 2 : at + 2 + length]))
            at += 2 + length
        state.set("log_count", 0)

    # ------------------------------------------------------------------------------------------ falling back

    def poked_memory(self, index: int, address: int, data: bytes) -> None:
        """The host wrote to a PE's memory directly."""
        if not self._inside:
            self._journal.append(("write", index, address, data))

    def _fall_back(self, journal: list[tuple[Any, ...]]) -> None:
        """Repeat the steps of `journal` on a reference machine, which goes on from there."""
        if self._state.count > REFERENCE_PES:
            raise self._cut_short(
                f"the program stopped at cycle {self.cycle} and only the reference executor can tell why or go on,"
                f" which takes at most {REFERENCE_PES} PEs; run it on a smaller rectangle"
            )
        reference = Machine(self.program, limits=self.limits)
        self._reference = reference
        self.extents = reference.extents
        for entry in journal:
            match entry:
                case ("submit", command, handle):
                    self._twins[id(handle)] = reference.submit(command)
                case ("wait", handle):
                    reference.wait(self._twins[id(handle)])
                case ("drain",):
                    reference.drain()
                case ("write", index, address, data):
                    x, y = index % self.program.width, index // self.program.width
                    reference.pe(x, y).memory.write(address, data)
        self.launch_windows = reference.launch_windows
        self.activity = reference.activity
        self.readbacks = reference.readbacks

    def _follow(self, action: Callable[[Machine], None]) -> None:
        """Let the reference machine do a step, and copy what became of the handles."""
        reference = self._reference
        assert reference is not None
        first = not getattr(self, "_noticed", False)
        action(reference)
        if first:
            self._noticed = True
            _LOGGER.warning(
                "fabrica-sim: this program needs the reference executor (native code stopped with reason %d)",
                self._state.get("reason"),
            )
        for entry in self._journal:
            if entry[0] == "submit":
                handle, twin = entry[2], self._twins[id(entry[2])]
                handle.done, handle.result = twin.done, twin.result
                handle.start_cycle, handle.end_cycle = twin.start_cycle, twin.end_cycle


def _argument_words(command: Launch, symbol: ir.ExportedSymbol, loaded: LoadedImage) -> list[int]:
    words = []
    for bits, type_ in zip(command.args, symbol.params, strict=True):
        value = numeric.from_bits(bits, type_)
        if type_.kind == "float":
            words.append(int(np.array([value], dtype=np.float64).view(np.int64)[0]))
        else:
            word = int(value) & ((1 << 64) - 1)
            words.append(word - (1 << 64) if word >> 63 else word)
    return words + [0] * (16 - len(words))
