"""What an integrity check reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Predicate(StrEnum):
    """The five parts of `Valid(P, S)`, in the order in which they are evaluated."""

    BUILD = "Build"
    RUN = "Run"
    CONTRACT = "Contract"
    TIMING = "Timing"
    CORRECT = "Correct"


@dataclass(frozen=True)
class Finding:
    """A violation, with its place in the candidate.

    Attributes:
        check: Name of the check, which is the name of its module.
        predicate: The part of `Valid` that it breaks.
        message: One sentence that says what is wrong and what is wanted.
        place: `file:line:column`, or what was measured.
    """

    check: str
    predicate: Predicate
    message: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message
