"""Run the reference programs of the tasks with any tools, and compare them with their oracles.

    python -m fabrica_bench.tasks.measure --arch wse3 --size small

Both references are run: `expert` is pe.csl, `plain` is plain.csl in its place. The tools are processes, by default the
embedded ones, so that any `cslc` and `cs_python` can be measured. Cycles are the median over one visible input of every
distribution. The scorer's own verdict on the references, which spec.yaml records, comes from `fabrica-bench tasks
validate`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any, Final

import numpy as np

from fabrica_bench.errors import ExitCode, FabricaError, UnknownNameError, answer
from fabrica_bench.tasks.recording import VARIANTS, Variant
from fabrica_bench.tasks.seeds import visible_seed
from fabrica_bench.tasks.selection import require_tasks
from fabrica_bench.tasks.spec import ARCHS, Arch
from fabrica_bench.tasks.task import Task

STEP_TIMEOUT_S: Final = 600


@dataclass(frozen=True)
class Tools:
    """The two commands, as argument lists."""

    cslc: tuple[str, ...] = (sys.executable, "-m", "fabrica_bench.compat.cslc")
    cs_python: tuple[str, ...] = (sys.executable, "-m", "fabrica_bench.compat.cs_python")


@dataclass(frozen=True)
class Measurement:
    """One reference at one size.

    Attributes:
        cycles: Median over the runs; None when there was none.
        runs: Distributions that were run and agreed with the oracle.
        max_ratio: Largest error as a share of the tolerance.
        problem: What went wrong first; empty if nothing.
        seconds: Wall time of build and runs.
    """

    task: str
    arch: Arch
    size: str
    variant: Variant
    cycles: int | None
    runs: int
    max_ratio: float
    problem: str
    seconds: float


class StepFailed(Exception):
    """A build or run ended badly; the message is its last line."""


def measure(
    task: Task, arch: Arch, size_name: str, variant: Variant, tools: Tools, *, every: bool = True
) -> Measurement:
    """Build one reference and run it on the first distribution, or on all of them.

    Args:
        every: Whether to run all distributions.
    """
    started = time.monotonic()
    samples: list[int] = []
    ratio, problem = 0.0, ""
    with tempfile.TemporaryDirectory(prefix="fabrica-measure-") as name:
        folder = Path(name)
        try:
            _build(task, arch, size_name, variant, tools, folder)
            for index, distribution in enumerate(task.distributions if every else task.distributions[:1]):
                found, worst = _run(task, size_name, index, distribution, tools, folder)
                samples.append(found)
                ratio = max(ratio, worst)
        except (StepFailed, FabricaError) as error:
            problem = str(error)
    cycles = median_low(samples) if samples else None
    seconds = time.monotonic() - started
    return Measurement(task.name, arch, size_name, variant, cycles, len(samples), ratio, problem, seconds)


def _build(task: Task, arch: Arch, size_name: str, variant: Variant, tools: Tools, folder: Path) -> None:
    bundle = task.spec.bundle
    for name in (bundle.layout, bundle.compute, bundle.window, *bundle.runner_files):
        shutil.copyfile(task.bundle_dir / name, folder / name)
    if variant == "plain" and bundle.plain is not None:
        shutil.copyfile(task.bundle_dir / bundle.plain, folder / bundle.compute)
    flags = task.compile_flags(task.size(size_name), arch)
    _step("build", [*tools.cslc, bundle.layout, *flags, "-o", "out"], folder)


def _run(task: Task, size_name: str, index: int, distribution: str, tools: Tools, folder: Path) -> tuple[int, float]:
    size = task.size(size_name)
    inputs = task.inputs(visible_seed(task.name, index), size, distribution)
    np.savez(folder / "inputs.npz", **inputs)  # type: ignore[arg-type]
    command = [*tools.cs_python, task.spec.bundle.runner, "--name", "out", "--inputs", "inputs.npz"]
    _step(distribution, [*command, "--outputs", "outputs.npz"], folder)
    with np.load(folder / "outputs.npz", allow_pickle=False) as file:
        outputs: dict[str, np.ndarray[Any, Any]] = dict(file)
    cycles = int(outputs.pop("cycles"))
    checks = task.check(outputs, inputs, size)
    for check in checks:
        if not check.ok:
            raise StepFailed(f"{distribution}: {check.name} {check.reason}")
    return cycles, max(check.max_ratio for check in checks)


def _step(what: str, command: Sequence[str], folder: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise StepFailed(f"{what}: more than {STEP_TIMEOUT_S} s") from None
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        told = next((line for line in lines if "error:" in line or line.startswith("fabrica-sim:")), "")
        raise StepFailed(f"{what}: {told or (lines or ['no message'])[-1]}")


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fabrica_bench.tasks.measure",
        description="Run the reference programs with any tools, and compare them with their oracles.",
        epilog="examples:\n  python -m fabrica_bench.tasks.measure\n"
        "  python -m fabrica_bench.tasks.measure --filter name=ReLU-1PE --arch wse3 --size small",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--filter", nargs="*", default=(), help="tasks, e.g. set=core level=1 (default: all)")
    parser.add_argument("--tasks", type=Path, help="another tasks folder")
    parser.add_argument("--arch", choices=ARCHS, help="one target (default: all that the task supports)")
    parser.add_argument("--size", help="one size (default: all)")
    parser.add_argument("--variant", choices=VARIANTS, help="one reference (default: both)")
    parser.add_argument("--quick", action="store_true", help="only the first distribution")
    parser.add_argument("--cslc", help="another compiler command")
    parser.add_argument("--cs-python", help="another runner command")
    return parser


def _jobs(tasks: Sequence[Task], options: argparse.Namespace) -> Iterator[tuple[Task, Arch, str, Variant]]:
    for task in tasks:
        for arch in task.spec.bundle.archs:
            for size in task.spec.size_names:
                for variant in VARIANTS:
                    wanted = options.arch in (None, arch) and options.size in (None, size)
                    exists = variant == "expert" or task.spec.bundle.plain is not None
                    if wanted and exists and options.variant in (None, variant):
                        yield task, arch, size, variant


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    options = parser().parse_args(argv)
    return answer(lambda: work(options))


def work(options: argparse.Namespace) -> int:
    """Do what the options say, show it on standard output, and return the exit code. Raises `FabricaError`."""
    tools = Tools()
    if options.cslc or options.cs_python:
        if not (options.cslc and options.cs_python):
            raise FabricaError(
                "another toolchain needs both of its commands",
                remedy="pass --cslc and --cs-python together",
                code=ExitCode.USAGE,
            )
        tools = Tools(tuple(shlex.split(options.cslc)), tuple(shlex.split(options.cs_python)))
    tasks = require_tasks(options.filter, options.tasks)
    sizes = {size for task in tasks for size in task.spec.size_names}
    if options.size is not None and options.size not in sizes:
        raise UnknownNameError("size", options.size, sizes)
    found: list[Measurement] = []
    for task, arch, size, variant in _jobs(tasks, options):
        item = measure(task, arch, size, variant, tools, every=not options.quick)
        found.append(item)
        _show(task, item)
    good = sum(not item.problem for item in found)
    sys.stdout.write(f"{good} of {len(found)} agree with their oracles\n")
    return int(ExitCode.OK if good == len(found) > 0 else ExitCode.FAILURE)


def _show(task: Task, item: Measurement) -> None:
    head = f"{item.task:20} {item.arch} {item.size:7} {item.variant:7}"
    if item.problem:
        sys.stdout.write(f"{head} FAIL {item.problem}\n")
    else:
        published = task.spec.size(item.size).published_cycles if item.arch == "wse3" else None
        beside = f"published {published}" if published else ""
        figures = f"{item.cycles:>8} cycles  error/allowed {item.max_ratio:.3f}  {item.seconds:5.1f} s  {beside}"
        sys.stdout.write(f"{head} {figures.rstrip()}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
