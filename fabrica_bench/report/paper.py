"""Figures for papers (extra `plots`): the same data as the page, drawn by matplotlib as PDF and SVG."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.report.document import Document, first_passes, taxonomy
from fabrica_bench.report.plot import Mark, task_lines
from fabrica_bench.report.tables import short_outcome

FORMATS: Final = ("pdf", "svg")
SHAPES: Final = {"wse3": "o", "wse2": "D"}


def write_figures(document: Document, folder: Path) -> list[Path]:
    """Write `speedup`, `failures` and `first_pass` as PDF and SVG; the same document gives the same bytes.

    Raises:
        FabricaError: matplotlib isn't installed, or the folder can't be written.
    """
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        figure_module: Any = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise FabricaError(
            "matplotlib is not installed", remedy="pip install 'fabrica-bench[plots]'", code=ExitCode.ENVIRONMENT
        ) from error
    written: list[Path] = []
    # Fixed ids and no date: figures are compared by their bytes.
    with matplotlib.rc_context({"svg.hashsalt": "fabrica-bench", "font.size": 8, "pdf.fonttype": 42}):
        drawings = {
            "speedup": _speedup(figure_module.Figure, document),
            "failures": _bars(
                figure_module.Figure,
                [
                    (f"{kind}: {pattern[:60]}" if pattern else kind, count)
                    for kind, pattern, count in taxonomy(document)
                ],
                "attempts",
            ),
            "first_pass": _bars(figure_module.Figure, first_passes(document), "attempts"),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, figure in drawings.items():
                for suffix in FORMATS:
                    path = folder / f"{name}.{suffix}"
                    metadata = {"CreationDate": None} if suffix == "pdf" else {"Date": None}
                    figure.savefig(path, format=suffix, bbox_inches="tight", metadata=metadata)
                    written.append(path)
        except OSError as error:
            raise from_os_error(error) from error
    return written


def _speedup(make: Any, document: Document) -> Any:
    several = len(document.ranked) > 1
    marks = [
        Mark(
            row.task,
            row.level,
            row.speedup,
            "" if row.valid else short_outcome(row.verdict),
            item.track.arch,
            item.entry.name,
        )
        for item in document.ranked
        if not (several and item.control)
        for row in item.entry.report.summary.rows
    ]
    lines = task_lines(marks)
    figure = make(figsize=(6.5, 1.0 + 0.18 * max(1, len(lines))))
    axes = figure.subplots()
    axes.axvline(1.0, color="0.4", linestyle="--", linewidth=0.8)
    for place, line in enumerate(lines):
        for mark in line.valid:
            axes.plot([mark.speedup], [place], SHAPES.get(mark.target, "s"), color="C0", markersize=4, alpha=0.7)
    axes.set_xscale("log", base=2)
    axes.set_yticks(range(len(lines)), [f"L{line.level} {line.task}" for line in lines])
    axes.invert_yaxis()
    axes.set_xlabel("speed-up over the expert reference (ratio of cycles)")
    axes.grid(axis="x", linewidth=0.3)
    return figure


def _bars(make: Any, counts: list[tuple[str, int]], label: str) -> Any:
    figure = make(figsize=(6.5, 0.8 + 0.2 * max(1, len(counts))))
    axes = figure.subplots()
    axes.barh(range(len(counts)), [count for _, count in counts], color="C0")
    axes.set_yticks(range(len(counts)), [name.replace("$", r"\$") for name, _ in counts])
    axes.invert_yaxis()
    axes.set_xlabel(label)
    return figure
