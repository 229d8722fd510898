"""Studies over the fixture task with toy agents and the scripted toolchain."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.under_fire import fixture_environment

TOY_AGENTS = Path(__file__).parents[1] / "fixtures" / "agents"


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As for the tests of runs; returns a folder for the study."""
    for name, value in fixture_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(TOY_AGENTS))
    return tmp_path / "study"
