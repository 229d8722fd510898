"""A runner that doesn't look at its outputs is found out by falsifying them; only its exit status counts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fabrica_bench.scoring.runner_check import check_runner
from fabrica_bench.tasks import Task, list_tasks, load_task, tasks_root

BY_NAME = pytest.mark.parametrize("task", list_tasks(), ids=lambda task: task.slug)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copytree(tasks_root() / "relu-1pe", tmp_path / "relu-1pe")
    return tmp_path / "relu-1pe"


def test_the_shipped_runner_notices_every_change() -> None:
    found = check_runner(load_task("ReLU-1PE"))
    assert found.ok
    assert set(found.noticed) == {"zeros", "never written", "one bit", "not a number", "shifted"}


def test_a_runner_that_only_prints_success_is_caught(copied: Path) -> None:
    runner = copied / "csl" / "run.py"
    text = runner.read_text(encoding="utf-8")
    start = text.index("def check(")
    end = text.index("def main")
    lazy = 'def check(outputs, inputs, size):\n    print("SUCCESS")\n\n\n'
    runner.write_text(text[:start] + lazy + text[end:], encoding="utf-8")
    found = check_runner(load_task(str(copied)), changes=("zeros", "one bit"))
    assert found.missed == ("zeros", "one bit")
    assert not found.ok


def test_a_runner_that_always_fails_is_no_check_either(copied: Path) -> None:
    runner = copied / "csl" / "run.py"
    runner.write_text("import sys\nsys.exit('no such thing')\n", encoding="utf-8")
    found = check_runner(load_task(str(copied)), changes=("zeros",))
    assert found.refused_right
    assert found.why == "no such thing"
    assert not found.ok


@BY_NAME
def test_every_shipped_runner_notices_false_outputs(task: Task) -> None:
    changes = ("zeros", "one bit", "not a number")
    found = check_runner(task, task.spec.bundle.archs[-1], changes=changes)
    assert found.ok
    assert found.noticed == changes


@pytest.mark.slow
@BY_NAME
def test_every_shipped_runner_notices_every_change(task: Task) -> None:
    for arch in task.spec.bundle.archs:
        found = check_runner(task, arch)
        assert found.ok
        assert len(found.noticed) == 5
