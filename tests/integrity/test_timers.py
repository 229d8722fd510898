"""Stamps that can't be true are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.integrity.timers import LAUNCH_SLACK, WindowTimes, check_timers, decode_stamps

MAX_STAMP = 2**48 - 1


def stamps(*pes: tuple[int, int]) -> np.ndarray:
    words = [[value >> shift & 0xFFFF for value in pe for shift in (0, 16, 32)] for pe in pes]
    return np.array(words, dtype=np.uint16).reshape(1, len(pes), 6)


def times(*pes: tuple[int, int]) -> WindowTimes:
    decoded = decode_stamps(stamps(*pes), (len(pes), 1))
    assert isinstance(decoded, WindowTimes)
    return decoded


@given(st.lists(st.tuples(st.integers(0, MAX_STAMP), st.integers(0, MAX_STAMP)), min_size=1, max_size=6))
def test_all_48_bits_are_read(pes: list[tuple[int, int]]) -> None:
    decoded = times(*pes)
    assert decoded.start.tolist() == [[start for start, _ in pes]]
    assert decoded.end.tolist() == [[end for _, end in pes]]


def test_the_window_reaches_from_the_first_start_to_the_last_end() -> None:
    assert times((10, 50), (12, 90), (11, 20)).cycles == 80


@pytest.mark.parametrize(
    "array", [np.zeros((1, 6), np.uint16), np.zeros((1, 2, 6), np.uint16), np.zeros((1, 1, 6), np.int64)]
)
def test_stamps_of_another_form_are_refused(array: np.ndarray) -> None:
    assert isinstance(decode_stamps(array, (1, 1)), str)


@pytest.mark.parametrize(
    ("pes", "reported", "launch", "message"),
    [
        ([(100, 200)], 100, (90, 260), None),
        ([(100, 200)], 100, None, None),
        ([(100, 200)], 99, None, "reports 99"),
        ([(100, 200), (0, 0)], 200, None, "never taken"),
        ([(100, 200), (150, 140)], 100, None, "end before they start"),
        ([(100, 109)], 9, None, "below the lower bound of 10"),
        ([(100, 200)], 100, (100, 180), "launch of only 80"),
        ([(100, 200)], 100, (100, 220 + LAUNCH_SLACK), "lie outside"),
    ],
)
def test_each_implausibility_is_named(
    pes: list[tuple[int, int]], reported: int, launch: tuple[int, int] | None, message: str | None
) -> None:
    found = check_timers(times(*pes), reported, lower_bound=10, launch=launch)
    if message is None:
        assert found == []
    else:
        assert message in found[0].message


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_higher_bound_never_makes_a_timer_plausible(cycles: int, low: int, high: int) -> None:
    low, high = sorted((low, high))
    measured = times((5, 5 + cycles))
    if check_timers(measured, cycles, lower_bound=low, launch=None):
        assert check_timers(measured, cycles, lower_bound=high, launch=None)
