"""Headline numbers: definitions, denominators and refusals."""

from __future__ import annotations

import math

import pytest
from helpers.sample_run import make_manifest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.report.figures import figures
from fabrica_bench.runs.store import RunStore
from fabrica_bench.runs.summary import load_summary
from fabrica_bench.scoring.statistics import geometric_mean, wilson

POSITIVE = st.floats(min_value=1e-6, max_value=1e6)


def test_rates_are_over_the_scored_attempts_and_counts_over_all(run_dir):
    numbers = figures(load_summary(run_dir))
    assert (numbers.valid, numbers.faster, numbers.total) == (2, 1, 5)
    assert numbers.fast_0 == pytest.approx(2 / 4)
    assert numbers.fast_1 == pytest.approx(1 / 4)
    assert numbers.geometric_mean == pytest.approx(math.sqrt(2.5 * 0.5))
    assert numbers.fast_0_interval == wilson(2, 4)
    assert (numbers.scored, numbers.pass_at) == (4, ())


def test_failures_and_valid_attempts_add_up_to_the_total(run_dir):
    numbers = figures(load_summary(run_dir))
    assert dict(numbers.failures) == {"Correct": 1, "not scored (agent)": 1, "no verdict yet": 1}
    assert numbers.valid + sum(count for _, count in numbers.failures) == numbers.total


@pytest.mark.parametrize("values", [[], [0.0], [1.0, -1.0], [math.inf], [math.nan]])
def test_a_geometric_mean_of_what_has_none_is_refused(values):
    with pytest.raises(ValueError, match="positive finite"):
        geometric_mean(values)


def test_many_large_ratios_do_not_overflow():
    assert geometric_mean([250.0] * 2000) == pytest.approx(250.0)
    assert geometric_mean([0.05] * 2000) == pytest.approx(0.05)


@given(st.lists(POSITIVE, min_size=1, max_size=30))
def test_a_geometric_mean_lies_between_its_values_and_inverts_with_them(values):
    mean = geometric_mean(values)
    assert min(values) * (1 - 1e-9) <= mean <= max(values) * (1 + 1e-9)
    assert geometric_mean([1 / value for value in values]) == pytest.approx(1 / mean)


def test_a_run_in_which_nothing_was_scored_has_no_rates(tmp_path):
    RunStore.create(tmp_path / "run", make_manifest()).close()
    numbers = figures(load_summary(tmp_path / "run"))
    assert (numbers.fast_0, numbers.fast_1, numbers.geometric_mean) == (None, None, None)
