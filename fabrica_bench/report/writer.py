"""Writing report files: whole or not at all."""

from __future__ import annotations

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
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        error.filename = str(target)
        raise from_os_error(error) from error
    return target
