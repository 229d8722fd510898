"""The result table as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from typing import Final

from fabrica_bench.json_text import json_text
from fabrica_bench.report.data import RunReport
from fabrica_bench.report.figures import figures, figures_json
from fabrica_bench.runs.summary import RunRow
from fabrica_bench.runs.usage import total_usage
from fabrica_bench.scoring.glossary import GLOSSARY, markdown_glossary
from fabrica_bench.scoring.verdict import Invalid, NotScored, Valid

COLUMNS: Final = (
    "task",
    "level",
    "attempt",
    "verdict",
    "outcome",
    "reason",
    "cycles",
    "reference_cycles",
    "speedup",
    "model",
    "evaluations",
    "seconds",
)


def render_csv(report: RunReport) -> str:
    """One line per attempt; empty cells where an attempt has no number. Lines end with a line feed."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, extrasaction="raise", lineterminator="\n")
    writer.writeheader()
    for row in report.summary.rows:
        writer.writerow({name: "" if value is None else no_formula(value) for name, value in row.to_json().items()})
    return stream.getvalue()


def render_json(report: RunReport) -> str:
    """The summary with its rows and headline numbers; the same object as `run --json` prints, without the folder."""
    numbers = figures(report.summary)
    body = {
        **{name: value for name, value in report.summary.to_json().items() if name != "run_dir"},
        **{name: value for name, value in figures_json(numbers).items() if name != "valid"},
        "usage": total_usage(attempt.usage for attempt in report.attempts).model_dump(mode="json"),
        "glossary": dict(GLOSSARY),
        "created": report.manifest.created,
        "config": report.manifest.config,
        "versions": report.manifest.versions,
        "key_fingerprint": report.manifest.key_fingerprint,
    }
    return json_text(body, indent=2, allow_nan=False) + "\n"


def render_markdown(report: RunReport) -> str:
    """Headline and result table for an issue or a README."""
    summary, numbers = report.summary, figures(report.summary)
    toolchain = summary.toolchain.get("toolchain", "unknown")
    details = ", ".join(f"{name} {value}" for name, value in summary.toolchain.items() if name != "toolchain")
    lines = [
        f"## {cell_text(summary.agent)}: {numbers.valid} of {numbers.total} valid",
        "",
        f"Model {cell_text(summary.model)}; toolchain {cell_text(toolchain)} ({cell_text(details)}); "
        f"run {summary.run_id} of {report.manifest.created}.",
        "",
    ]
    if summary.partial:
        lines += [f"**Partial: {summary.missing} of {summary.total} attempts have no verdict yet.**", ""]
    lines += [
        "| task | level | verdict | cycles | reference cycles | speed-up |",
        "|---|---:|---|---:|---:|---:|",
        *(_markdown_row(row) for row in summary.rows),
        "",
        f"fast_0 {ratio_text(numbers.fast_0)} {numbers.fast_0_interval or ''}, "
        f"fast_1 {ratio_text(numbers.fast_1)} {numbers.fast_1_interval or ''} of the {numbers.scored} scored attempts"
        + (
            f"; geometric mean speed-up {numbers.geometric_mean:.3f} {numbers.geometric_mean_interval} over the "
            f"{numbers.valid} valid attempts alone."
            if numbers.geometric_mean is not None
            else "."
        ),
        *([", ".join(f"pass@{k} {value:.3f}" for k, value in numbers.pass_at)] if numbers.pass_at else []),
        "",
        *markdown_glossary(),
    ]
    return "\n".join(lines) + "\n"


def _markdown_row(row: RunRow) -> str:
    name = row.task if row.attempt == 1 else f"{row.task} #{row.attempt}"
    cells = [
        cell_text(name),
        str(row.level),
        cell_text(row.outcome),
        number_text(row.cycles),
        number_text(row.reference_cycles),
        ratio_text(row.speedup),
    ]
    return f"| {' | '.join(cells)} |"


def number_text(value: int | None) -> str:
    """A count with thousands separators, or a dash: a missing number is never shown as one."""
    return "–" if value is None else f"{value:,}"


def ratio_text(value: float | None) -> str:
    """A ratio with three decimals, or a dash."""
    return "–" if value is None else f"{value:.3f}"


def short_outcome(verdict: Valid | Invalid | NotScored) -> str:
    """The verdict in two or three words, without its reason."""
    if isinstance(verdict, Valid):
        return "valid"
    return f"fails {verdict.predicate}" if isinstance(verdict, Invalid) else f"not scored ({verdict.blame})"


def percent_text(share: float | None) -> str:
    """A share in per cent, or a dash."""
    return "–" if share is None else f"{100 * share:.0f} %"


def cell_text(text: str) -> str:
    """Text for a cell of a Markdown table: one line, nothing in it is markup."""
    flat = " ".join(text.split())
    for char in "\\|`*_<>[]":
        flat = flat.replace(char, f"\\{char}")
    return flat


def no_formula(value: object) -> object:
    """Text that a spreadsheet would run as a formula gets a leading apostrophe."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@" and value else value
