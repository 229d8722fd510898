"""Where the command line writes: results on standard output, progress and errors on standard error.

A consumer that asked for `--json` reads standard output and sees one JSON document and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Console


class Column(NamedTuple):
    """Heading of a table column; numbers are right-aligned."""

    title: str
    numeric: bool = False


def is_live(stream: IO[str]) -> bool:
    """True when the stream is a terminal that can redraw lines: not a pipe, a dumb terminal or a CI log."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb" and not os.environ.get("CI")


def stderr_console() -> Console:
    """A rich console on standard error; it honours NO_COLOR itself."""
    from rich.console import Console

    return Console(file=sys.stderr, highlight=False)


def write(text: str = "") -> None:
    """Print one line to standard output, whatever the locale's encoding can show of it."""
    _write(sys.stdout, text)


def note(text: str = "") -> None:
    """Print one line to standard error."""
    _write(sys.stderr, text)


def write_json(value: Any) -> None:
    """Print one JSON document to standard output: ASCII only, so that no locale can break it."""
    write(json.dumps(value, indent=2, sort_keys=False, allow_nan=False))


def write_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table to standard output: boxed on a terminal, aligned plain columns elsewhere.

    Args:
        columns: Headings, one per cell of a row.
        rows: Cell texts; the first line break of a cell is kept on terminals only.
        title: Shown above the table.
    """
    if is_live(sys.stdout):
        _write_rich_table(columns, rows, title)
        return
    if title:
        write(title)
    write(plain_table(columns, rows))


def plain_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """The table as aligned text without markup, for pipes and logs."""
    flat = [[" ".join(cell.split()) for cell in row] for row in rows]
    widths = [max([len(column.title), *(len(row[index]) for row in flat)]) for index, column in enumerate(columns)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if column.numeric else cell.ljust(width)
            for cell, width, column in zip(cells, widths, columns, strict=True)
        ]
        return "  ".join(padded).rstrip()

    head = line([column.title for column in columns])
    # The last column is often prose: a rule as long as its longest cell would wrap on most screens.
    widths[-1] = min(widths[-1], 40)
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([head, rule, *(line(row) for row in flat)])


def _write_rich_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column.title, justify="right" if column.numeric else "left", no_wrap=column.numeric)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(file=sys.stdout, highlight=False).print(table)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text + "\n")
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, errors="replace").decode(encoding) + "\n")
    stream.flush()
