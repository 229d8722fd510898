"""Run a host script on one executor and record all that it can observe.

    python recorded_run.py EXECUTOR RECORD.json SCRIPT [ARGUMENTS...]

The record holds, for each machine the script opened: cycles and results of all commands, launch windows, printed lines,
the fault if there was one, a digest of each PE's memory at the end, which executor ran it, and the seconds spent in it.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fabrica_bench.compat import cs_python, runtime
from fabrica_bench.wse.commands import Handle
from fabrica_bench.wse.faults import SimulationError
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.selection import open_machine


class Recorder:
    """A machine that notes what the host sees of it."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._handles: list[Handle] = []
        self.seconds = 0.0
        self.error: list[str] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def submit(self, command: Any) -> Handle:
        handle = self._machine.submit(command)
        self._handles.append(handle)
        return handle

    def wait(self, handle: Handle) -> None:
        self._timed(lambda: self._machine.wait(handle))

    def drain(self) -> None:
        self._timed(self._machine.drain)

    def _timed(self, action: Callable[[], None]) -> None:
        start = time.perf_counter()
        try:
            action()
        except SimulationError as error:
            self.error = [error.kind, str(error)]
            raise
        finally:
            self.seconds += time.perf_counter() - start

    def record(self) -> dict[str, Any]:
        """What was seen, in plain data."""
        machine = self._machine
        program = machine.program
        memories = []
        for y in range(program.height):
            for x in range(program.width):
                memories.append(hashlib.sha256(machine.pe(x, y).memory.read(0, 49152)).hexdigest()[:16])
        return {
            "seen": {
                "cycle": machine.cycle if self.error is None else None,
                "commands": [_handle(handle) for handle in self._handles],
                "windows": [list(window) for window in map(_window, machine.launch_windows)],
                "log": machine.sim_log,
                "error": self.error,
                "memory": memories if self.error is None else None,
            },
            "executor": getattr(machine, "executor_name", "reference"),
            "seconds": self.seconds,
            "pes": program.width * program.height,
            "busy": getattr(machine, "busy_cycles", None),
        }


def _window(window: Any) -> tuple[str, int, int]:
    return window.name, window.start_cycle, window.end_cycle


def _handle(handle: Handle) -> list[Any]:
    result = None
    if handle.result is not None:
        result = hashlib.sha256(handle.result.tobytes()).hexdigest()[:16]
    return [type(handle.command).__name__, handle.done, handle.start_cycle, handle.end_cycle, result]


def _seed() -> None:
    """Scripts that draw their inputs without a seed get the same ones on both executors."""
    random.seed(0)
    np.random.seed(0)
    original = np.random.default_rng
    np.random.default_rng = lambda seed=None: original(0 if seed is None else seed)  # type: ignore[assignment]


def main(executor: str, record: Path, arguments: list[str]) -> int:
    """Run the script and write the record; its exit code."""
    machines: list[Recorder] = []

    def opened(*args: Any, **kwargs: Any) -> Any:
        machines.append(Recorder(open_machine(*args, **{**kwargs, "executor": executor})))
        return machines[-1]

    _seed()
    runtime.open_machine = opened  # type: ignore[assignment]
    code = cs_python.main(arguments)
    record.write_text(json.dumps([machine.record() for machine in machines]), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
