"""Oracles: pure, in keeping with the spec, dependent on every input, and with tolerances that tell right from wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fabrica_bench.errors import FabricaError
from fabrica_bench.tasks import Task, list_tasks
from fabrica_bench.tasks.oracle import Arrays, Oracle, impurities
from fabrica_bench.tasks.seeds import visible_seed
from fabrica_bench.tasks.spec import NUMPY_DTYPE

TASKS = list_tasks()
BY_NAME = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)


def _cases(task: Task) -> Iterator[tuple[dict[str, int], str, Arrays]]:
    for name in task.spec.size_names:
        for index, distribution in enumerate(task.distributions):
            size = task.size(name)
            yield size, distribution, task.inputs(visible_seed(task.name, index), size, distribution)


@BY_NAME
def test_inputs_and_results_keep_to_the_spec(task: Task) -> None:
    for size, _, inputs in _cases(task):
        expected = task.expected(inputs, size)
        allowed = task.allowed_error(inputs, expected, size)
        for output in task.spec.outputs:
            assert expected[output.name].dtype == np.float64
            assert (allowed[output.name] >= 0).all()


@BY_NAME
def test_the_same_seed_gives_the_same_inputs_and_another_one_others(task: Task) -> None:
    size = task.size("small")
    for distribution in task.distributions:
        one, again, other = (task.inputs(seed, size, distribution) for seed in (1, 1, 2))
        assert all(np.array_equal(one[name], again[name]) for name in one)
        assert any(not np.array_equal(one[name], other[name]) for name in one)


@BY_NAME
def test_the_result_depends_on_every_input(task: Task) -> None:
    """Perturbing any input, at several places, moves an output by more than its tolerance.

    Numbers are made larger than all others, and, where a maximum hides that, very much larger. Of integers, which may
    be labels, indices or values that share a bucket, one of several changes must do.
    """
    size = task.size("small")
    inputs = task.inputs(7, size, task.distributions[0])
    expected = task.expected(inputs, size)
    allowed = task.allowed_error(inputs, expected, size)
    for name, array in inputs.items():
        flat = array.ravel()
        for place in sorted({0, flat.size // 3, flat.size - 1}):
            value = flat[place]
            top = np.abs(array).max()
            integers = array.dtype.kind != "f"
            others = [value + 1, value ^ 64, value // 2, 1] if integers else [2 * top + 1, 1000 * top]
            shifts = []
            for other in others:
                changed = {key: value.copy() for key, value in inputs.items()}
                changed[name].ravel()[place] = np.asarray(other, dtype=array.dtype)
                moved = task.expected(changed, size)
                shifts.append(max(float((np.abs(moved[key] - expected[key]) - allowed[key]).max()) for key in expected))
            assert max(shifts) > 0, f"{task.name} ignores element {place} of {name}"


@BY_NAME
def test_rounding_the_exact_result_is_accepted(task: Task) -> None:
    for size, distribution, inputs in _cases(task):
        exact = task.expected(inputs, size)
        outputs = _stored(task, exact)
        assert all(check.ok for check in task.check(outputs, inputs, size)), distribution


@BY_NAME
def test_zeros_and_copies_of_half_precision_are_refused(task: Task) -> None:
    """Zeros, and f32 inputs that went through f16, must fail in some distribution at the small size."""
    size = task.size("small")
    zeros, halves = [], []
    for index, distribution in enumerate(task.distributions):
        inputs = task.inputs(visible_seed(task.name, index), size, distribution)
        exact = task.expected(inputs, size)
        nothing = {name: np.zeros_like(array) for name, array in _stored(task, exact).items()}
        zeros.append(_accepted(task, nothing, inputs, size))
        coarse = {
            name: array.astype(np.float16).astype(array.dtype) if array.dtype == np.float32 else array
            for name, array in inputs.items()
        }
        narrow = task.oracle.expected(coarse, size)
        halves.append(_accepted(task, _stored(task, narrow), inputs, size))
    assert not all(zeros)
    if any(tensor.dtype == "f32" for tensor in task.spec.inputs):
        assert not all(halves)


def _stored(task: Task, exact: Arrays) -> Arrays:
    """Exact results, rounded to the types that the device stores."""
    return {output.name: exact[output.name].astype(NUMPY_DTYPE[output.dtype]) for output in task.spec.outputs}


def _accepted(task: Task, outputs: Arrays, inputs: Arrays, size: dict[str, int]) -> bool:
    return all(check.ok for check in task.check(outputs, inputs, size))


def _serial_sum(values: np.ndarray) -> np.float32:
    return np.cumsum(values, dtype=np.float32)[-1]


def test_serial_f32_sums_stay_far_within_the_tolerance() -> None:
    """The derivation of the summation tolerances promises a wide margin for the worst honest order."""
    for name, honest in {
        "Prefix-Sum-1PE": lambda x, size: {"out": np.cumsum(x, dtype=np.float32)},
        "ParReduce-Sum": lambda x, size: {
            "result": np.array([_serial_sum(np.array([_serial_sum(part) for part in np.split(x, size["width"])]))])
        },
    }.items():
        task = next(task for task in TASKS if task.name == name)
        ratios = []
        for size_name in task.spec.size_names:
            size = task.size(size_name)
            for distribution in task.distributions:
                for index in range(10):
                    inputs = task.inputs(visible_seed(task.name, index), size, distribution)
                    ratios += [check.max_ratio for check in task.check(honest(inputs["x"], size), inputs, size)]
        assert max(ratios) < 0.5, name


def test_check_says_what_is_wrong() -> None:
    task = next(task for task in TASKS if task.name == "ReLU-1PE")
    size = task.size("small")
    inputs = task.inputs(1, size, "normal")
    right = {"out": np.maximum(inputs["x"], 0)}
    assert task.check(right, inputs, size)[0].ok
    wrong = right["out"].copy()
    wrong[3] += 1
    assert task.check({"out": wrong}, inputs, size)[0].reason.startswith("at [3]: ")
    wrong[3] = np.nan
    assert task.check({"out": wrong}, inputs, size)[0].reason == f"values that are not finite: 1 of {wrong.size}"
    wide = {"out": right["out"].astype(float)}
    assert "is float64 [512], not float32 [512]" in task.check(wide, inputs, size)[0].reason
    assert task.check({}, inputs, size)[0].reason == "missing"


def test_an_unknown_distribution_names_the_known_ones() -> None:
    with pytest.raises(FabricaError, match="unknown distribution of ReLU-1PE 'norml'") as caught:
        next(task for task in TASKS if task.name == "ReLU-1PE").inputs(1, {"n": 512}, "norml")
    assert "normal" in (caught.value.remedy or "")


# ------------------------------------------------------------------------------------------------- purity


@BY_NAME
def test_oracles_are_pure(task: Task) -> None:
    assert impurities((task.root / "oracle.py").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import os", "imports os"),
        ("from pathlib import Path", "imports from pathlib"),
        ("from . import other", "imports from ."),
        ("import numpy.ctypeslib", "imports numpy.ctypeslib"),
        ("import numpy as np\nx = np.random.rand(3)", "uses the global random state"),
        ("import numpy as np\nx = np.random.default_rng()", "uses .default_rng"),
        ("x = open('f')", "uses open"),
        ("x = eval('1')", "uses eval"),
        ("import numpy as np\nx = np.load('f')", "uses .load"),
        ("x = ().__class__", "uses .__class__"),
        ("def f():\n  global x\n  x = 1", "changes state"),
    ],
)
def test_impure_oracles_are_refused(tmp_path: Path, source: str, reason: str) -> None:
    path = tmp_path / "oracle.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(FabricaError) as caught:
        Oracle(path)
    assert reason in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.startswith(f"{path}:")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def inputs(rng, size, distribution): return {}", "has no function expected()"),
        ("def inputs(:", "not valid Python"),
        ("x = 1 / 0", "fails to load"),
    ],
)
def test_broken_oracles_are_refused(tmp_path: Path, source: str, message: str) -> None:
    path = tmp_path / "oracle.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(FabricaError, match=message.replace("(", r"\(").replace(")", r"\)")):
        Oracle(path)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return {'x': np.zeros(3, np.float32)}", "input 'x' is float32 \\[3\\], but the spec says float32 \\[512\\]"),
        ("return {'x': np.zeros(512)}", "is float64"),
        ("return {'x': np.full(512, np.nan, np.float32)}", "not finite"),
        ("return {}", "must return exactly x"),
        ("return {'x': [0] * 512}", "is list"),
    ],
)
def test_an_oracle_that_breaks_its_spec_is_blamed(tmp_path: Path, body: str, message: str) -> None:
    relu = next(task for task in TASKS if task.name == "ReLU-1PE")
    head = "import numpy as np\ndef expected(inputs, size):\n  return {}\ndef inputs(rng, size, distribution):\n"
    (tmp_path / "oracle.py").write_text(f"{head}  {body}\n", encoding="utf-8")
    with pytest.raises(FabricaError, match=message) as caught:
        Task(relu.spec, tmp_path).inputs(1, {"n": 512}, "normal")
    assert caught.value.place == str(tmp_path / "oracle.py")
