"""How long it takes to score a candidate, and to run all references on eight inputs.

    python benchmarks/scoring_speed.py [--filter level=1 set=core] [--size small] [--repeats 5] [--programs]

First each task's expert reference is compiled and run on three visible and five held-out inputs, with nothing but the
simulator's own machine code in the cache; the sums over all tasks are printed. Then, task by task, a warm scorer (it
has measured the reference) scores the plain kernel on eight inputs: median of wall seconds, and mean of processor
seconds of all processes, per candidate. Each candidate is another text, and its machine code is in no cache.

`--programs` starts children as new programs, the way of other systems than Linux. Exit code 1 when the median over the
tasks is 0.5 s or more, or all references take 60 s or more: of wall seconds, so only a machine with nothing else to do
tells.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median

from fabrica_bench.errors import answer
from fabrica_bench.firewall.bundle import bundle_texts
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import InputCase, held_out_cases, held_out_seeds, visible_cases
from fabrica_bench.scoring.scorer import Scorer
from fabrica_bench.tasks import Task
from fabrica_bench.tasks.canary import without_canary
from fabrica_bench.tasks.seeds import HeldOutKey
from fabrica_bench.tasks.selection import require_tasks
from fabrica_bench.toolchains import Toolchain
from fabrica_bench.toolchains.embedded import embedded_toolchain, spread
from fabrica_bench.wse.native.library import cache_directory, library
from fabrica_bench.wse.selection import confined_native

CANDIDATE_LIMIT_S = 0.5
REFERENCES_LIMIT_S = 60.0


def cpu_seconds() -> float:
    """Processor seconds of this process and of all below it, those that still run included (in ticks of 10 ms)."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total = sum(usage.ru_utime + usage.ru_stime for usage in own)
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


@contextmanager
def own_code_cache() -> Iterator[Path]:
    """The folder of a code cache that holds the simulator's own machine code and no program's."""
    confined_native()
    kernel = f"{library().kernel_key}.o"
    usual = cache_directory()
    with tempfile.TemporaryDirectory(prefix="fabrica-bench-code-") as folder:
        os.environ["FABRICA_CACHE_DIR"] = folder
        fresh = cache_directory()
        assert usual is not None
        assert fresh is not None
        shutil.copy(usual / kernel, fresh)
        confined_native.cache_clear()
        library.cache_clear()
        yield fresh


def forget_programs(cache: Path) -> None:
    """Remove what is not the simulator's own."""
    for path in cache.glob("*.o"):
        if path.stem != library().kernel_key:
            path.unlink()


def cases_of(task: Task) -> tuple[InputCase, ...]:
    """Three visible inputs and five held-out ones."""
    return (*visible_cases(task), *held_out_cases(task, held_out_seeds(task, HeldOutKey.fresh())))


def candidate_seconds(task: Task, toolchain: Toolchain, size: str, repeats: int, cache: Path) -> tuple[float, float]:
    """Median wall seconds and mean processor seconds of scoring one candidate."""
    cases, texts, bundle = cases_of(task), bundle_texts(task), task.spec.bundle
    kernel = without_canary(texts[bundle.plain or bundle.compute])
    wall, cpu = [], []
    with Scorer(Conditions(task, toolchain, "wse3", size)) as scorer:
        scorer.reference(cases)
        forget_programs(cache)
        for number in range(repeats):
            begin, used = time.perf_counter(), cpu_seconds()
            verdict = scorer.score({bundle.compute: f"{kernel}// {number}\n"}, cases)
            wall.append(time.perf_counter() - begin)
            cpu.append(cpu_seconds() - used)
            if verdict.kind != "valid":
                raise SystemExit(f"{task.name}: {verdict}")
    return median(wall), mean(cpu)


def reference_seconds(task: Task, toolchain: Toolchain, size: str) -> tuple[float, float]:
    """Wall and processor seconds of compiling and judging the expert reference."""
    begin, used = time.perf_counter(), cpu_seconds()
    with Scorer(Conditions(task, toolchain, "wse3", size)) as scorer:
        scorer.reference(cases_of(task))
    return time.perf_counter() - begin, cpu_seconds() - used


def main(arguments: list[str]) -> int:
    """Print a line per task, the median and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", nargs="*", default=[], help="which tasks, as in `fabrica-bench list`")
    parser.add_argument("--size", default="small")
    parser.add_argument("--repeats", type=int, default=5, help="candidates a task; 0 for the references only")
    parser.add_argument("--programs", action="store_true", help="start children as new programs, not as forks")
    options = parser.parse_args(arguments)
    if options.repeats < 0:
        parser.error("--repeats must be at least 0")
    toolchain = spread(dataclasses.replace(embedded_toolchain(), forks=not options.programs))
    tasks = require_tasks(options.filter)
    slow = False
    with own_code_cache() as cache:
        references = [reference_seconds(task, toolchain, options.size) for task in tasks]
        wall, cpu = (sum(column) for column in zip(*references, strict=True))
        print(f"{len(tasks)} references on 8 inputs, compilation included: {wall:.1f} s wall, {cpu:.1f} s CPU")
        slow |= wall >= REFERENCES_LIMIT_S
        rows = []
        for task in tasks if options.repeats else ():
            rows.append(candidate_seconds(task, toolchain, options.size, options.repeats, cache))
            print(f"{task.name:24}{rows[-1][0]:8.2f} s wall{rows[-1][1]:8.2f} s CPU", flush=True)
        if rows:
            wall, cpu = (median(column) for column in zip(*rows, strict=True))
            print(f"median of {len(rows)} tasks: {wall:.2f} s wall, {cpu:.2f} s CPU a candidate")
            slow |= wall >= CANDIDATE_LIMIT_S
    return int(slow)


if __name__ == "__main__":
    sys.exit(answer(lambda: main(sys.argv[1:])))
