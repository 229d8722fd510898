"""Both references of every task on the embedded toolchain."""

from __future__ import annotations

import pytest

from fabrica_bench.tasks import Task, list_tasks
from fabrica_bench.tasks.measure import Tools, Variant, measure
from fabrica_bench.tasks.spec import ARCHS, Arch

TASKS = list_tasks()
BY_NAME = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)


@BY_NAME
def test_references_are_right_at_the_small_size_on_wse3_and_the_expert_is_quicker(task: Task) -> None:
    expert = measure(task, "wse3", "small", "expert", Tools())
    plain = measure(task, "wse3", "small", "plain", Tools(), every=False)
    assert (expert.problem, plain.problem) == ("", "")
    assert expert.cycles is not None
    assert plain.cycles is not None
    assert task.lower_bound(task.size("small"), "wse3") < expert.cycles < plain.cycles


@BY_NAME
def test_the_expert_is_right_at_the_medium_size_on_wse2(task: Task) -> None:
    found = measure(task, "wse2", "medium", "expert", Tools(), every=False)
    assert found.problem == ""
    assert found.cycles is not None
    assert found.cycles > task.lower_bound(task.size("medium"), "wse2")


@pytest.mark.slow
@BY_NAME
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("variant", ["expert", "plain"])
def test_references_are_right_everywhere(task: Task, arch: Arch, variant: Variant) -> None:
    for size in task.spec.size_names:
        found = measure(task, arch, size, variant, Tools())
        assert found.problem == "", size
