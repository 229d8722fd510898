"""The controls hold on the real tasks and the real toolchain: the reference is valid everywhere, nothing is nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run
from fabrica_bench.runs.verification import verify_run
from fabrica_bench.scoring.verdict import Invalid
from fabrica_bench.tasks import list_tasks


@pytest.fixture(autouse=True)
def real_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FABRICA_BENCH_TASKS")
    monkeypatch.delenv("FABRICA_BENCH_TEST_DOUBLES")


def run(agent: str, folder: Path) -> RunConfig:
    names = tuple(task.name for task in list_tasks())
    return RunConfig(agent=agent, tasks=names, out=folder, jobs=min(os.cpu_count() or 1, 4))


def test_the_reference_is_valid_on_every_task_and_verifies(tmp_path: Path) -> None:
    summary = execute_run(run("reference", tmp_path / "run"))
    assert {row.task: row.outcome for row in summary.rows if not row.valid} == {}
    assert all(row.speedup == 1.0 for row in summary.rows)
    # One task is enough here: what verification finds is tested elsewhere.
    report = verify_run(tmp_path / "run", only={"Laplacian2D-Halo"})
    assert (report.ok, report.checked) == (True, 1)


def test_a_program_that_computes_nothing_is_valid_on_no_task(tmp_path: Path) -> None:
    summary = execute_run(run("null", tmp_path / "run"))
    assert summary.valid == 0
    for row in summary.rows:
        assert isinstance(row.verdict, Invalid), row.outcome
        assert row.verdict.predicate == "Correct", row.outcome
