"""Compiler output becomes typed diagnostics, whatever else is printed between."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.toolchains.diagnostics import MAX_DIAGNOSTICS, parse_diagnostics


def test_place_message_and_hint_are_read() -> None:
    log = "pe.csl:3:7: error: unknown name 'y'\n  x = y;\n      ^\n  hint: did you mean 'x'?\n"
    (found,) = parse_diagnostics(log)
    assert (found.file, found.line, found.column, found.severity) == ("pe.csl", 3, 7, "error")
    assert (found.message, found.hint) == ("unknown name 'y'", "did you mean 'x'?")
    assert str(found) == "pe.csl:3:7: error: unknown name 'y'\n  hint: did you mean 'x'?"


def test_errors_come_first_and_colours_are_removed() -> None:
    log = "a.csl:1:1: \x1b[33mwarning\x1b[0m: slow\nb.csl:2:1: error: wrong\nnote: see there\n"
    assert [item.severity for item in parse_diagnostics(log)] == ["error", "warning", "note"]


def test_nothing_that_steers_a_terminal_is_left() -> None:
    (found,) = parse_diagnostics(
        "pe.csl:1:1: error: symbol '\x1b]0;title\x07\x9b2J\x0cerror: forged\u2028' is unknown\n"
    )
    assert found.message == "symbol '\ufffd]0;title\ufffd\ufffd2J\ufffderror: forged\ufffd' is unknown"


def test_a_message_without_a_place_counts() -> None:
    (found,) = parse_diagnostics("error: out of memory")
    assert (found.file, found.line) == ("", 0)
    assert str(found) == "error: out of memory"


def test_a_flood_is_cut() -> None:
    assert len(parse_diagnostics("error: again\n" * 5000)) == MAX_DIAGNOSTICS


@given(st.text())
def test_any_text_is_accepted(log: str) -> None:
    parse_diagnostics(log)
