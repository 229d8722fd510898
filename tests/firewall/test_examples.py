"""Worked examples: training tasks only, never the task at hand, and nothing that holds a hidden kernel."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fabrica_bench.firewall import examples
from fabrica_bench.firewall.examples import worked_examples
from fabrica_bench.tasks import list_tasks, load_task

TRAINING = [t.name for t in list_tasks(["split=train"])]


def test_there_is_a_training_split() -> None:
    assert len(TRAINING) >= 2


@pytest.mark.parametrize("name", TRAINING)
def test_a_training_task_is_no_example_of_itself(name: str) -> None:
    task = load_task(name)
    given = [e.name for e in worked_examples(task, "W1")]
    assert name not in given
    assert set(given) <= set(TRAINING)
    own = task.root / "csl" / task.spec.bundle.compute
    assert all(own.read_text() != text for e in worked_examples(task, "W1") for text in e.files.values())


@pytest.mark.parametrize("name", ["Laplacian2D-Halo", "Sum-Reduction-1PE"])
def test_a_test_task_gets_training_tasks_with_layout_and_kernel(name: str) -> None:
    task = load_task(name)
    assert task.spec.split == "test"
    given = worked_examples(task, "W1")
    assert given
    assert {e.name for e in given} <= set(TRAINING)
    assert all({"layout.csl", "pe.csl"} <= set(e.files) and "__global__" in e.cuda for e in given)


def test_an_example_that_holds_the_hidden_kernel_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training task whose kernel is that of the task at hand under another name."""
    task = load_task("Sum-Reduction-1PE")
    other = load_task(TRAINING[0])
    copy = tmp_path / other.root.name
    shutil.copytree(other.root, copy)
    shutil.copy(task.root / "csl" / task.spec.bundle.compute, copy / "csl" / other.spec.bundle.compute)
    poisoned = load_task(f"{copy}/")
    monkeypatch.setattr(examples, "list_tasks", lambda: [poisoned, load_task(TRAINING[1])])
    assert [e.name for e in worked_examples(task, "W1")] == [TRAINING[1]]
