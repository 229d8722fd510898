"""Reading compiler messages: `file:line:column: error: text`, with an optional `hint: ...` line after it."""

from __future__ import annotations

import re
from typing import Final, cast

from fabrica_bench.toolchains.protocol import Severity, ToolDiagnostic

_MESSAGE: Final = re.compile(
    r"^(?:(?P<file>[^\s:][^:\n]*):(?:(?P<line>\d+):(?:(?P<column>\d+):)?)?\s+)?(?P<severity>error|warning|note):\s+(?P<text>.+)$"
)
_HINT: Final = re.compile(r"^\s*(?:=\s*)?hint:\s*(?P<text>.+)$")
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")

MAX_DIAGNOSTICS: Final = 200
"""More than this many messages help nobody and bloat the records."""


def harmless(text: str) -> str:
    """The text with U+FFFD for what would steer a terminal: a program decides what messages quote of it."""
    return _CONTROL.sub("\ufffd", text)


def parse_diagnostics(log: str) -> tuple[ToolDiagnostic, ...]:
    """Every diagnostic in a compiler's output, errors first and otherwise in the order printed.

    Lines that are not diagnostics (source excerpts, carets, progress) are skipped; a hint belongs to the diagnostic
    before it.
    """
    found: list[ToolDiagnostic] = []
    for raw in harmless(_ANSI.sub("", log)).splitlines():
        line = raw.rstrip()
        message = _MESSAGE.match(line)
        if message:
            if len(found) == MAX_DIAGNOSTICS:
                break
            found.append(
                ToolDiagnostic(
                    file=message["file"] or "",
                    line=int(message["line"] or 0),
                    column=int(message["column"] or 0),
                    severity=cast(Severity, message["severity"]),
                    message=message["text"],
                )
            )
            continue
        hint = _HINT.match(line)
        if hint and found and found[-1].hint is None:
            last = found[-1]
            found[-1] = ToolDiagnostic(last.file, last.line, last.column, last.severity, last.message, hint["text"])
    rank = {"error": 0, "warning": 1, "note": 2}
    return tuple(sorted(found, key=lambda diagnostic: rank[diagnostic.severity]))
