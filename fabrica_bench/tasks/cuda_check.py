"""Check the CUDA sources of the tasks on a GPU: build each with nvcc, run it, compare with the float64 oracle.

    python -m fabrica_bench.tasks.cuda_check --out docs/cuda-validation.md

Every kernel runs over all sizes and distributions and three visible seeds. Outputs are poisoned with NaN patterns
before the run, and inputs must be unchanged after it. Without a GPU the sources are only compiled, and the exit code
says so.
Needs NumPy, pydantic, PyYAML and nvcc.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import datetime
import json
import math
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from fabrica_bench.errors import ExitCode, FabricaError, answer
from fabrica_bench.tasks.cuda_harness import ARG_TYPES, OLDEST_ARCH, Argument, arguments, harness_source
from fabrica_bench.tasks.oracle import Arrays
from fabrica_bench.tasks.seeds import visible_seed
from fabrica_bench.tasks.selection import require_tasks
from fabrica_bench.tasks.spec import NUMPY_DTYPE
from fabrica_bench.tasks.task import Task

SEEDS_PER_CASE: Final = 3
BUILD_TIMEOUT_S: Final = 300
WARNING_FLAGS: Final = ("-Werror", "all-warnings", "-Xcompiler=-Wall,-Wextra")


@dataclass(frozen=True)
class Device:
    """The GPU and software of a check."""

    name: str
    capability: str
    driver: str
    runtime: str


@dataclass
class TaskReport:
    """What was found for one task. Seconds are wall time, kernel_ms is the GPU's own time of all launches."""

    task: str
    sizes: list[str]
    runs: int = 0
    ok: bool = False
    max_error: float = 0.0
    max_ratio: float = 0.0
    build_s: float = 0.0
    run_s: float = 0.0
    kernel_ms: float = 0.0
    problems: list[str] = field(default_factory=list)


def find_nvcc() -> Path | None:
    """nvcc on PATH, else under /usr/local/cuda*, the newest version first."""
    found = shutil.which("nvcc")
    if found:
        return Path(found)
    candidates = sorted(Path("/usr/local").glob("cuda*/bin/nvcc"), reverse=True)
    return candidates[0] if candidates else None


def build(task: Task, nvcc: Path, library: Path, arch: str) -> str:
    """Compile kernel and harness into a shared library; warnings are errors. Returns nvcc's complaint or nothing."""
    source = library.with_suffix(".cu")
    source.write_text(harness_source(task), encoding="utf-8")
    command = [str(nvcc), "-std=c++17", "-O2", f"-arch={arch}", *WARNING_FLAGS, "-shared", "-Xcompiler=-fPIC"]
    command += ["-o", str(library), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"nvcc took more than {BUILD_TIMEOUT_S} s"
    return "" if done.returncode == 0 else (done.stderr + done.stdout).strip()


def oldest_arch(nvcc: Path) -> str:
    """The oldest GPU architecture, from sm_70 on, that this nvcc still compiles for."""
    listed = _output([str(nvcc), "--list-gpu-arch"])
    numbers = [line.removeprefix("compute_") for line in listed.split()]
    usable = [int(number) for number in numbers if number.isdigit() and int(number) >= OLDEST_ARCH]
    return f"sm_{min(usable, default=OLDEST_ARCH)}"


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


def device(library: ctypes.CDLL) -> Device | None:
    """The first GPU, or None when the CUDA runtime sees none."""
    name, numbers = ctypes.create_string_buffer(256), (ctypes.c_int * 4)()
    if library.harness_device(name, numbers) != 0:
        return None
    major, minor, driver, runtime = numbers
    smi = shutil.which("nvidia-smi")
    text = _cuda_version(driver)
    if smi:
        lines = _output([smi, "--query-gpu=driver_version", "--format=csv,noheader"]).split()
        text = f"{lines[0]} (CUDA {text})" if lines else text
    return Device(name.value.decode(), f"{major}.{minor}", text, _cuda_version(runtime))


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def cases(task: Task) -> Iterator[tuple[str, str, int]]:
    """Every (size, distribution, visible seed index)."""
    for size in task.spec.size_names:
        for distribution in task.distributions:
            for index in range(SEEDS_PER_CASE):
                yield size, distribution, index


def run_case(task: Task, library: ctypes.CDLL, size: dict[str, int], inputs: Arrays) -> tuple[Arrays, float]:
    """Run the kernel once. Returns the outputs and the GPU's milliseconds.

    Raises:
        FabricaError: A CUDA error, or an input that was changed.
    """
    buffers: list[np.ndarray[Any, Any]] = []
    values: list[Any] = []
    outputs: Arrays = {}
    for argument in arguments(task):
        if argument.kind == "size":
            values.append(ctypes.c_int(size[argument.name]))
        elif argument.kind == "value":
            values.append(ARG_TYPES[argument.dtype].ctype(inputs[argument.name][0].item()))
        else:
            buffer = _host_buffer(task, argument, size, inputs)
            buffers.append(buffer)
            values.append(buffer.ctypes.data_as(ctypes.c_void_p))
            if argument.kind in ("output", "inout"):
                outputs[argument.name] = buffer
    lengths = (ctypes.c_size_t * len(buffers))(*(buffer.nbytes for buffer in buffers))
    milliseconds = ctypes.c_float(0.0)
    status = library.harness_run(*values, lengths, ctypes.byref(milliseconds))
    if status != 0:
        library.harness_error.restype = ctypes.c_char_p
        raise FabricaError(f"CUDA error {status}: {library.harness_error(status).decode()}", place=str(task.cuda_path))
    pointers = [argument for argument in arguments(task) if argument.kind in ("input", "output", "inout")]
    for argument, buffer in zip(pointers, buffers, strict=True):
        if argument.kind == "input" and buffer.tobytes() != np.ascontiguousarray(inputs[argument.name]).tobytes():
            raise FabricaError(f"input '{argument.name}' was changed", place=str(task.cuda_path))
    return outputs, float(milliseconds.value)


def _host_buffer(task: Task, argument: Argument, size: dict[str, int], inputs: Arrays) -> np.ndarray[Any, Any]:
    if argument.kind in ("input", "inout"):
        return np.ascontiguousarray(inputs[argument.name]).copy()
    output = next(tensor for tensor in task.spec.outputs if tensor.name == argument.name)
    dtype = np.dtype(NUMPY_DTYPE[output.dtype])
    shape = task.shape(output, size)
    return np.frombuffer(b"\xff" * (math.prod(shape) * dtype.itemsize), dtype=dtype).copy().reshape(shape)


def check_task(task: Task, nvcc: Path, folder: Path, arch: str, *, run: bool) -> tuple[TaskReport, Device | None]:
    """Build one task and, if asked and possible, run all its cases."""
    report = TaskReport(task.name, list(task.spec.size_names))
    path = folder / f"{task.slug}.so"
    started = time.monotonic()
    complaint = build(task, nvcc, path, arch)
    report.build_s = time.monotonic() - started
    if complaint:
        lines = complaint.splitlines()
        told = [line for line in lines if "error" in line or "warning" in line]
        report.problems.append(f"nvcc: {(told or lines)[0]}")
        return report, None
    if not run:
        report.ok = True
        return report, None
    library = ctypes.CDLL(str(path))
    found = device(library)
    if found is None:
        report.problems.append("no GPU")
        return report, None
    started = time.monotonic()
    for size_name, distribution, index in cases(task):
        _check_case(task, library, (size_name, distribution, index), report)
    report.run_s = time.monotonic() - started
    report.ok = not report.problems and report.runs > 0
    return report, found


def _check_case(task: Task, library: ctypes.CDLL, case: tuple[str, str, int], report: TaskReport) -> None:
    size_name, distribution, index = case
    size = task.size(size_name)
    inputs = task.inputs(visible_seed(task.name, index), size, distribution)
    where = f"{size_name}/{distribution}/seed {index}"
    try:
        outputs, milliseconds = run_case(task, library, size, inputs)
    except FabricaError as error:
        report.problems.append(f"{where}: {error.message}")
        return
    report.runs += 1
    report.kernel_ms += milliseconds
    for check in task.check(outputs, inputs, size):
        if not check.ok:
            report.problems.append(f"{where}: {check.name} {check.reason}")
        report.max_error = max(report.max_error, 0.0 if math.isnan(check.max_error) else check.max_error)
        report.max_ratio = max(report.max_ratio, 0.0 if math.isnan(check.max_ratio) else check.max_ratio)


def markdown(reports: Sequence[TaskReport], found: Device, date: datetime.date, nvcc_version: str) -> str:
    """The page for docs/."""
    passed = sum(report.ok for report in reports)
    lines = [
        "# CUDA sources checked on a GPU",
        "",
        f"{passed} of {len(reports)} CUDA sources agree with their float64 oracles.",
        "",
        f"- Date: {date.isoformat()}",
        f"- GPU: {found.name}, compute capability {found.capability}",
        f"- Driver: {found.driver}; CUDA runtime {found.runtime}; {nvcc_version}",
        f"- Per task: every size and distribution with {SEEDS_PER_CASE} visible seeds; outputs poisoned before, "
        "inputs compared after the run",
        f"- Host: Python {platform.python_version()}, NumPy {np.__version__}",
        "",
        "Error is the largest absolute difference from the oracle, error/allowed the largest share of the tolerance.",
        "",
        "| task | sizes | runs | max error | error/allowed | build s | run s | GPU ms | result |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for report in reports:
        result = "pass" if report.ok else "**fail**"
        lines.append(
            f"| {report.task} | {', '.join(report.sizes)} | {report.runs} "
            f"| {report.max_error:.3g} | {report.max_ratio:.3f} | {report.build_s:.1f} | {report.run_s:.2f} "
            f"| {report.kernel_ms:.2f} | {result} |"
        )
    problems = [f"- {report.task}: {problem}" for report in reports for problem in report.problems[:5]]
    if problems:
        lines += ["", "## Failures", "", *problems]
    lines += ["", "Made by `python -m fabrica_bench.tasks.cuda_check --out docs/cuda-validation.md`.", ""]
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fabrica_bench.tasks.cuda_check",
        description="Build every CUDA source with nvcc and compare it with its oracle on a GPU.",
        epilog="examples:\n  python -m fabrica_bench.tasks.cuda_check --out docs/cuda-validation.md\n"
        "  python -m fabrica_bench.tasks.cuda_check --filter name=SAXPY-1PE --compile-only",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="write the Markdown page here")
    parser.add_argument("--json", type=Path, help="write the results as JSON here")
    parser.add_argument("--filter", nargs="*", default=(), help="tasks, e.g. set=core level=1 (default: all)")
    parser.add_argument("--tasks", type=Path, help="another tasks folder")
    parser.add_argument("--compile-only", action="store_true", help="don't run; no GPU needed")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    options = parser().parse_args(argv)
    return answer(lambda: work(options))


def work(options: argparse.Namespace) -> int:
    """Do what the options say, show it on standard output, and return the exit code. Raises `FabricaError`."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise FabricaError(
            "there is no nvcc on PATH or under /usr/local/cuda, so no CUDA source was checked",
            remedy="install the CUDA toolkit, or run this on a machine that has one",
            code=ExitCode.ENVIRONMENT,
        )
    tasks = require_tasks(options.filter, options.tasks)
    reports: list[TaskReport] = []
    found: Device | None = None
    run = not options.compile_only
    with tempfile.TemporaryDirectory(prefix="fabrica-cuda-") as folder:
        arch = oldest_arch(nvcc)
        for task in tasks:
            report, on = check_task(task, nvcc, Path(folder), arch, run=run)
            found = found or on
            reports.append(report)
            _show(report, run and on is not None)
    if run and found is None and not any("nvcc" in problem for report in reports for problem in report.problems):
        raise FabricaError(
            f"no GPU: all CUDA sources ({len(reports)}) compile for {arch}, but none was run",
            remedy="run it on a machine with an NVIDIA GPU, or pass --compile-only",
            code=ExitCode.ENVIRONMENT,
        )
    _write(options, reports, found, nvcc)
    return int(ExitCode.OK if reports and all(report.ok for report in reports) else ExitCode.FAILURE)


def _show(report: TaskReport, ran: bool) -> None:
    failed = any(problem != "no GPU" for problem in report.problems)
    if ran:
        figures = f"{report.runs} runs, error/allowed {report.max_ratio:.3f}, {report.run_s:.2f} s"
        sys.stdout.write(f"{'FAIL' if failed else 'pass'}  {report.task}: {figures}\n")
    else:
        sys.stdout.write(f"{'FAIL' if failed else 'compiled'}  {report.task} in {report.build_s:.1f} s\n")
    for problem in report.problems[:5]:
        if problem != "no GPU":
            sys.stdout.write(f"      {problem}\n")
    sys.stdout.flush()


def _write(options: argparse.Namespace, reports: list[TaskReport], found: Device | None, nvcc: Path) -> None:
    version = _output([str(nvcc), "--version"])
    release = next((line.strip() for line in version.splitlines() if "release" in line), "nvcc")
    today = datetime.datetime.now(datetime.UTC).date()
    if options.out and found:
        options.out.write_text(markdown(reports, found, today, release), encoding="utf-8")
    if options.json:
        record = {
            "date": today.isoformat(),
            "nvcc": release,
            "device": dataclasses.asdict(found) if found else None,
            "tasks": [dataclasses.asdict(report) for report in reports],
        }
        options.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
