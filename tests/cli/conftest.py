"""Running the command line in process, as its console script does."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.cli_run import Cli, Outcome
from helpers.sample_run import write_sample_run

from fabrica_bench.cli.main import main


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run `fabrica-bench` with these words; a traceback on either stream fails the test."""

    def invoke(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Outcome(int(code), captured.out, captured.err)

    return invoke


@pytest.fixture
def sample_run(tmp_path: Path) -> Path:
    """A partial run with every kind of outcome."""
    return write_sample_run(tmp_path / "run")
