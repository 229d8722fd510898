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


#: One task of each kind of program; `nox -s slow` runs all of them.
SAMPLE = ("ReLU-1PE", "Laplacian2D-Halo", "ParReduce-Sum", "GEMV-Checkerboard", "FFT-1D-2D")
EVERY = tuple(task.name for task in list_tasks())
CHOICES = [
    pytest.param(SAMPLE, id="sample"),
    pytest.param(EVERY, id="every", marks=pytest.mark.slow),
]


def run(agent: str, names: tuple[str, ...], folder: Path) -> RunConfig:
    return RunConfig(agent=agent, tasks=names, out=folder, jobs=min(os.cpu_count() or 1, 4))


@pytest.mark.parametrize("names", CHOICES)
def test_the_reference_is_valid_on_every_task_and_verifies(names: tuple[str, ...], tmp_path: Path) -> None:
    summary = execute_run(run("reference", names, tmp_path / "run"))
    assert {row.task: row.outcome for row in summary.rows if not row.valid} == {}
    assert all(row.speedup == 1.0 for row in summary.rows)
    # One task is enough here: what verification finds is tested elsewhere.
    report = verify_run(tmp_path / "run", only={"Laplacian2D-Halo"})
    assert (report.ok, report.checked) == (True, 1)


@pytest.mark.parametrize("names", CHOICES)
def test_a_program_that_computes_nothing_is_valid_on_no_task(names: tuple[str, ...], tmp_path: Path) -> None:
    summary = execute_run(run("null", names, tmp_path / "run"))
    assert summary.valid == 0
    for row in summary.rows:
        assert isinstance(row.verdict, Invalid), row.outcome
        # It builds, runs and keeps its contract; what takes long must also be too fast to be true.
        assert row.verdict.predicate in ("Timing", "Correct"), row.outcome


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["reference", "null", "cheat", "fabrica"])
def test_a_run_over_every_task_verifies_byte_for_byte(agent: str, tmp_path: Path) -> None:
    summary = execute_run(run(agent, EVERY, tmp_path / "run"))
    assert (summary.missing, len(summary.rows)) == (0, len(EVERY))
    report = verify_run(tmp_path / "run", jobs=min(os.cpu_count() or 1, 4))
    assert [f"{row.task}: {row.detail}" for row in report.rows if row.same is False] == []
    assert len(report.rows) == len(EVERY)
    # What isn't executed again has nothing to execute: the verdict rests on what the agent held, or there is no program.
    excused = ("rests on what the agent held", "nothing to execute")
    assert all(row.same or row.detail.startswith(excused) for row in report.rows)
    assert report.conditions == ()
