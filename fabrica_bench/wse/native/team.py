"""Several cores for one large grid: threads that run the kernel's lanes (`kernel/lanes.py`).

Neither the number of lanes nor their speed changes a result. Lanes run while a launched function runs and nothing but
the program itself is at work; streams of the host, and what comes after the launch, are left to a single lane.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fabrica_bench.csl import ir
from fabrica_bench.errors import FabricaError
from fabrica_bench.wse.native.layout import Records, lazy_words
from fabrica_bench.wse.native.loading import ARENA_WORDS, LoadedProgram, event_pools

VARIABLE = "FABRICA_SIM_THREADS"
#: PEs from which on lanes are tried if nobody says how many
LEAST_PES = 4096
MOST_LANES = 16
#: units of work in a cycle (`M.work`) below which meeting costs more than it brings
THIN = 400
BAIL, SERIAL, THIN_CYCLES, CHUNK = 1, 2, 4, 8
_NOT_READY = 1 << 40  # the kernel's NOT_READY
_COUNTERS = ("segments", "router_steps", "issues", "wavelets", "busy")
_CARRIED = ("now", "serial", "host_pending", "launch_running")


def lane_count(pes: int, threads: int | None = None) -> int:
    """How many lanes a grid gets: `threads`, else what `FABRICA_SIM_THREADS` says, else, if the grid is large, one for
    each core of the process.

    Raises:
        FabricaError: The variable is no number from 1 on.
    """
    if threads is None:
        said = os.environ.get(VARIABLE)
        if said is not None:
            if not said.isdecimal() or int(said) < 1:
                raise FabricaError(f"{VARIABLE} is {said!r}", remedy="a number of threads from 1 on")
            threads = int(said)
        else:
            threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if pes < LEAST_PES:
            threads = 1
    return max(1, min(threads, MOST_LANES, pes))


def is_divisible(program: ir.Program) -> bool:
    """Nothing in the program has an order across PEs: lines that PEs print have."""
    return not any(
        isinstance(instruction, ir.Intrinsic) and instruction.name in ("print", "print_text")
        for image in program.images
        for function in image.functions.values()
        for block in function.blocks
        for instruction in block
    )


class Team:
    """The lanes of a loaded program; the first is the program's own machine."""

    def __init__(self, state: LoadedProgram, count: int, *, thin: int = THIN) -> None:
        structs = state.lib.structs
        self._state = state
        self._bounds = [state.count * lane // count for lane in range(count + 1)]
        self._lanes = [state.machine]
        self._threads = _started(count - 1)
        self._record = Records(structs["Team"], 1)
        self._record["count"] = count
        self._record["thin"] = thin
        for lane in range(count):
            pes = self._bounds[lane + 1] - self._bounds[lane]
            if lane:
                self._lanes.append(self._new_lane(pes))
            machine = self._lanes[lane]
            # a cycle of a PE at the border posts a wavelet for each link at most, and one notice for each channel
            room = 128 * min(2 * state.program.width + 2, pes)
            machine["outbox"] = state.keep(lazy_words(structs["Message"].words * room))
            machine["team"] = self._record.address
            self._record["lanes"][0, lane] = machine.address

    def _new_lane(self, pes: int) -> Records:
        state = self._state
        layout = state.machine.layout
        machine = Records(layout, 1, lazy_words(layout.words))
        machine.words[: layout.words] = state.machine.words[: layout.words]
        event_pools(state, machine, pes)
        room = ARENA_WORDS * (pes + 1)
        arena = state.keep(lazy_words(room, dense=True))
        machine["arena_next"] = arena
        machine["arena_end"] = arena + 8 * room
        for name in _COUNTERS:
            machine[name] = 0
        return machine

    def run(self, work: int) -> int:
        """Run until a lane has done `work`, or has to stop; why, as a mask of BAIL, SERIAL, THIN_CYCLES and CHUNK."""
        state, call = self._state, self._state.lib.call
        self._share()
        others = [self._threads.submit(call, "run_lane", lane.address, work) for lane in self._lanes[1:]]
        verdict = call("run_lane", state.m, work)
        for other in others:
            other.result()
        self._gather()
        return verdict

    def _share(self) -> None:
        """Give each lane its PEs and their events."""
        state = self._state
        self._record["waiting"] = state.get("not_ready")
        for number, lane in enumerate(self._lanes):
            for name in _CARRIED:
                lane[name] = state.get(name)
            lane["not_ready"] = _NOT_READY
            first, end = self._bounds[number : number + 2]
            lane["first_pe"] = state.pes.address_at(first)
            lane["end_pe"] = state.pes.address_at(end)
            state.pes["machine"][first:end] = lane.address
        state.lib.call("share_events", state.m)

    def _gather(self) -> None:
        """Make the program's own machine the only one again."""
        state = self._state
        first = self._lanes[0]
        state.pes["machine"] = state.m
        for lane in self._lanes[1:]:
            state.lib.call("return_events", lane.address)
            for name in _COUNTERS:
                first[name] += lane[name]
                lane[name] = 0
            first["serial"] = np.maximum(first["serial"], lane["serial"])
            if lane["stop"][0] and not first["stop"][0]:
                first["reason"] = lane["reason"]
        first["first_pe"], first["end_pe"] = 0, np.iinfo(np.int64).max
        released = sum(_NOT_READY - int(lane["not_ready"][0]) for lane in self._lanes)
        waiting = int(self._record["waiting"][0]) - released
        first["not_ready"] = waiting
        if waiting == 0:
            state.lib.call("all_released", state.m)


def _started(count: int) -> ThreadPoolExecutor:
    """A pool whose threads all run already: lanes wait for each other, so one that can't be started would stop all.

    Raises:
        RuntimeError: The system gives no more threads.
    """
    pool = ThreadPoolExecutor(count, thread_name_prefix="fabrica-lane")
    gate = threading.Barrier(count + 1)
    try:
        for _ in range(count):
            pool.submit(gate.wait)
    except RuntimeError:
        gate.abort()
        pool.shutdown(wait=False)
        raise
    gate.wait()
    return pool
