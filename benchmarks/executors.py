"""Measure the native executor beside the reference.

    python benchmarks/executors.py [CASE...]

Each case compiles one of the programs beside this file, runs the same host commands on both executors in this process,
one after the other, checks that outputs and cycles agree, and prints CPU seconds, their ratio, and millions of busy
PE-cycles a second (cycles in which a PE's main thread executes) on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fabrica_bench.csl.driver import CompileOptions, compile_program
from fabrica_bench.csl.ir import Program
from fabrica_bench.errors import UnknownNameError, answer
from fabrica_bench.wse.commands import CopyIn, CopyOut, Handle, Launch
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.selection import open_machine

PROGRAMS = Path(__file__).resolve().parent / "programs"


@dataclass(frozen=True)
class Case:
    """A program, its parameters, the arrays it is given (name: words per PE), its results, and how often it runs."""

    name: str
    program: str
    params: dict[str, int]
    inputs: dict[str, int]
    outputs: dict[str, int]
    repeats: int = 1
    native_only: bool = False

    @property
    def size(self) -> tuple[int, int]:
        return self.params.get("width", 1), self.params.get("height", 1)


CASES = {
    case.name: case
    for case in (
        Case("gemm-1pe", "gemm_1pe", {"n": 40}, {"a": 1600, "b": 1600}, {"c": 1600}, 40),
        Case("dft-1pe", "dft_1pe", {"n": 256}, {"x": 256}, {"re": 256, "im": 256}, 40),
        Case("allreduce-15x15", "allreduce", {"width": 15, "height": 15, "n": 45}, {"input": 45}, {"total": 45}, 2),
        Case(
            "allreduce-100x100",
            "allreduce",
            {"width": 100, "height": 100, "n": 128},
            {"input": 128},
            {"total": 128},
            native_only=True,
        ),
    )
}


def compiled(case: Case) -> Program:
    """The program of a case for WSE-2."""
    width, height = case.size
    options = CompileOptions(
        file=PROGRAMS / case.program / "layout.csl",
        fabric_dims=(width + 7, height + 2),
        fabric_offsets=(4, 1),
        params=case.params,
        memcpy=True,
    )
    return compile_program(options).program


@dataclass(frozen=True)
class Measurement:
    """`seconds` of simulation; `seen`: what both executors must agree on; `busy` PE-cycles, if counted."""

    seconds: float
    setup: float
    cycles: int
    seen: list[bytes]
    busy: int


def measure(case: Case, opened: Callable[[], Machine]) -> Measurement:
    """Run a case on the machine that `opened` loads its program into."""
    begin = time.process_time()
    machine = opened()
    setup = time.process_time() - begin
    width, height = case.size
    rng = np.random.default_rng(1)
    for name, words in case.inputs.items():
        data = rng.standard_normal((height, width, words)).astype(np.float32).view(np.uint32)
        machine.wait(machine.submit(CopyIn(name, 0, 0, width, height, words, data)))
    begin = time.process_time()
    for _ in range(case.repeats):
        machine.wait(machine.submit(Launch("compute")))
    seconds = time.process_time() - begin
    results: list[Handle] = []
    for name, words in case.outputs.items():
        results.append(machine.submit(CopyOut(name, 0, 0, width, height, words)))
        machine.wait(results[-1])
    seen = [handle.result.tobytes() for handle in results if handle.result is not None]
    return Measurement(seconds, setup, machine.cycle, seen, _busy(machine))


def _busy(machine: Machine) -> int:
    return int(getattr(machine, "busy_cycles", 0))


def report(case: Case, write: Callable[[str], object]) -> bool:
    """Measure one case and write its line; False if the executors disagree."""
    program = compiled(case)
    native = measure(case, lambda: open_machine(program, executor="native"))
    line = f"{case.name:20} {native.cycles:>10} cycles  native {native.seconds:8.4f} s (load {native.setup:.2f} s)"
    same = True
    if not case.native_only:
        reference = measure(case, lambda: open_machine(program, executor="reference"))
        same = native.seen == reference.seen and native.cycles == reference.cycles
        line += f"  reference {reference.seconds:8.3f} s  ratio {reference.seconds / native.seconds:7.1f}"
        line += "" if same else "  DISAGREE"
    if native.busy:
        line += f"  {native.busy / native.seconds / 1e6:7.1f} M busy PE-cycles/s"
    write(f"{line}\n")
    return same


def main(arguments: list[str]) -> int:
    """Measure the cases in the order given; 1 if the executors disagree on one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)} (default: all)")
    chosen = parser.parse_args(arguments).cases or list(CASES)
    for name in chosen:
        if name not in CASES:
            raise UnknownNameError("case", name, CASES)
    return 0 if all([report(CASES[name], sys.stdout.write) for name in chosen]) else 1


if __name__ == "__main__":
    sys.exit(answer(lambda: main(sys.argv[1:])))
