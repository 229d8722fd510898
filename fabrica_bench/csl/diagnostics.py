"""Diagnostics of the CSL compiler: what is wrong, where, and what to do about it.

A diagnostic has two forms: text for people (`render`: position, source line, caret, hint) and JSON for tools
(`to_json`). Both are stable, because repair loops act on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fabrica_bench.csl.ast import Span

#: Characters of a source line that are shown; longer lines are cut to a window around the caret.
LINE_WINDOW = 160


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about a program.

    `span` is None when no source text is to blame (an unreadable file, a command-line option). `hint` says how to fix
    it. `notes` point to other places that matter, such as a first declaration.
    """

    severity: Severity
    message: str
    span: Span | None = None
    hint: str | None = None
    notes: tuple[tuple[str, Span], ...] = ()


class CslError(Exception):
    """The program can't be compiled; `diagnostics` holds at least one error, sorted by place."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: list[Diagnostic] = sort_diagnostics(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(render(diagnostic) for diagnostic in self.diagnostics)


def error(message: str, span: Span | None = None, *, hint: str | None = None) -> CslError:
    """A `CslError` with one diagnostic, ready to be raised."""
    return CslError([Diagnostic(Severity.ERROR, message, span, hint)])


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """In order, and without duplicates."""
    return in_order(list(dict.fromkeys(diagnostics)))


def in_order(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Those without a place first, then by file (in order of first mention) and position."""
    files: dict[str, int] = {}
    for diagnostic in diagnostics:
        if diagnostic.span is not None:
            files.setdefault(diagnostic.span.file.absolute, len(files))

    def place(diagnostic: Diagnostic) -> tuple[int, int]:
        span = diagnostic.span
        return (-1, 0) if span is None else (files[span.file.absolute], span.start)

    return sorted(diagnostics, key=place)


# ----------------------------------------------------------------------------------------------------- text

_COLORS = {Severity.ERROR: "\x1b[1;31m", Severity.WARNING: "\x1b[1;35m", Severity.NOTE: "\x1b[1;36m"}
_BOLD, _GREEN, _RESET = "\x1b[1m", "\x1b[1;32m", "\x1b[0m"


def render(diagnostic: Diagnostic, color: bool = False) -> str:
    """The diagnostic as lines of text, without a final newline.

    `file:line:column: error: message`, the source line, a caret line, then `hint:` and the notes in the same form.
    """
    lines = _render_place(diagnostic.severity, diagnostic.message, diagnostic.span, color)
    if diagnostic.hint:
        lines.append(f"  hint: {diagnostic.hint}")
    for message, span in diagnostic.notes:
        lines += _render_place(Severity.NOTE, message, span, color)
    return "\n".join(lines)


def _render_place(severity: Severity, message: str, span: Span | None, color: bool) -> list[str]:
    place = f"{printable(str(span))}: " if span is not None else ""
    head = f"{place}{severity}: {printable(message)}"
    if color:
        head = f"{_BOLD}{place}{_COLORS[severity]}{severity}:{_RESET}{_BOLD} {printable(message)}{_RESET}"
    if span is None:
        return [head]
    number, column = span.file.position(span.start)
    source = span.file.line_text(number)
    if not source.strip():
        return [head]
    # the caret stays inside its line, also for spans over several lines
    end = max(column, min(column + span.end - span.start - 1, len(source)))
    text, start, stop = _window(source, column - 1, end)
    lead = "".join("\t" if char == "\t" else " " for char in text[:start])
    caret = "^" + "~" * (stop - start - 1)
    if color:
        caret = f"{_GREEN}{caret}{_RESET}"
    return [head, f"  {printable(text)}", f"  {lead}{caret}"]


def _window(source: str, start: int, end: int) -> tuple[str, int, int]:
    """The part of a line to show, and where `source[start:end]` lies in it (clipped)."""
    if len(source) <= LINE_WINDOW:
        return source, start, max(end, start + 1)
    left = max(0, min(start - LINE_WINDOW // 3, len(source) - LINE_WINDOW))
    text = source[left : left + LINE_WINDOW]
    prefix = "..." if left else ""
    suffix = "..." if left + LINE_WINDOW < len(source) else ""
    shift = len(prefix) - left
    stop = max(start + 1, min(end, left + LINE_WINDOW))
    return f"{prefix}{text}{suffix}", start + shift, stop + shift


def printable(text: str) -> str:
    """Text that can't drive a terminal: control characters other than tab become U+FFFD, one for one."""
    return "".join(char if char == "\t" or char.isprintable() else "\ufffd" for char in text)


# ----------------------------------------------------------------------------------------------------- JSON


def to_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """The diagnostic as plain data: `severity`, `message`, place, `hint` and `notes`.

    A place is `file`, `line`, `column`, `end_line`, `end_column`: 1-based, the end exclusive, all null without a span.
    """
    return {
        "severity": str(diagnostic.severity),
        "message": diagnostic.message,
        **_json_place(diagnostic.span),
        "hint": diagnostic.hint,
        "notes": [{"message": message, **_json_place(span)} for message, span in diagnostic.notes],
    }


def _json_place(span: Span | None) -> dict[str, Any]:
    if span is None:
        return dict.fromkeys(("file", "line", "column", "end_line", "end_column"))
    line, column = span.file.position(span.start)
    end_line, end_column = span.file.position(span.end)
    return {"file": span.file.path, "line": line, "column": column, "end_line": end_line, "end_column": end_column}
