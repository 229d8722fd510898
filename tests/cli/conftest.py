"""Running the command line in process, as its console script does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fabrica_bench.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


Cli = Callable[..., Outcome]


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


def assert_one_clear_error(outcome: Outcome, code: int, *mentions: str) -> None:
    """The command failed with this code and one message that mentions all of that and says what to do."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, outcome.err
    assert "  fix: " in outcome.err
    for mention in mentions:
        assert mention in outcome.err
