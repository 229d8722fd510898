"""The statistics of results: rates, means and comparisons, each with its interval, all seeded.

Tasks are the unit of sampling: attempts at one task resemble each other, so intervals resample whole tasks (a cluster
bootstrap) and tests count each task once. Nothing here fills a gap: what has no value is refused or left out by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 4000
"""Bootstrap resamples: the Monte-Carlo error of a 95 % bound is then well below the interval's own width."""

SEED: Final = 20260101
"""Seed of every bootstrap, so that the same records give the same report."""

NOT_DISTINGUISHABLE: Final = "not distinguishable"


class Interval(NamedTuple):
    """A confidence interval, both ends included."""

    low: float
    high: float

    def __str__(self) -> str:
        """`[0.123, 0.456]`."""
        return f"[{self.low:.3f}, {self.high:.3f}]"


# ----------------------------------------------------------------------------------------------------- rates


def wilson(successes: int, total: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval of a rate (E. B. Wilson, JASA 22, 1927); stays within 0..1 and is never empty.

    Raises:
        ValueError: The counts aren't those of a rate.
    """
    if not 0 <= successes <= total or total == 0:
        raise ValueError(f"{successes} of {total} is no rate")
    z = NormalDist().inv_cdf(0.5 + _checked(confidence) / 2)
    rate, scale = successes / total, 1 + z * z / total
    centre = (rate + z * z / (2 * total)) / scale
    half = z / scale * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total))
    # At the ends the exact bound is 0 or 1; rounding must not leave the unit interval.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == total else min(1.0, centre + half)
    return Interval(low, high)


def pass_at_k(total: int, passes: int, k: int) -> float:
    """Unbiased pass@k of one task: probability that k of its attempts, drawn without replacement, hold a pass.

    1 - C(total - passes, k) / C(total, k) (M. Chen et al., arXiv:2107.03374).

    Raises:
        ValueError: More passes than attempts, or k beyond the attempts that there are.
    """
    if not 0 <= passes <= total:
        raise ValueError(f"{passes} passes of {total} attempts")
    if not 1 <= k <= total:
        raise ValueError(f"pass@{k} needs at least {k} attempts, there are {total}")
    return 1.0 - math.comb(total - passes, k) / math.comb(total, k)


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float:
    """pass@k over tasks: the mean of each task's own, from (attempts, passes) pairs.

    Raises:
        ValueError: There is no task, or one has fewer than k attempts.
    """
    if not counts:
        raise ValueError("pass@k over no task")
    return math.fsum(pass_at_k(total, passes, k) for total, passes in counts) / len(counts)


# ----------------------------------------------------------------------------------------------------- means


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean in log space.

    Raises:
        ValueError: A value is not positive and finite, or there is none.
    """
    if not values or any(not (math.isfinite(value) and value > 0) for value in values):
        raise ValueError(f"a geometric mean needs positive finite values, got {list(values)[:10]!r}")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def bootstrap_geometric_mean(
    clusters: Mapping[str, Sequence[float]],
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Percentile interval of the geometric mean of all values; whole tasks are resampled.

    Args:
        clusters: Positive values by task; at least one each.
        seed: Seed of the resampling.
        resamples: How many samples of tasks are drawn.
        confidence: Of the interval.

    Raises:
        ValueError: There is no task, or a value without a logarithm.
    """
    for values in clusters.values():
        geometric_mean(values)
    if not clusters:
        raise ValueError("an interval over no task")
    names = sorted(clusters)  # the order of a mapping must not change the result
    sums = np.array([math.fsum(math.log(value) for value in clusters[name]) for name in names])
    counts = np.array([len(clusters[name]) for name in names], dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(names), size=(resamples, len(names)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    tail = (1 - _checked(confidence)) / 2
    low, high = np.exp(np.quantile(means, [tail, 1 - tail]))
    return Interval(float(low), float(high))


def ratio(new: float, old: float) -> float:
    """new / old.

    Raises:
        ValueError: One of the two isn't positive and finite.
    """
    if not (math.isfinite(new) and math.isfinite(old) and new > 0 and old > 0):
        raise ValueError(f"a ratio needs positive finite values, got {new!r} and {old!r}")
    return new / old


def relative_change(new: float, old: float) -> float:
    """(new - old) / old: -0.25 is a quarter less. The one meaning of "improvement in per cent" in reports.

    Raises:
        ValueError: As `ratio`.
    """
    return ratio(new, old) - 1.0


# ----------------------------------------------------------------------------------------------- comparisons


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided exact McNemar test (Q. McNemar, 1947): p-value from the discordant pairs alone.

    Args:
        only_first: Pairs in which only the first passes.
        only_second: Pairs in which only the second passes.

    Raises:
        ValueError: A count is negative.
    """
    if only_first < 0 or only_second < 0:
        raise ValueError("counts of pairs are not negative")
    pairs = only_first + only_second
    tail = sum(math.comb(pairs, count) for count in range(min(only_first, only_second) + 1))
    # Division of integers is exact before it rounds; a power of a float would underflow for many pairs.
    return min(1.0, 2 * tail / (1 << pairs))


@dataclass(frozen=True)
class PassComparison:
    """Passes of two agents on the tasks that both attempted, each task counted once.

    Attributes:
        tasks: Shared tasks.
        both, only_first, only_second, neither: They partition `tasks`.
        p_value: Exact McNemar.
    """

    tasks: int
    both: int
    only_first: int
    only_second: int
    neither: int
    p_value: float

    def words(self, first: str, second: str, confidence: float = CONFIDENCE) -> str:
        """The finding as a sentence."""
        counts = (
            f"on {self.tasks} shared tasks {self.only_first} pass only with {first}, "
            f"{self.only_second} only with {second} (exact McNemar, p = {self.p_value:.3g})"
        )
        if self.p_value > 1 - confidence:
            return f"{NOT_DISTINGUISHABLE} by passes: {counts}"
        better = first if self.only_first > self.only_second else second
        return f"{better} passes more: {counts}"


def compare_passes(first: Mapping[str, bool], second: Mapping[str, bool]) -> PassComparison:
    """Compare two agents by task; tasks that only one of them attempted are left out.

    Raises:
        ValueError: They share no task.
    """
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise ValueError("the two share no task")
    pairs = [(first[name], second[name]) for name in shared]
    one, other = pairs.count((True, False)), pairs.count((False, True))
    return PassComparison(
        len(shared), pairs.count((True, True)), one, other, pairs.count((False, False)), mcnemar_exact(one, other)
    )


@dataclass(frozen=True)
class SpeedComparison:
    """Geometric mean over tasks of how much faster the first is than the second.

    Attributes:
        tasks: Tasks on which both are valid; only these count.
        ratio: Cycles of the second divided by cycles of the first: above 1 the first is faster.
        interval: Paired bootstrap over tasks.
    """

    tasks: int
    ratio: float
    interval: Interval

    def words(self, first: str, second: str) -> str:
        """The finding as a sentence."""
        numbers = f"{self.ratio:.3f} {self.interval} over {self.tasks} tasks valid in both (ratio of cycles)"
        # Resampling one task always gives that task: its interval has no width and says nothing.
        if self.tasks < 2 or self.interval.low <= 1.0 <= self.interval.high:
            return f"{NOT_DISTINGUISHABLE} by speed: {numbers}"
        return f"{first if self.ratio > 1 else second} is faster: {numbers}"


def compare_speed(
    first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]], *, seed: int = SEED
) -> SpeedComparison:
    """Paired comparison of cycles on the tasks where both have some; repeats of a task are averaged geometrically.

    Raises:
        ValueError: No task has cycles from both.
    """
    shared = sorted(name for name in first.keys() & second.keys() if first[name] and second[name])
    if not shared:
        raise ValueError("no task is valid in both")
    ratios = {name: [ratio(geometric_mean(second[name]), geometric_mean(first[name]))] for name in shared}
    value = geometric_mean([values[0] for values in ratios.values()])
    return SpeedComparison(len(shared), value, bootstrap_geometric_mean(ratios, seed=seed))


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not {confidence}")
    return confidence
