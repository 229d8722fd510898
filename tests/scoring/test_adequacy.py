"""The comparison of outputs kills every wrong program of the fixed family, on every task, and lets right ones pass."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.double_it import KEY, double_it

from fabrica_bench.integrity.mutants import FAMILY, HONEST, Case, cast
from fabrica_bench.scoring.adequacy import measure_adequacy
from fabrica_bench.tasks import Task, list_tasks
from fabrica_bench.tasks.spec import Tolerance

TASKS = list_tasks()
BY_NAME = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)


@BY_NAME
def test_every_wrong_result_is_killed_and_every_right_one_passes(task: Task) -> None:
    found = measure_adequacy(task, "small", KEY)
    assert found.survived == ()
    assert found.honest_rejected == ()
    assert len(found.killed) >= 10
    assert set(found.killed) | set(found.equivalent) == set(FAMILY)


def test_a_wide_tolerance_lets_mutants_survive_and_is_noticed() -> None:
    task = double_it()
    wide = Tolerance(atol="1000", rtol="0", derivation="much too wide, on purpose, for this test")
    output = task.spec.outputs[0].model_copy(update={"tolerance": wide})
    loose = dataclasses.replace(task, spec=task.spec.model_copy(update={"outputs": (output,)}))
    found = measure_adequacy(loose, "small", KEY)
    assert {"zeros", "constant", "wrong order", "halo off by one"} <= set(found.survived)
    assert "NaN" in found.killed
    assert not found.ok


def test_the_family_is_the_promised_one() -> None:
    assert len(FAMILY) == 12
    assert len(HONEST) >= 2


def test_mutants_do_what_their_names_say() -> None:
    task = double_it()
    size = task.size("small")
    inputs = task.inputs(7, size, task.distributions[0])
    case = Case(task, size, inputs, task.inputs(8, size, task.distributions[0]))
    right = case.right()["y"]

    def of(name: str) -> np.ndarray:
        outputs = FAMILY[name](case)
        assert outputs is not None
        return outputs["y"]

    assert np.array_equal(of("copy of the input"), inputs["x"])
    assert np.array_equal(of("wrong order"), right[::-1])
    assert np.array_equal(of("halo off by one"), np.roll(right, 1))
    assert np.array_equal(of("last element only")[-1:], right[-1:])
    assert not of("last element only")[:-1].any()
    assert np.isnan(of("stale output")).all()
    assert np.isnan(of("NaN")).sum() == 1
    assert (of("one tile missing") != right).sum() == right.size // 4
    assert np.array_equal(of("lower precision"), right.astype(np.float16).astype(np.float32))
    assert np.array_equal(of("hard-coded visible seed"), 2 * case.visible["x"])
    assert cast(np.array([1.5, -2.5]), "int32").tolist() == [2, -2]
