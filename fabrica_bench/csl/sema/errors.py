"""How the analyser reports: one call that raises, and one value for what was reported already."""

from __future__ import annotations

from typing import NoReturn

from fabrica_bench.csl import ast
from fabrica_bench.csl.diagnostics import CslError, Diagnostic, Severity

Note = tuple[str, ast.Span]


def fail(span: ast.Span | None, message: str, hint: str | None = None, notes: tuple[Note, ...] = ()) -> NoReturn:
    """Raise one error at `span`."""
    raise CslError([Diagnostic(Severity.ERROR, message, span, hint, notes)])


def already_reported() -> CslError:
    """What to raise when something depends on a declaration whose own error was reported before."""
    return CslError([])
