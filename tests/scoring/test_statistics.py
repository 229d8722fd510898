"""Statistics against SciPy, brute force over all samples, published values, and properties that define them."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from fabrica_bench.scoring.statistics import (
    NOT_DISTINGUISHABLE,
    bootstrap_geometric_mean,
    compare_passes,
    compare_speed,
    geometric_mean,
    mcnemar_exact,
    mean_pass_at_k,
    pass_at_k,
    ratio,
    relative_change,
    wilson,
)

POSITIVE = st.floats(1e-3, 1e3)
CLUSTERS = st.dictionaries(st.text(min_size=1, max_size=4), st.lists(POSITIVE, min_size=1, max_size=4), min_size=1)


@given(st.integers(1, 500), st.data(), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_wilsons_interval_is_scipys(total, data, confidence):
    successes = data.draw(st.integers(0, total))
    ours = wilson(successes, total, confidence)
    theirs = stats.binomtest(successes, total).proportion_ci(confidence, method="wilson")
    assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0 <= ours.low <= successes / total <= ours.high <= 1


def test_wilsons_interval_has_the_published_value():
    """Newcombe, Statistics in Medicine 17 (1998), table I: 81 of 263 and 15 of 148."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)


@pytest.mark.parametrize(("successes", "total"), [(0, 0), (2, 1), (-1, 3)])
def test_what_is_no_rate_has_no_interval(successes, total):
    with pytest.raises(ValueError, match="no rate"):
        wilson(successes, total)


@given(st.integers(1, 7), st.data())
def test_pass_at_k_is_the_share_of_all_draws_that_hold_a_pass(total, data):
    passes = data.draw(st.integers(0, total))
    k = data.draw(st.integers(1, total))
    attempts = [True] * passes + [False] * (total - passes)
    draws = [any(draw) for draw in itertools.combinations(attempts, k)]
    assert pass_at_k(total, passes, k) == pytest.approx(sum(draws) / len(draws))


@given(st.integers(2, 200), st.data())
def test_more_draws_never_pass_less_often(total, data):
    passes = data.draw(st.integers(0, total))
    values = [pass_at_k(total, passes, k) for k in range(1, total + 1)]
    assert values == sorted(values)
    assert values[0] == pytest.approx(passes / total)


@pytest.mark.parametrize(("total", "passes", "k"), [(3, 4, 1), (3, 1, 4), (3, 1, 0), (0, 0, 1)])
def test_pass_at_k_beyond_the_attempts_is_refused(total, passes, k):
    with pytest.raises(ValueError, match="attempts"):
        pass_at_k(total, passes, k)


def test_pass_at_k_over_tasks_is_the_mean_of_each():
    assert mean_pass_at_k([(5, 5), (5, 0), (5, 2)], 2) == pytest.approx((1 + 0 + (1 - 3 / 10)) / 3)
    with pytest.raises(ValueError, match="no task"):
        mean_pass_at_k([], 1)


@given(st.lists(POSITIVE, min_size=1, max_size=30))
def test_the_geometric_mean_is_scipys(values):
    assert geometric_mean(values) == pytest.approx(stats.gmean(values), rel=1e-9)


@pytest.mark.parametrize("values", [[], [1.0, 0.0], [1.0, -2.0], [math.nan], [math.inf, 1.0]])
def test_a_geometric_mean_of_what_has_no_logarithm_is_refused(values):
    with pytest.raises(ValueError, match="positive finite"):
        geometric_mean(values)


def test_the_geometric_mean_neither_overflows_nor_underflows():
    """A product of 20 such values does either."""
    assert geometric_mean([250.0] * 200) == pytest.approx(250.0)
    assert geometric_mean([1e-300] * 20) == pytest.approx(1e-300, rel=1e-9)


@given(CLUSTERS, st.randoms(use_true_random=False))
def test_the_bootstrap_is_seeded_and_does_not_depend_on_the_order(clusters, shuffler):
    names = list(clusters)
    shuffler.shuffle(names)
    again = bootstrap_geometric_mean({name: clusters[name] for name in names}, resamples=200)
    assert again == bootstrap_geometric_mean(clusters, resamples=200)
    values = [value for group in clusters.values() for value in group]
    assert min(values) * (1 - 1e-9) <= again.low <= again.high <= max(values) * (1 + 1e-9)


@given(CLUSTERS, st.floats(0.01, 100))
def test_a_common_factor_moves_the_interval_by_it(clusters, factor):
    moved = {name: [factor * value for value in values] for name, values in clusters.items()}
    before, after = (bootstrap_geometric_mean(sample, resamples=200) for sample in (clusters, moved))
    assert after == pytest.approx((before.low * factor, before.high * factor), rel=1e-6)


def test_the_bootstrap_has_the_quantiles_of_every_sample_of_clusters():
    """Three clusters have 27 samples of three, all equally likely: the exact distribution is at hand."""
    clusters = {"a": [1.0, 1.1], "b": [2.0], "c": [8.0, 9.0, 7.0]}
    exact = sorted(
        geometric_mean([value for name in draw for value in clusters[name]])
        for draw in itertools.product(clusters, repeat=3)
    )
    interval = bootstrap_geometric_mean(clusters, resamples=20_000, confidence=0.7)
    for bound, tail in ((interval.low, 0.15), (interval.high, 0.85)):
        assert exact[max(0, int(27 * tail) - 1)] <= bound <= exact[min(26, int(27 * tail) + 1)]


def test_the_bootstrap_covers_about_as_often_as_it_says():
    generator = np.random.default_rng(7)
    truth, hits = 1.5, 0
    for trial in range(150):
        sample = {str(i): [float(v)] for i, v in enumerate(truth * np.exp(generator.normal(0, 0.4, 40)))}
        interval = bootstrap_geometric_mean(sample, resamples=400, confidence=0.9, seed=trial)
        hits += interval.low <= truth <= interval.high
    assert 0.82 <= hits / 150 <= 0.96


def test_clustering_widens_the_interval_of_repeated_attempts():
    """Ten copies of each value are no new evidence."""
    values = [0.5, 1.0, 1.5, 2.0, 4.0]
    once = bootstrap_geometric_mean({str(v): [v] for v in values})
    copied = bootstrap_geometric_mean({str(v): [v] * 10 for v in values})
    pretended = bootstrap_geometric_mean({f"{v} {i}": [v] for v in values for i in range(10)})
    assert copied == pytest.approx(once)
    assert pretended.high / pretended.low < 0.6 * copied.high / copied.low


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemars_test_is_the_exact_binomial_one(first, second):
    assume(first + second > 0)
    expected = stats.binomtest(first, first + second, 0.5).pvalue
    assert mcnemar_exact(first, second) == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert mcnemar_exact(first, second) == mcnemar_exact(second, first)


def test_without_discordant_pairs_nothing_is_shown():
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(2000, 2000) == 1.0
    with pytest.raises(ValueError, match="negative"):
        mcnemar_exact(-1, 2)


def test_passes_are_compared_on_shared_tasks_alone():
    first = {f"t{i}": True for i in range(12)} | {"mine": True}
    second = {f"t{i}": i < 4 for i in range(12)} | {"theirs": False}
    result = compare_passes(first, second)
    assert (result.tasks, result.both, result.only_first, result.only_second, result.neither) == (12, 4, 8, 0, 0)
    assert result.p_value == pytest.approx(2 / 2**8)
    assert result.words("A", "B").startswith("A passes more")
    assert NOT_DISTINGUISHABLE in compare_passes(first, dict(first, t1=False)).words("A", "B")
    with pytest.raises(ValueError, match="share no task"):
        compare_passes({"a": True}, {"b": True})


@given(st.dictionaries(st.text(max_size=3), POSITIVE, min_size=1, max_size=20), st.integers(0, 99))
def test_an_agent_is_not_distinguishable_from_itself(cycles, seed):
    sample = {name: [value] for name, value in cycles.items()}
    result = compare_speed(sample, sample, seed=seed)
    assert result.ratio == pytest.approx(1.0)
    assert result.words("A", "B").startswith(NOT_DISTINGUISHABLE)


def test_speeds_are_paired_by_task():
    """Tasks differ a thousandfold; the pairs differ by 20 % throughout, and that is found."""
    shuffler = random.Random(3)
    first = {str(i): [10.0 ** shuffler.uniform(1, 4)] for i in range(15)}
    second = {name: [1.2 * values[0]] for name, values in first.items()}
    result = compare_speed(first, {**second, "only theirs": [1.0]})
    assert (result.tasks, result.ratio) == (15, pytest.approx(1.2))
    assert result.interval == pytest.approx((1.2, 1.2))
    assert result.words("A", "B").startswith("A is faster")
    assert compare_speed(second, first).words("A", "B").startswith("B is faster")
    with pytest.raises(ValueError, match="valid in both"):
        compare_speed({"a": [1.0]}, {"a": []})


@given(POSITIVE, POSITIVE)
def test_an_improvement_is_a_ratio_or_a_relative_change(new, old):
    assert relative_change(new, old) == pytest.approx((new - old) / old, abs=1e-9)
    assert ratio(new, old) == pytest.approx(1 / ratio(old, new))
    with pytest.raises(ValueError, match="positive"):
        relative_change(0.0, old)


def test_one_task_distinguishes_no_speeds():
    assert NOT_DISTINGUISHABLE in compare_speed({"a": [100.0]}, {"a": [50.0]}).words("first", "second")
    two = compare_speed({"a": [100.0], "b": [90.0]}, {"a": [50.0], "b": [45.0]})
    assert two.words("first", "second").startswith("second is faster")
