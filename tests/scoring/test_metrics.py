"""`accept` needs a valid winner with a lower median; `fast_p` counts over everything that was scored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.scoring.metrics import accept, fast_p
from fabrica_bench.scoring.verdict import Blame, Invalid, NotScored, Predicate, Valid


def valid(*samples: int, reference: int = 100) -> Valid:
    from statistics import median_low

    cycles = median_low(samples)
    return Valid(
        cycles=cycles,
        reference_cycles=reference,
        speedup=reference / cycles,
        samples=samples,
        reference_samples=(reference,),
        evidence=(),
    )


INVALID = Invalid(predicate=Predicate.CORRECT, reason="wrong")
LOST = NotScored(blame=Blame.MACHINE, reason="no space")
GAVE_UP = NotScored(blame=Blame.AGENT, reason="gave up")


def test_only_a_valid_candidate_with_a_strictly_lower_median_is_accepted() -> None:
    assert accept(valid(9, 9, 500), valid(10, 10, 10))
    assert not accept(valid(10, 10, 1), valid(10, 10, 10))
    assert not accept(INVALID, valid(10))
    assert not accept(LOST, valid(10))
    assert accept(valid(10), INVALID)


def test_medians_over_different_numbers_of_inputs_are_not_compared() -> None:
    with pytest.raises(ValueError, match="can't be compared"):
        accept(valid(1, 2), valid(3))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=9), st.lists(st.integers(1, 1000), min_size=1, max_size=9))
def test_acceptance_is_never_mutual(first: list[int], second: list[int]) -> None:
    size = min(len(first), len(second))
    p, q = valid(*first[:size]), valid(*second[:size])
    assert not (accept(p, q) and accept(q, p))


def test_fast_p_counts_agents_failures_but_not_the_machines() -> None:
    verdicts = [valid(50), valid(100), INVALID, GAVE_UP, LOST]
    assert fast_p(verdicts, 0) == 2 / 4
    assert fast_p(verdicts, 1) == 1 / 4
    assert fast_p(verdicts, 2) == 0


def test_a_rate_over_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no verdict was scored"):
        fast_p([LOST], 0)
    with pytest.raises(ValueError, match="at least 0"):
        fast_p([INVALID], -1)


@given(st.lists(st.integers(1, 1000), min_size=1), st.floats(0, 10), st.floats(0, 10))
def test_fast_p_never_rises_with_p(cycles: list[int], first: float, second: float) -> None:
    verdicts = [valid(value) for value in cycles]
    low, high = sorted((first, second))
    assert fast_p(verdicts, high) <= fast_p(verdicts, low)
