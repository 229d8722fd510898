"""Writing report files: whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fabrica_bench.errors import UnknownNameError, from_os_error
from fabrica_bench.report.data import RunReport, load_report
from fabrica_bench.report.html import render_html
from fabrica_bench.report.tables import render_csv, render_json, render_markdown

FORMATS: Final[Mapping[str, tuple[str, Callable[[RunReport], str]]]] = {
    "html": ("report.html", render_html),
    "md": ("report.md", render_markdown),
    "csv": ("report.csv", render_csv),
    "json": ("report.json", render_json),
}
"""File name and renderer of each format."""


def write_report(run_dir: Path, format_name: str = "html", out: Path | None = None) -> Path:
    """Render a run and write the file, into the run folder unless `out` names another place.

    Returns:
        The written file.

    Raises:
        FabricaError: Unknown format, no run in the folder, or the file can't be written.
    """
    if format_name not in FORMATS:
        raise UnknownNameError("report format", format_name, FORMATS)
    name, render = FORMATS[format_name]
    target = run_dir / name if out is None else out
    text = render(load_report(run_dir))
    write_whole(target, text)
    return target


def write_whole(target: Path, text: str) -> None:
    """Write a text file whole or not at all; a device or a pipe, such as /dev/stdout, is written to as it stands.

    Raises:
        FabricaError: It can't be written.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            with target.open("w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
            return
        # A link stays a link: what it points to is replaced.
        temporary = (real := target.resolve()).with_name(temporary.name)
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(real)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        error.filename = str(target)
        raise from_os_error(error) from error
