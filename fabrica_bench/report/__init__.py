"""Pages and tables from the records of a run: the same records give the same bytes."""

from __future__ import annotations

from fabrica_bench.report.data import AttemptReport, EvaluationReport, RunReport, load_report
from fabrica_bench.report.html import render_html
from fabrica_bench.report.tables import render_csv, render_json, render_markdown
from fabrica_bench.report.writer import FORMATS, write_report

__all__ = [
    "FORMATS",
    "AttemptReport",
    "EvaluationReport",
    "RunReport",
    "load_report",
    "render_csv",
    "render_html",
    "render_json",
    "render_markdown",
    "write_report",
]
