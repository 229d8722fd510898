"""How diagnostics look, as text and as JSON, and what reading a file can report."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.csl import diagnostics, source
from fabrica_bench.csl.ast import SourceFile, Span
from fabrica_bench.csl.diagnostics import LINE_WINDOW, CslError, Diagnostic, Severity, render, to_json
from fabrica_bench.csl.source import load_source, virtual_source

FILE = virtual_source("pe.csl", "const a = 1;\n\tvar é: u16 = b + 2;\r\n\nend")


def at(text: str, file: SourceFile = FILE) -> Span:
    start = file.text.index(text)
    return Span(file, start, start + len(text))


def problem(message: str = "wrong", **fields: object) -> Diagnostic:
    return Diagnostic(Severity.ERROR, message, **fields)  # type: ignore[arg-type]


def test_a_diagnostic_shows_place_line_caret_hint_and_notes() -> None:
    found = Diagnostic(Severity.WARNING, "odd value", at("b + 2"), "try 3", (("declared here", at("a")),))
    assert render(found) == (
        "pe.csl:2:15: warning: odd value\n"
        "  \tvar é: u16 = b + 2;\n"
        "  \t             ^~~~~\n"
        "  hint: try 3\n"
        "pe.csl:1:7: note: declared here\n"
        "  const a = 1;\n"
        "        ^"
    )


def test_without_a_place_there_is_only_the_message() -> None:
    assert render(problem("unable to open 'x'", hint="check")) == "error: unable to open 'x'\n  hint: check"


def test_the_caret_stays_in_its_line() -> None:
    span = Span(FILE, FILE.text.index("b + 2"), len(FILE.text))
    assert render(problem(span=span)).splitlines()[2] == "  \t             ^~~~~~"


def test_a_place_after_the_end_of_a_line_is_shown_there() -> None:
    end = FILE.text.index("\n")
    assert render(problem(span=Span(FILE, end, end))) == ("pe.csl:1:13: error: wrong\n  const a = 1;\n              ^")


def test_an_empty_line_is_not_shown() -> None:
    start = FILE.text.index("\n\n") + 1
    assert render(problem(span=Span(FILE, start, start))) == "pe.csl:3:1: error: wrong"


def test_color_marks_severity_and_caret() -> None:
    text = render(problem(span=at("a")), color=True)
    assert "\x1b[1;31merror:\x1b[0m" in text
    assert "\x1b[1;32m^\x1b[0m" in text


def test_control_characters_do_not_reach_the_terminal() -> None:
    file = virtual_source("a\x1b[2J.csl", "x \x1b[31m y")
    text = render(problem("bad \x07", span=at("y", file)))
    assert text == "a\ufffd[2J.csl:1:9: error: bad \ufffd\n  x \ufffd[31m y\n          ^"


@given(st.integers(0, 2000), st.integers(0, 300))
def test_long_lines_are_cut_around_the_caret(start: int, length: int) -> None:
    file = virtual_source("f", "".join(chr(ord("a") + i % 26) for i in range(2000)))
    _, line, caret = render(problem(span=Span(file, start, min(start + length, 2000)))).split("\n")
    assert len(line) <= LINE_WINDOW + 8
    position = caret.index("^")
    if start < 2000:
        assert line[position] == file.text[start]
    assert len(caret) <= len(line) + 1


def test_json_has_places_for_tools() -> None:
    found = problem(span=at("b + 2"), hint="try", notes=(("here", at("a")),))
    data = to_json(found)
    assert json.loads(json.dumps(data)) == {
        "severity": "error",
        "message": "wrong",
        "file": "pe.csl",
        "line": 2,
        "column": 15,
        "end_line": 2,
        "end_column": 20,
        "hint": "try",
        "notes": [{"message": "here", "file": "pe.csl", "line": 1, "column": 7, "end_line": 1, "end_column": 8}],
    }
    assert to_json(problem())["line"] is None


def test_an_error_lists_its_diagnostics_in_order_of_place_once() -> None:
    other = virtual_source("other.csl", "abc")
    late, early, elsewhere = (
        problem("late", span=at("end")),
        problem("early", span=at("a")),
        problem("x", span=at("b", other)),
    )
    error = CslError([late, elsewhere, early, problem("global"), late])
    assert [found.message for found in error.diagnostics] == ["global", "early", "late", "x"]
    assert str(error).count("error: late") == 1


# ----------------------------------------------------------------------------------------------------- sources


def refusal(path: Path) -> str:
    with pytest.raises(CslError) as caught:
        load_source(path, display="in.csl")
    return str(caught.value)


def test_a_file_is_read_with_its_display_path(tmp_path: Path) -> None:
    path = tmp_path / "pe.csl"
    path.write_bytes("\ufeffconst é = 1;".encode())
    file = load_source(path, display="pe.csl")
    assert (file.path, file.text, file.absolute, file.is_system) == ("pe.csl", "const é = 1;", str(path), False)
    assert load_source(path).path == str(path)


def test_a_missing_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no.csl") == "error: unable to open 'in.csl': no such file\n  hint: check the path"


def test_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path).startswith("error: unable to open 'in.csl': it is a folder")


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(tmp_path / "pipe")


def test_a_path_with_a_null_byte() -> None:
    assert "unable to open 'in.csl'" in refusal(Path("a\0b"))


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_SOURCE_BYTES", 1024 * 1024)
    path = tmp_path / "big.csl"
    path.write_bytes(b" " * (1024 * 1024 + 1))
    assert refusal(path) == "error: 'in.csl' is larger than 1 MiB\n  hint: split the program into several files"


def test_bytes_that_are_not_utf8_are_shown_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "latin.csl"
    path.write_bytes("const é = 1;\n// caf".encode() + b"\xe9\n")
    assert refusal(path) == (
        "in.csl:2:7: error: the file is not UTF-8 text: byte 0xe9\n  // caf?\n        ^\n  hint: save the file as UTF-8"
    )


def test_error_builds_a_single_diagnostic() -> None:
    (found,) = diagnostics.error("bad", at("a"), hint="fix").diagnostics
    assert (found.severity, found.message, found.hint) == (Severity.ERROR, "bad", "fix")
