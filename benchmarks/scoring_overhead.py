"""What scoring costs beyond building and running: staging, checks on the syntax tree, oracle, comparison.

    python benchmarks/scoring_overhead.py [--filter level=1] [--size small] [--repeats 5]

Each task's plain kernel is scored on three visible and five held-out inputs. Wall and CPU seconds of the scorer,
without those within the toolchain's `build` and `run_all` (and without the reference, which is measured once per
session), are printed as the median over the repeats. On a machine with nothing else to do the two agree. Exit code 1
when the median CPU time over the tasks is 100 ms or more.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from fabrica_bench.errors import answer
from fabrica_bench.firewall.bundle import bundle_texts
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import held_out_cases, held_out_seeds, visible_cases
from fabrica_bench.scoring.scorer import Scorer
from fabrica_bench.tasks import Task
from fabrica_bench.tasks.canary import without_canary
from fabrica_bench.tasks.seeds import HeldOutKey
from fabrica_bench.tasks.selection import require_tasks
from fabrica_bench.toolchains import get_toolchain
from fabrica_bench.toolchains.protocol import BuildOptions, BuildResult, RunRequest, RunResult

LIMIT_S = 0.1


class Timed:
    """A toolchain that adds up the time within it."""

    def __init__(self) -> None:
        self._inner = get_toolchain("embedded")
        self.name = self._inner.name
        self.describe, self.isolation = self._inner.describe, self._inner.isolation
        self.wall = self.cpu = 0.0

    def _within(self, call: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            return call()
        finally:
            self.wall += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu

    def build(self, bundle: Path, options: BuildOptions) -> BuildResult:
        """See `fabrica_bench.toolchains.protocol`."""
        return self._within(lambda: self._inner.build(bundle, options))

    def run(self, artifact: Path, request: RunRequest) -> RunResult:
        """See `fabrica_bench.toolchains.protocol`."""
        return self.run_all(artifact, [request])[0]

    def run_all(self, artifact: Path, requests: Sequence[RunRequest]) -> list[RunResult]:
        """See `fabrica_bench.toolchains.protocol`."""
        return self._within(lambda: self._inner.run_all(artifact, requests))


def measure(task: Task, size: str, repeats: int) -> tuple[float, float, float]:
    """Overhead in wall and CPU seconds, and wall seconds within the toolchain, of scoring one candidate."""
    toolchain = Timed()
    conditions = Conditions(task, toolchain, "wse3", size)
    cases = (*visible_cases(task), *held_out_cases(task, held_out_seeds(task, HeldOutKey.fresh())))
    texts, bundle = bundle_texts(task), task.spec.bundle
    kernel = without_canary(texts[bundle.plain or bundle.compute])
    found = []
    with Scorer(conditions) as scorer:
        scorer.reference(cases)
        for number in range(repeats):
            toolchain.wall = toolchain.cpu = 0.0
            wall, cpu = time.perf_counter(), time.process_time()
            verdict = scorer.score({bundle.compute: f"{kernel}// {number}\n"}, cases)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if verdict.kind != "valid":
                raise SystemExit(f"{task.name}: {verdict}")
            found.append((wall - toolchain.wall, cpu - toolchain.cpu, toolchain.wall))
    overhead, used, within = (median(column) for column in zip(*found, strict=True))
    return overhead, used, within


def main(arguments: list[str]) -> int:
    """Print a line per task and the median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", nargs="*", default=[], help="which tasks, as in `fabrica-bench list`")
    parser.add_argument("--size", default="small")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    rows = []
    for task in require_tasks(options.filter):
        row = measure(task, options.size, options.repeats)
        print(
            f"{task.name:24}{1e3 * row[0]:8.0f} ms wall{1e3 * row[1]:8.0f} ms CPU, toolchain {row[2]:.2f} s", flush=True
        )
        rows.append(row)
    wall, cpu, within = (median(column) for column in zip(*rows, strict=True))
    print(f"median of {len(rows)} tasks: {1e3 * wall:.0f} ms wall, {1e3 * cpu:.0f} ms CPU, toolchain {within:.2f} s")
    return int(cpu >= LIMIT_S)


if __name__ == "__main__":
    sys.exit(answer(lambda: main(sys.argv[1:])))
