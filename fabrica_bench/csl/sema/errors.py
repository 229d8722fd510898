"""How the analyser reports: one call that raises, and one value for what was reported already."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from fabrica_bench.csl import ast
from fabrica_bench.csl import types as t
from fabrica_bench.csl.diagnostics import CslError, Diagnostic, Severity

Note = tuple[str, ast.Span]


def fail(span: ast.Span | None, message: str, hint: str | None = None, notes: tuple[Note, ...] = ()) -> NoReturn:
    """Raise one error at `span`."""
    raise CslError([Diagnostic(Severity.ERROR, message, span, hint, notes)])


#: Calls shown with an error inside of a called function.
MAX_CALL_NOTES = 4


def called_from(problem: CslError, name: str, span: ast.Span) -> CslError:
    """The same errors, saying through which call they came about."""
    return noted(problem, f"in the call of '{name}' here", span)


def noted(problem: CslError, text: str, span: ast.Span) -> CslError:
    """The same errors with one more note, unless they have many."""
    note = (text, span)
    return CslError(
        [
            replace(entry, notes=(*entry.notes, note)) if len(entry.notes) < MAX_CALL_NOTES else entry
            for entry in problem.diagnostics
        ]
    )


def truth_hint(type_: t.Type) -> str | None:
    """What to write where a number stands for true or false."""
    if t.is_numeric(type_):
        return f"compare it with zero: '!= {'0' if t.is_integer(type_) else '0.0'}'"
    return "compare it with '==' or '!='" if isinstance(type_, t.EnumType) else None


def already_reported() -> CslError:
    """What to raise when something depends on a declaration whose own error was reported before."""
    return CslError([])
