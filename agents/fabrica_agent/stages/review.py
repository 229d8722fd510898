"""Stage 5, the part that needs no model: what kind of failure it was, and whether the last repair made things worse."""

from __future__ import annotations

import re
from typing import Final

from fabrica_agent.records import FailureKind, Review, Route
from fabrica_agent.reviewer import review_compile, review_run
from fabrica_agent.stages.records import Attempt
from fabrica_bench.plugins import CompileOutcome, VisibleRun

PREDICATES: Final = ("Build", "Run", "Contract", "Timing", "Correct")
"""In the order of evaluation: a program that fails a later one is nearer to being valid."""

_PREDICATE: Final = re.compile(rf"^({'|'.join(PREDICATES)})\b")


def failed_predicate(run: VisibleRun) -> str:
    """The predicate that a visible run names."""
    found = _PREDICATE.match(run.outcome)
    return found[1] if found else "Run"


def triage(attempt: Attempt) -> Review:
    """Class and route from the messages alone."""
    if attempt.predicate == "Build":
        return review_compile(CompileOutcome(ok=False, diagnostics=attempt.outcome.splitlines()))
    review = review_run(VisibleRun(ok=False, outcome=attempt.outcome))
    # The predicate is certain; words in a log are not.
    if attempt.predicate == "Correct" and review.kind is not FailureKind.NUMERICAL:
        return Review(kind=FailureKind.NUMERICAL, route=Route.REPAIR_CODE, reason=review.reason)
    if attempt.predicate == "Timing" and review.kind is not FailureKind.TIMING:
        return Review(kind=FailureKind.TIMING, route=Route.REPAIR_INTERFACE, reason=review.reason)
    if attempt.predicate == "Contract" and review.kind is not FailureKind.INTERFACE:
        return Review(kind=FailureKind.INTERFACE, route=Route.REPAIR_INTERFACE, reason=review.reason)
    return review


def nearness(attempt: Attempt) -> tuple[int, int]:
    """Sorts attempts: valid ones by cycles, then those that failed late; of equals the newest, with its repairs."""
    if attempt.cycles is not None:
        return (len(PREDICATES), -attempt.cycles)
    stage = PREDICATES.index(attempt.predicate) if attempt.predicate in PREDICATES else 0
    return (stage, attempt.number)
