"""Tables on screens of any width and in any encoding, and the plain signs that stand for others."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.cli import console
from fabrica_bench.cli.console import Column, fitted_widths, record_blocks

COLUMNS = [Column("task"), Column("verdict"), Column("cycles", True), Column("reason", prose=True)]
ROWS = [
    ["Single-Tile-Matvec", "valid", "94,212", ""],
    ["ParReduce-Sum", "not scored (agent)", "–", "kernel.cu:62: kernel sum_tree has a grid of (1, 1, 1) blocks"],
]


@pytest.fixture
def screen(monkeypatch):
    """Shows the table above on a terminal of some columns."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def show(columns: int) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("CI", raising=False)
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        console.write_table(COLUMNS, ROWS)
        return terminal.getvalue()

    return show


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_no_word_of_a_table_is_lost_on_any_screen(screen, width):
    shown = screen(width)
    assert "Single-Tile-Matvec" in shown
    assert "94,212" in shown
    assert "…" not in shown
    flat = "".join(char for char in shown if char not in "│┃")
    for word in ["kernel.cu:62:", "sum_tree", "blocks", "scored", "(agent)"]:
        assert word in flat


def test_a_wide_screen_has_one_box_a_narrow_one_the_prose_below_and_a_tiny_one_blocks(screen):
    assert "│ kernel.cu:62:" in screen(100)
    below = screen(62)
    assert "│" in below
    assert "ParReduce-Sum: kernel.cu:62:" in below
    assert "│" not in screen(30)
    assert "  reason: kernel.cu:62:" in screen(30)


words = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)
cells = st.lists(words, max_size=4).map(" ".join)


@given(st.lists(st.tuples(words, cells, words, cells), max_size=5), st.integers(10, 200))
def test_fitted_widths_fit_and_hold_every_word(rows, width):
    widths = fitted_widths(COLUMNS, rows, width)
    if widths is None:
        return
    assert sum(widths) + console.BOX_GAP * len(widths) + console.BOX_MARGIN <= width
    for row in rows:
        assert len(row[0]) <= widths[0]
        for cell, column in zip(row, widths, strict=True):
            assert all(len(word) <= column for word in cell.split())


def test_blocks_leave_empty_cells_out():
    assert record_blocks(COLUMNS, ROWS[:1]) == "Single-Tile-Matvec\n  verdict: valid\n  cycles: 94,212"


def test_a_locale_without_the_sign_gets_a_plain_one(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    console.write("cycles – of ☃")
    assert raw.getvalue() == b"cycles - of ?\n"
