"""Fixtures of the report tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.sample_run import write_sample_run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A partial run: two valid attempts, an invalid one, one not scored, one owed."""
    return write_sample_run(tmp_path / "run")
