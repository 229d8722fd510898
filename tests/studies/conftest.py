"""Studies over the fixture task with toy agents and the scripted toolchain."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers.double_it import FIXTURE_TASKS

ROOT = Path(__file__).parents[2]
TOY_AGENTS = Path(__file__).parents[1] / "fixtures" / "agents"


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As for the tests of runs; returns a folder for the study."""
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(FIXTURE_TASKS))
    monkeypatch.setenv("FABRICA_BENCH_TEST_DOUBLES", "1")
    monkeypatch.setenv("FABRICA_BENCH_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (TOY_AGENTS, ROOT, ROOT / "agents"))))
    monkeypatch.syspath_prepend(str(TOY_AGENTS))
    return tmp_path / "study"
