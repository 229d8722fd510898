"""Writing report files: whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fabrica_bench.errors import UnknownNameError, from_os_error
from fabrica_bench.report.data import RunReport, load_report
from fabrica_bench.report.document import build_document
from fabrica_bench.report.frames import parquet_bytes
from fabrica_bench.report.html import render_html
from fabrica_bench.report.paper import write_figures
from fabrica_bench.report.ranking import Entry
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
    if format_name == "parquet":
        target = run_dir / "report.parquet" if out is None else out
        write_whole(target, parquet_bytes(load_report(run_dir)))
        return target
    if format_name == "figures":
        folder = run_dir / "figures" if out is None else out
        report = load_report(run_dir)
        write_figures(build_document([Entry(report.summary.agent, report)]), folder)
        return folder
    if format_name not in FORMATS:
        raise UnknownNameError("report format", format_name, [*FORMATS, "parquet", "figures"])
    name, render = FORMATS[format_name]
    target = run_dir / name if out is None else out
    text = render(load_report(run_dir))
    write_whole(target, text)
    return target


def write_whole(target: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; a device or a pipe, such as /dev/stdout, is written to as it stands.

    Raises:
        FabricaError: It can't be written.
    """
    # A name that isn't UTF-8 is halves of characters here, which no text file can hold.
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            with target.open("wb") as stream:
                stream.write(data)
            return
        # A link stays a link: what it points to is replaced.
        temporary = (real := target.resolve()).with_name(temporary.name)
        temporary.write_bytes(data)
        temporary.replace(real)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        error.filename = str(target)
        raise from_os_error(error) from error
