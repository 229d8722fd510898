"""The headline numbers of a run and what each means: the one place where a report counts anything."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fabrica_bench.runs.summary import RunSummary
from fabrica_bench.scoring.metrics import fast_p
from fabrica_bench.scoring.verdict import Invalid, NotScored, Predicate

GLOSSARY: Final[tuple[tuple[str, str], ...]] = (
    (
        "valid",
        "the program builds, runs, keeps the contract of its files, stamps its time honestly, and its outputs agree "
        "with a float64 NumPy oracle on visible and held-out inputs",
    ),
    (
        "cycles",
        "lower median over the inputs of: latest end stamp minus earliest start stamp over all PEs, in device cycles; "
        "only a valid program has any",
    ),
    ("reference cycles", "the same for the expert reference, on the same inputs and toolchain, in the same session"),
    ("speed-up", "reference cycles divided by cycles: above 1 the candidate is faster than the expert"),
    (
        "fast_p",
        "share of the scored attempts that are valid with a speed-up above p; fast_0 is the share of valid ones. An "
        "attempt for which the agent offered nothing counts as scored; one that harness or machine failed doesn't",
    ),
    (
        "geometric mean",
        "exponential of the mean logarithm of the valid attempts' speed-ups; it says nothing about the others",
    ),
    (
        "not scored",
        "there was nothing to judge: the agent offered no candidate, or harness or machine failed: see the blame",
    ),
)


@dataclass(frozen=True)
class Figures:
    """Headline numbers.

    Attributes:
        fast_0, fast_1: See `fabrica_bench.scoring.metrics.fast_p`; None when nothing was scored.
        geometric_mean: Over the valid attempts; None when there are none.
        failures: Count of each reason for not being valid, most frequent first.
    """

    total: int
    valid: int
    faster: int
    fast_0: float | None
    fast_1: float | None
    geometric_mean: float | None
    failures: tuple[tuple[str, int], ...]


def figures(summary: RunSummary) -> Figures:
    """Count a run. The counts partition the total; an attempt without a verdict yet is one of them."""
    speedups = [row.speedup for row in summary.rows if row.speedup is not None]
    faster = sum(speedup > 1 for speedup in speedups)
    return Figures(
        total=summary.total,
        valid=summary.valid,
        faster=faster,
        fast_0=_fast(summary, 0.0),
        fast_1=_fast(summary, 1.0),
        geometric_mean=geometric_mean(speedups) if speedups else None,
        failures=_failures(summary),
    )


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean in log space.

    Raises:
        ValueError: A value is not positive and finite, or there is none.
    """
    if not values or any(not (math.isfinite(value) and value > 0) for value in values):
        raise ValueError(f"a geometric mean needs positive finite values, got {list(values)!r}")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def _fast(summary: RunSummary, p: float) -> float | None:
    verdicts = [row.verdict for row in summary.rows]
    try:
        return fast_p(verdicts, p)
    except ValueError:
        # Nothing was scored: there is no rate, and none is made up.
        return None


def _failures(summary: RunSummary) -> tuple[tuple[str, int], ...]:
    kinds: Counter[str] = Counter()
    for row in summary.rows:
        if isinstance(row.verdict, Invalid):
            kinds[str(row.verdict.predicate)] += 1
        elif isinstance(row.verdict, NotScored):
            kinds[f"not scored ({row.verdict.blame})"] += 1
    if summary.missing:
        kinds["no verdict yet"] += summary.missing
    order = [str(predicate) for predicate in Predicate]
    return tuple(
        sorted(kinds.items(), key=lambda item: (-item[1], order.index(item[0]) if item[0] in order else 9, item[0]))
    )
