"""`fabrica-bench report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import JsonOption, app, examples


@app.command(
    epilog=examples(
        "fabrica-bench report runs/fabrica-20260101-120000",
        "fabrica-bench report RUN --format md --out result.md",
        "fabrica-bench report RUN --json",
    )
)
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, finished or not.")],
    format_name: Annotated[str, typer.Option("--format", metavar="FORMAT", help="html, md, csv or json.")] = "html",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write; into the run folder by default.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write the report of a run. It is one self-contained page, or the result table in another format.

    The same records always give the same bytes.
    """
    from fabrica_bench.report import load_report, render_json, write_report

    if json:
        console.write(render_json(load_report(run)).rstrip("\n"))
        return
    console.write(str(write_report(run, format_name, out)))
