"""Runs of toy agents on the fixture task with the scripted toolchain: real processes, no compiler or simulator."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.double_it import FIXTURE_TASKS

from fabrica_bench.plugins import Budget
from fabrica_bench.runs.config import RunConfig

ROOT = Path(__file__).parents[2]
TOY_AGENTS = Path(__file__).parents[1] / "fixtures" / "agents"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixture's tasks and agents, the scripted toolchain, and keys kept in the test's own folder."""
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(FIXTURE_TASKS))
    monkeypatch.setenv("FABRICA_BENCH_TEST_DOUBLES", "1")
    monkeypatch.setenv("FABRICA_BENCH_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (TOY_AGENTS, ROOT, ROOT / "agents"))))
    monkeypatch.syspath_prepend(str(TOY_AGENTS))


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., RunConfig]:
    """Makes a configuration; keyword arguments replace fields."""

    def make(agent: str = "toy", **fields: object) -> RunConfig:
        defaults = {
            "agent": agent,
            "tasks": ("Double-It",),
            "out": tmp_path / "run",
            "toolchain": "scripted",
            "budget": Budget(evaluations=5, wall_s=20.0, tokens=0),
        }
        return RunConfig.model_validate({**defaults, **fields})

    return make
