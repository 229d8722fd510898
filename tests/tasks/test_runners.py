"""Runners must notice wrong outputs and changed inputs.

A stand-in for the vendor's host module holds the device's arrays: a launch of the entry fills the outputs with what
the test prepared, right or corrupted. Where in a device's array an element of the output lies, only the runner knows:
a first run on arrays that hold their own indices tells.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from fabrica_bench.tasks import Task, list_tasks
from fabrica_bench.tasks.oracle import Arrays
from fabrica_bench.tasks.seeds import visible_seed
from fabrica_bench.tasks.spec import NUMPY_DTYPE

TASKS = list_tasks()
BY_NAME = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)

STAND_IN = """
import numpy as np


class MemcpyDataType:
    MEMCPY_16BIT, MEMCPY_32BIT = 16, 32


class MemcpyOrder:
    ROW_MAJOR = 0


class SdkRuntime:
    def __init__(self, name, cmaddr=None):
        self.memory, self.log = {}, []
        self.plan = dict(np.load("device.npz"))

    def load(self):
        pass

    run = stop = load

    def get_id(self, name):
        return name

    def memcpy_h2d(self, symbol, flat, px, py, w, h, l, **options):
        assert flat.dtype == np.uint32 and flat.size == w * h * l
        self.memory[symbol] = flat.reshape(h, w, l).copy()

    def memcpy_d2h(self, flat, symbol, px, py, w, h, l, **options):
        flat[:] = self.memory[symbol].ravel()

    def launch(self, name, *arguments, nonblock):
        self.log.append(name)
        assert self.log[0] == "window_open" and len(self.log) <= 2
        if name != "window_open":
            for key, array in self.plan.items():
                self._change(*key.split(" "), array)

    def _change(self, action, symbol, array):
        memory = self.memory[symbol]
        if action == "number":
            memory[...] = np.arange(memory.size).reshape(memory.shape)
        elif action == "alter":
            memory[...] = 0x3F800001
        else:
            memory.reshape(-1)[self.plan["place " + symbol]] = array if action == "value" else 0
        stamps = np.zeros((*memory.shape[:2], 6), dtype=np.uint32)
        stamps[..., 0], stamps[..., 3] = 100, 350
        stamps[0, 0, 0] = 90
        self.memory["window_stamps"] = stamps
"""


def _words(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements as the device's words; 16-bit ones in the lower half."""
    return np.ascontiguousarray(array).view(f"uint{8 * array.dtype.itemsize}").astype(np.uint32)


@cache
def _places(task_name: str) -> dict[str, np.ndarray[Any, Any]]:
    """For every element of an output at the small size: its index among the words of the device's array."""
    task = next(task for task in TASKS if task.name == task_name)
    plan = {f"number {output.name}": np.zeros(0) for output in task.spec.outputs}
    with TemporaryDirectory() as folder:
        code, errors, written = _start(task, Path(folder), plan, "--no-check")
    assert (code, errors) == (0, "")
    return {output.name: _words(written[output.name]) for output in task.spec.outputs}


def _run(task: Task, folder: Path, change: Callable[[Arrays, set[str]], None], *flags: str) -> tuple[int, str, Arrays]:
    """Run run.py after `change` has altered the right outputs, and named inputs that the program would change."""
    size = task.size("small")
    inputs = task.inputs(visible_seed(task.name, 0), size, task.distributions[0])
    exact = task.expected(inputs, size)
    outputs = {output.name: exact[output.name].astype(NUMPY_DTYPE[output.dtype]) for output in task.spec.outputs}
    altered: set[str] = set()
    change(outputs, altered)
    plan = {f"alter {name}": np.zeros(0) for name in altered}
    for name, places in _places(task.name).items():
        plan[f"place {name}"] = places.ravel()
        plan[f"value {name}"] = _words(outputs[name]).ravel()
    return _start(task, folder, plan, *flags)


def _start(task: Task, folder: Path, plan: Arrays, *flags: str) -> tuple[int, str, Arrays]:
    """Run run.py on the stand-in, which follows the plan when the entry is launched: exit code, errors, outputs."""
    size = task.size("small")
    inputs = task.inputs(visible_seed(task.name, 0), size, task.distributions[0])
    np.savez(folder / "device.npz", **plan)  # type: ignore[arg-type]
    np.savez(folder / "inputs.npz", **inputs)  # type: ignore[arg-type]
    package = folder / "cerebras" / "sdk" / "runtime"
    package.mkdir(parents=True)
    (package / "sdkruntimepybind.py").write_text(STAND_IN, encoding="utf-8")
    (folder / "out").mkdir()
    params = ", ".join(f'"{name}": "{value}"' for name, value in size.items())
    (folder / "out" / "out.json").write_text(f'{{"params": {{{params}}}}}', encoding="utf-8")
    runner = task.bundle_dir / task.spec.bundle.runner
    command = [
        sys.executable,
        str(runner),
        "--name",
        "out",
        "--inputs",
        "inputs.npz",
        "--outputs",
        "result.npz",
        *flags,
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    written: dict[str, np.ndarray[Any, Any]] = {}
    if (folder / "result.npz").exists():
        with np.load(folder / "result.npz", allow_pickle=False) as file:
            written = dict(file)
    return done.returncode, done.stderr, written


def _keep(outputs: Arrays, altered: set[str]) -> None:
    pass


def _first_off(outputs: Arrays, altered: set[str]) -> None:
    for array in outputs.values():
        array.ravel()[0] += 1.0


def _last_off(outputs: Arrays, altered: set[str]) -> None:
    for array in outputs.values():
        last = array.ravel()[-1]
        shift = 1e-2 if array.dtype == np.float32 else 1.0
        array.ravel()[-1] = last + 1 if array.dtype.kind in "iu" else last + shift * max(1.0, abs(float(last)))


def _nan(outputs: Arrays, altered: set[str]) -> None:
    for array in outputs.values():
        middle = array.ravel()[array.size // 2]
        array.ravel()[array.size // 2] = np.nan if array.dtype.kind == "f" else middle ^ 0x7531


def _zeros(outputs: Arrays, altered: set[str]) -> None:
    for array in outputs.values():
        array[...] = 0


def _never_written(outputs: Arrays, altered: set[str]) -> None:
    for array in outputs.values():
        array[...] = np.frombuffer(b"\xff" * array.nbytes, array.dtype).reshape(array.shape)


@BY_NAME
def test_right_outputs_pass_and_are_written(task: Task, tmp_path: Path) -> None:
    code, errors, written = _run(task, tmp_path, _keep)
    assert (code, errors) == (0, "")
    size = task.size("small")
    columns, rows = task.mesh(size)
    for output in task.spec.outputs:
        assert written[output.name].shape == task.shape(output, size)
        assert written[output.name].dtype == np.dtype(NUMPY_DTYPE[output.dtype])
    assert written["stamps"].shape == (rows, columns, 6)
    assert written["stamps"].dtype == np.uint16
    assert written["cycles"].dtype == np.int64
    assert int(written["cycles"]) == 260


@BY_NAME
@pytest.mark.parametrize("change", [_first_off, _last_off, _nan, _zeros, _never_written])
def test_corrupted_outputs_fail(task: Task, tmp_path: Path, change: Callable[[Arrays, set[str]], None]) -> None:
    code, errors, _ = _run(task, tmp_path, change)
    assert code == 1
    assert "run.py: " in errors
    assert "Traceback" not in errors


@BY_NAME
def test_without_the_check_only_the_outputs_are_written(task: Task, tmp_path: Path) -> None:
    code, errors, written = _run(task, tmp_path, _first_off, "--no-check")
    assert (code, errors) == (0, "")
    assert task.spec.outputs[0].name in written


def _kept_inputs(task: Task) -> list[str]:
    """Inputs in device memory that the program must leave as they are."""
    outputs = {output.name for output in task.spec.outputs}
    passed = set(task.spec.cuda.args) - {arg.value for arg in task.spec.entry.args}
    return [tensor.name for tensor in task.spec.inputs if tensor.name in passed - outputs]


@pytest.mark.parametrize("task", [task for task in TASKS if _kept_inputs(task)], ids=lambda task: task.slug)
def test_a_changed_input_fails_even_without_the_check(task: Task, tmp_path: Path) -> None:
    name = _kept_inputs(task)[0]

    def change(_: Arrays, altered: set[str]) -> None:
        altered.add(name)

    code, errors, _ = _run(task, tmp_path, change, "--no-check")
    assert code == 1
    assert f"the program changed its input {name}" in errors


def test_inputs_of_the_wrong_form_are_refused(tmp_path: Path) -> None:
    task = next(task for task in TASKS if task.name == "ReLU-1PE")
    _run(task, tmp_path, _keep)
    np.savez(tmp_path / "inputs.npz", x=np.zeros(5, np.float64))
    runner = task.bundle_dir / task.spec.bundle.runner
    done = subprocess.run(
        [sys.executable, str(runner), "--name", "out", "--inputs", "inputs.npz"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "run.py: input x is float64 [5], not float32 [512]" in done.stderr
