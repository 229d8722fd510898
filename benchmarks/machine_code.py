"""Measure how machine code is made, quickly as for candidates and well, and how fast each kind is.

    python benchmarks/machine_code.py [--filter set=core] [--repeats 3]

First, for the expert kernel of each task at size small: lines of LLVM IR, and milliseconds to decode the compiled
program, to translate it, and to make either kind of code of it. Then the scalar cases of executors.py: processor
seconds with either kind. Best of the repeats.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial

from executors import CASES, compiled, measure

from fabrica_bench.csl.artifact import load_program
from fabrica_bench.errors import answer
from fabrica_bench.firewall.bundle import bundle_texts
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.workshop import Workshop
from fabrica_bench.tasks import Task
from fabrica_bench.tasks.selection import require_tasks
from fabrica_bench.toolchains.embedded import embedded_toolchain
from fabrica_bench.wse.costs import load_costs
from fabrica_bench.wse.native.library import library
from fabrica_bench.wse.native.machine import NativeMachine
from fabrica_bench.wse.native.program_code import ProgramCode

FOREVER = 1 << 60


def fastest(repeats: int, work: Callable[[], object]) -> float:
    """Seconds of the quickest of the repeats."""
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def making(task: Task, repeats: int) -> tuple[int, list[float]]:
    """Lines of IR, and seconds to decode, to translate, to make quick code and to make good code."""
    conditions = Conditions(task, embedded_toolchain())
    with Workshop(conditions) as workshop:
        compute = task.spec.bundle.compute
        artifact = workshop.build({compute: bundle_texts(task)[compute]}).result.artifact
        if artifact is None:
            raise SystemExit(f"{task.name}: the reference doesn't compile")
        program = load_program(artifact)
        costs, own = load_costs(program.arch), library()
        text = ProgramCode(program, costs, own.structs).text()
        steps: list[Callable[[], object]] = [
            partial(load_program, artifact),
            lambda: ProgramCode(program, costs, own.structs).text(),
            lambda: own.make(text, quick=True),
            lambda: own.make(text),
        ]
        return text.count("\n"), [fastest(repeats, step) for step in steps]


def main(arguments: list[str]) -> int:
    """Print a line per task and per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", nargs="*", default=["set=core"], help="which tasks, as in `fabrica-bench list`")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    for task in require_tasks(options.filter):
        lines, seconds = making(task, options.repeats)
        decode, translate, quick, good = (1e3 * value for value in seconds)
        print(
            f"{task.name:24}{lines:7} lines  decode {decode:6.1f} ms  translate {translate:6.1f} ms  "
            f"quick code {quick:6.1f} ms  good code {good:6.1f} ms  ratio {good / quick:4.1f}",
            flush=True,
        )
    for case in [case for case in CASES.values() if not case.native_only]:
        program = compiled(case)
        good, quick = (
            min(
                measure(case, partial(NativeMachine, program, quick=kind, patience=FOREVER)).seconds
                for _ in range(options.repeats)
            )
            for kind in (False, True)
        )
        print(
            f"{case.name:24} good code {good:8.4f} s  quick code {quick:8.4f} s  ratio {quick / good:4.1f}", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(answer(lambda: main(sys.argv[1:])))
