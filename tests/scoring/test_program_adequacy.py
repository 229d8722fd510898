"""The scorer rejects every wrong program of the family, for its results, and lets honest variants pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabrica_bench.integrity.wrong_programs import FAMILY
from fabrica_bench.scoring.adequacy_run import measure_tasks
from fabrica_bench.scoring.program_adequacy import ProgramAdequacy, Tier
from fabrica_bench.tasks import Task, list_tasks, load_task
from fabrica_bench.tasks.spec import Arch

BY_NAME = pytest.mark.parametrize("task", list_tasks(), ids=lambda task: task.slug)


def measured(
    task: Task, arch: Arch = "wse3", tier: Tier = "programs", state: Path | None = None
) -> tuple[ProgramAdequacy, list[str]]:
    """The result, and the tasks that were measured for it."""
    seen: list[str] = []
    (found,) = measure_tasks(
        [task], tier, size="small", arch=arch, jobs=1, state=state, report=lambda item, left: seen.append(item.task)
    )
    assert found.of("survived") == ()
    assert found.honest_rejected == ()
    assert found.ok
    return found, seen


def test_wrong_programs_are_killed_by_their_results_and_finished_tasks_are_kept(tmp_path: Path) -> None:
    state, task = tmp_path / "state.jsonl", load_task("ParReduce-Sum")
    found, seen = measured(task, state=state)
    assert seen == [task.name]
    assert [item.name for item in found.tried] == list(FAMILY)
    assert {item.by for item in found.of("killed")} == {"Correct"}
    assert [item.name for item in found.of("not applicable")] == ["wrong order"]
    hard = next(item for item in found.tried if item.name == "hard-coded visible seed")
    assert hard.reason.startswith("visible 1"), "it is right on the input that it was made from"
    assert found.honest == 2
    state.write_text(state.read_text(encoding="utf-8") + '{"key": "cut o', encoding="utf-8")
    assert measured(task, state=state) == (found, [])


def test_mutations_of_a_kernel_are_killed() -> None:
    found, _ = measured(load_task("Prefix-Sum-1PE"), "wse2", "mutations")
    assert len(found.of("killed")) >= 4


@pytest.mark.slow
@BY_NAME
def test_every_task_rejects_the_whole_family(task: Task) -> None:
    measured(task, task.spec.bundle.archs[-1])
