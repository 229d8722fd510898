"""Where the command line writes: results on standard output, progress and errors on standard error.

A consumer that asked for `--json` reads standard output and sees one JSON document and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PROSE_WIDTH: Final = 24
"""Characters below which a column of sentences is no fun to read."""

BOX_MARGIN: Final = 1
BOX_GAP: Final = 3
"""Screen columns that the lines and the padding of a boxed table take: once, and per column."""

_PLAIN_SIGNS: Final = {ord("–"): "-", ord("—"): "-", ord("…"): "...", ord("×"): "x", ord("→"): "->"}
"""What stands for a sign that the locale's encoding lacks; anything else becomes a question mark."""


class Column(NamedTuple):
    """Heading of a table column; numbers are right-aligned, prose may stand below the table on a narrow screen."""

    title: str
    numeric: bool = False
    prose: bool = False


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
        _write_terminal_table(columns, rows, title)
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


def _write_terminal_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str | None) -> None:
    """A boxed table; where that would break words, a table without prose and the prose below; else one block a row."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    widths = fitted_widths(columns, rows, console.width)
    if widths is not None:
        _print_boxed(console, columns, rows, widths, title)
        return
    prose = [index for index, column in enumerate(columns) if column.prose]
    kept = [index for index in range(len(columns)) if index not in prose]
    short = [columns[index] for index in kept]
    cells = [[row[index] for index in kept] for row in rows]
    widths = fitted_widths(short, cells, console.width) if prose else None
    if widths is None:
        if title:
            write(title)
        write(record_blocks(columns, rows))
        return
    _print_boxed(console, short, cells, widths, title)
    for row in rows:
        for index in prose:
            if row[index]:
                write(f"{row[0]}: {row[index]}")


def _print_boxed(
    console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int], title: str | None
) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column.title, justify="right" if column.numeric else "left", width=width)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def fitted_widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], screen: int) -> list[int] | None:
    """Widths of a boxed table's columns on a screen of so many columns, or None if a word would have to be broken.

    The first column and numbers stay on one line, headings and other cells may wrap between words; prose gets at least
    `PROSE_WIDTH`. Where something must shrink, the widest column does.
    """
    widths, least = [], []
    for index, column in enumerate(columns):
        cells = [row[index] for row in rows]
        whole = max((len(line) for cell in cells for line in cell.splitlines()), default=0)
        heading = max(map(len, column.title.split()))
        word = max((len(word) for cell in cells for word in cell.split()), default=0)
        floor = whole if column.numeric or index == 0 else word
        if column.prose:
            floor = max(floor, min(whole, PROSE_WIDTH))
        widths.append(max(whole, len(column.title)))
        least.append(max(floor, heading))
    spare = screen - BOX_MARGIN - BOX_GAP * len(columns)
    while sum(widths) > spare:
        shrinkable = [index for index in range(len(columns)) if widths[index] > least[index]]
        if not shrinkable:
            return None
        widths[max(shrinkable, key=lambda index: widths[index])] -= 1
    return widths


def record_blocks(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """The rows one below the other, each as its first cell and an indented line for every further cell with a text."""
    lines = []
    for row in rows:
        lines.append(row[0])
        lines += [f"  {column.title}: {cell}" for column, cell in zip(columns[1:], row[1:], strict=True) if cell]
    return "\n".join(lines)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text + "\n")
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.translate(_PLAIN_SIGNS).encode(encoding, errors="replace").decode(encoding) + "\n")
    stream.flush()
