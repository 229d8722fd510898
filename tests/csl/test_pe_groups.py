"""Sets of PEs named as rectangles."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.csl.pe_groups import pe_list

POSITIONS = st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1)


@pytest.mark.parametrize(
    ("positions", "text"),
    [
        ([(2, 3)], "PE(2,3)"),
        ([(0, 2), (1, 2), (2, 2), (3, 2)], "PE(0..3,2)"),
        ([(5, 0), (5, 1)], "PE(5,0..1)"),
        ([(x, y) for x in range(4) for y in range(3)], "PE(0..3,0..2)"),
        ([(0, 0), (1, 0), (0, 1)], "PE(0..1,0), PE(0,1)"),
        ([(0, 0), (0, 2)], "PE(0,0), PE(0,2)"),
    ],
)
def test_rectangles(positions: list[tuple[int, int]], text: str) -> None:
    assert pe_list(positions) == text


def test_long_lists_are_cut_and_counted() -> None:
    diagonal = [(k, k) for k in range(10)]
    assert pe_list(diagonal, limit=2) == "PE(0,0), PE(1,1) and 8 more PE(s)"


@given(POSITIONS)
def test_every_pe_is_named_exactly_once(positions: set[tuple[int, int]]) -> None:
    named: list[tuple[int, int]] = []
    for x0, x1, y0, y1 in re.findall(r"PE\((\d+)(?:\.\.(\d+))?,(\d+)(?:\.\.(\d+))?\)", pe_list(positions, limit=1000)):
        for x in range(int(x0), int(x1 or x0) + 1):
            named += [(x, y) for y in range(int(y0), int(y1 or y0) + 1)]
    assert sorted(named) == sorted(positions)
