"""Run the same host steps on both executors and compare all that can be seen."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fabrica_bench.csl import ir
from fabrica_bench.wse.commands import Handle, Limits
from fabrica_bench.wse.faults import BudgetExceeded, SimulationError
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.native.machine import NativeMachine


@dataclass
class Observation:
    """What the host sees: one entry per step, then the end. `executor`: who ran it to the end."""

    steps: list[Any] = field(default_factory=list)
    executor: str = ""


PATIENCE = 20
"""Cycles: some segments of PE code."""

#: ("submit", command) | ("wait", index of the submit) | ("drain",) | ("write", x, y, address, bytes)
Step = tuple[Any, ...]


def observe(machine: Machine, steps: Sequence[Step]) -> Observation:
    """Do the steps; an error of the simulation is an observation, and ends the run."""
    seen = Observation()
    handles: list[Handle] = []
    failed = False
    for step in steps:
        try:
            _do(machine, step, handles)
        except BudgetExceeded as error:
            seen.steps.append(("budget", _first_words(str(error))))
            failed = True
            break
        except SimulationError as error:
            seen.steps.append((error.kind, _without_depth(str(error))))
            failed = True
            break
        seen.steps.append((step[0], machine.cycle))
    for handle in handles:
        result = None if handle.result is None else handle.result.tolist()
        seen.steps.append((handle.done, handle.start_cycle, handle.end_cycle, result))
    seen.steps.append([(w.name, w.start_cycle, w.end_cycle) for w in machine.launch_windows])
    seen.steps.append(machine.sim_log)
    if not failed:
        seen.steps.append((machine.clocks(), machine.activity, machine.readbacks))
        program = machine.program
        for y in range(program.height):
            for x in range(program.width):
                seen.steps.append(hashlib.sha256(machine.pe(x, y).memory.read(0, 49152)).hexdigest())
    seen.executor = getattr(machine, "executor_name", "reference")
    return seen


def _first_words(text: str) -> str:
    """The reason without the cycle at which the wall clock struck, and without what PEs were doing then, which only the
    reference executor tells."""
    return text.splitlines()[0].partition(" (cycle")[0]


def _without_depth(text: str) -> str:
    """How deep calls may be nested counts the host's own calls, so the cycle of this fault is not defined."""
    return re.sub(r" at cycle \d+", "", text) if "calls are nested more than" in text else text


def _do(machine: Machine, step: Step, handles: list[Handle]) -> None:
    match step:
        case ("submit", command):
            handles.append(machine.submit(command))
        case ("wait", index):
            machine.wait(handles[index])
        case ("drain",):
            machine.drain()
        case ("write", x, y, address, data):
            machine.pe(x, y).memory.write(address, data)


def compare(program: ir.Program, steps: Sequence[Step], limits: Limits | None = None) -> Observation:
    """Both executors see the same, also when machine code is exchanged while functions are suspended; returns what the
    native one saw. Raises NativeUnsupported, AssertionError."""
    native = observe(NativeMachine(program, limits=limits, quick=False), steps)
    changing = observe(NativeMachine(program, limits=limits, quick=True, patience=PATIENCE), steps)
    reference = observe(Machine(program, limits=limits), steps)
    assert native.steps == reference.steps
    assert changing.steps == reference.steps
    return native
