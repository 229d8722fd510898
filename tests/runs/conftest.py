"""Runs of toy agents on the fixture task with the scripted toolchain: real processes, no compiler or simulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.under_fire import fixture_environment

from fabrica_bench.plugins import Budget
from fabrica_bench.runs.config import RunConfig

TOY_AGENTS = Path(__file__).parents[1] / "fixtures" / "agents"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixture's tasks and agents, the scripted toolchain, and keys kept in the test's own folder."""
    for name, value in fixture_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
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
