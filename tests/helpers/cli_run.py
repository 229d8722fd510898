"""What a command of the command line did, and what a good error looks like."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """Exit code and both streams."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


Cli = Callable[..., Outcome]


def assert_one_clear_error(outcome: Outcome, code: int, *mentions: str) -> None:
    """The command failed with this code and one message that mentions all of that and says what to do."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, outcome.err
    assert "  fix: " in outcome.err
    for mention in mentions:
        assert mention in outcome.err, outcome.err
