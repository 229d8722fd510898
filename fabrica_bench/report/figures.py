"""The headline numbers of a run: the one place where a report counts anything; the glossary says what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fabrica_bench.runs.summary import RunRow, RunSummary
from fabrica_bench.scoring.metrics import fast_p
from fabrica_bench.scoring.statistics import (
    Interval,
    bootstrap_geometric_mean,
    geometric_mean,
    mean_pass_at_k,
    wilson,
)
from fabrica_bench.scoring.verdict import Blame, Invalid, NotScored, Predicate


@dataclass(frozen=True)
class Figures:
    """Headline numbers.

    Attributes:
        fast_0, fast_1: See `fabrica_bench.scoring.metrics.fast_p`; None when nothing was scored.
        fast_0_interval, fast_1_interval: Wilson's, over the scored attempts.
        geometric_mean: Of the valid attempts' speed-ups; None when there are none.
        geometric_mean_interval: Bootstrap over tasks.
        pass_at: pass@k by k, for every k that all scored tasks have attempts for; empty with one attempt per task.
        failures: Count of each reason for not being valid, most frequent first.
        rule_breaks: Attempts that fail Contract or Timing.
    """

    total: int
    valid: int
    faster: int
    fast_0: float | None
    fast_1: float | None
    fast_0_interval: Interval | None
    fast_1_interval: Interval | None
    geometric_mean: float | None
    geometric_mean_interval: Interval | None
    pass_at: tuple[tuple[int, float], ...]
    rule_breaks: int
    scored: int
    failures: tuple[tuple[str, int], ...]


def figures(summary: RunSummary) -> Figures:
    """Count a run. The counts partition the total; an attempt without a verdict yet is one of them."""
    speedups = [row.speedup for row in summary.rows if row.speedup is not None]
    scored = [row for row in summary.rows if is_scored(row)]
    faster = sum(speedup > 1 for speedup in speedups)
    return Figures(
        total=summary.total,
        valid=summary.valid,
        faster=faster,
        fast_0=_fast(summary, 0.0),
        fast_1=_fast(summary, 1.0),
        fast_0_interval=wilson(len(speedups), len(scored)) if scored else None,
        fast_1_interval=wilson(faster, len(scored)) if scored else None,
        geometric_mean=geometric_mean(speedups) if speedups else None,
        geometric_mean_interval=bootstrap_geometric_mean(_by_task(summary)) if speedups else None,
        pass_at=_pass_at(scored),
        rule_breaks=sum(breaks_rules(row) for row in summary.rows),
        scored=len(scored),
        failures=_failures(summary),
    )


def figures_json(numbers: Figures) -> dict[str, Any]:
    """Headline numbers as JSON values; every rate with its count and interval."""
    return {
        "attempts": numbers.total,
        "scored": numbers.scored,
        "valid": numbers.valid,
        "faster_than_reference": numbers.faster,
        "fast_0": numbers.fast_0,
        "fast_0_interval": _pair(numbers.fast_0_interval),
        "fast_1": numbers.fast_1,
        "fast_1_interval": _pair(numbers.fast_1_interval),
        "geometric_mean_speedup_of_valid": numbers.geometric_mean,
        "geometric_mean_interval": _pair(numbers.geometric_mean_interval),
        "pass_at": {str(k): value for k, value in numbers.pass_at},
        "breaks_the_rules": numbers.rule_breaks,
    }


def is_scored(row: RunRow) -> bool:
    """Whether there is something to judge, or the agent is to blame that there isn't."""
    return not isinstance(row.verdict, NotScored) or row.verdict.blame is Blame.AGENT


def breaks_rules(row: RunRow) -> bool:
    """Whether the attempt changes what is frozen or claims a time that can't be."""
    broken = (Predicate.CONTRACT, Predicate.TIMING)
    return isinstance(row.verdict, Invalid) and row.verdict.predicate in broken


def _by_task(summary: RunSummary) -> dict[str, list[float]]:
    groups: dict[str, list[float]] = {}
    for row in summary.rows:
        if row.speedup is not None:
            groups.setdefault(row.task, []).append(row.speedup)
    return groups


def _pass_at(rows: Sequence[RunRow]) -> tuple[tuple[int, float], ...]:
    counts: dict[str, tuple[int, int]] = {}
    for row in rows:
        total, passes = counts.get(row.task, (0, 0))
        counts[row.task] = total + 1, passes + row.valid
    attempts = min((total for total, _ in counts.values()), default=0)
    if attempts < 2:
        return ()
    wanted = sorted({1, 2, 5, 10, attempts} & set(range(1, attempts + 1)))
    return tuple((k, mean_pass_at_k(list(counts.values()), k)) for k in wanted)


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


def _pair(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)
