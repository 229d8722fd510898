"""The report page: one HTML file with its style, its script and its data, and nothing from outside.

The ranking, the matrix and the figures are plain HTML. The list of attempts is drawn by the page's own script, only as
far as it is in view, so that ten thousand attempts are as light as ten; their details are read when one is opened.
Large pages hold texts and details compressed; small ones as plain JSON.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.report.data import RunReport
from fabrica_bench.report.document import (
    ROW_FIELDS,
    Document,
    build_document,
    control_text,
    first_passes,
    glossary,
    taxonomy,
)
from fabrica_bench.report.plot import Mark, speedup_svg
from fabrica_bench.report.ranking import Entry, Ranked, control_holds, control_state
from fabrica_bench.report.tables import number_text, percent_text, ratio_text, short_outcome
from fabrica_bench.scoring.verdict import Predicate

if TYPE_CHECKING:
    from jinja2 import Environment

BLOCK: Final = 64
"""Details or texts that are read together."""

PLAIN_LIMIT: Final = 4_000_000
"""Characters of details and texts that a page holds as plain JSON; more are compressed."""


def render_html(report: RunReport) -> str:
    """The page of one run as text; equal records give equal text."""
    summary = report.summary
    title = f"{summary.agent}: {summary.valid} of {summary.total} valid"
    return render_page(build_document([Entry(summary.agent, report)]), title)


def render_page(document: Document, title: str) -> str:
    """A page as text; equal records give equal text."""
    script = (templates_root() / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            title=title,
            css=(templates_root() / "style.css").read_text(encoding="utf-8"),
            script=script,
            script_digest=digest,
            ranked=[_entry_view(item) for item in document.ranked],
            matrix=_matrix(document),
            several=len(document.ranked) > 1,
            rows=len(document.rows),
            plot=speedup_svg(_marks(document)) if document.rows else "",
            taxonomy=taxonomy(document),
            first_passes=first_passes(document),
            glossary=glossary(),
            data=_data(document),
        )
    )


def templates_root() -> Path:
    """Folder of the page templates: inside an installed package, or `reports/templates` of a source checkout.

    Raises:
        FabricaError: Neither exists.
    """
    package = Path(str(files("fabrica_bench")))
    for root in (package / "_reports", package.parent / "reports" / "templates"):
        if (root / "report.html.j2").is_file():
            return root
    raise FabricaError(
        "the report templates are missing from this installation",
        place=str(package),
        remedy="reinstall: pip install --force-reinstall fabrica-bench",
        code=ExitCode.ENVIRONMENT,
    )


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(templates_root()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(number=number_text, ratio=ratio_text, percent=percent_text, usd=_usd, fact=_fact)
    return environment


def _entry_view(item: Ranked) -> dict[str, Any]:
    report = item.entry.report
    control = None
    if item.control:
        control = {"text": control_text(item), "state": control_state(item.entry), "holds": control_holds(report)}
    return {
        "item": item,
        "summary": report.summary,
        "manifest": report.manifest,
        "figures": item.figures,
        "control": control,
    }


def _matrix(document: Document) -> list[dict[str, Any]]:
    """By level the tasks, and for each task one cell per entry."""
    cells: dict[tuple[str, str], list[Any]] = {}
    levels: dict[str, int] = {}
    for item in document.ranked:
        for row in item.entry.report.summary.rows:
            cells.setdefault((row.task, item.entry.name), []).append(row)
            levels.setdefault(row.task, row.level)
    names = [item.entry.name for item in document.ranked]
    found: list[dict[str, Any]] = []
    for level in sorted(set(levels.values())):
        tasks = [task for task, of in levels.items() if of == level]
        lines = [{"task": task, "cells": [_cell(cells.get((task, name), [])) for name in names]} for task in tasks]
        valid = sum(row.valid for task in tasks for name in names for row in cells.get((task, name), []))
        total = sum(len(cells.get((task, name), [])) for task in tasks for name in names)
        found.append({"level": level, "valid": valid, "total": total, "lines": lines})
    return found


def _cell(rows: Sequence[Any]) -> dict[str, Any]:
    """What one entry reached on one task: passes, the best speed-up, or the reason of the first failure."""
    if not rows:
        return {"kind": "none", "text": "–", "speed": "", "cycles": None, "reference": None, "why": "no attempt"}
    valid = [row for row in rows if row.valid]
    best = max(valid, key=lambda row: row.speedup, default=None)
    text = short_outcome(rows[0].verdict) if len(rows) == 1 else f"{len(valid)} of {len(rows)} valid"
    kind = "good" if len(valid) == len(rows) else "bad" if not valid else "part"
    return {
        "kind": kind,
        "text": text,
        "speed": f"{best.speedup:.3f}×" if best else "",
        "cycles": best.cycles if best else None,
        "reference": best.reference_cycles if best else None,
        "why": next(((row.reason or "")[:200] for row in rows if not row.valid), ""),
    }


def _marks(document: Document) -> list[Mark]:
    several = len(document.ranked) > 1
    return [
        Mark(
            row.task,
            row.level,
            row.speedup,
            "" if row.valid else short_outcome(row.verdict),
            item.track.arch,
            item.entry.name if several else "",
            trusted=not item.entry.excluded,
        )
        for item in document.ranked
        if not (several and item.control)
        for row in item.entry.report.summary.rows
    ]


# ---------------------------------------------------------------------------------------------------- data


def _data(document: Document) -> list[dict[str, str]]:
    """The page's data blocks: `id`, `type` of coding, and text that can't end its element."""
    blocks = [("rows", _json({"fields": ROW_FIELDS, "rows": document.rows, "predicates": [str(p) for p in Predicate]}))]
    parts = [("detail", document.details), ("text", document.texts)]
    groups = [
        (f"{kind}-{index // BLOCK}", _json(items[index : index + BLOCK]))
        for kind, items in parts
        for index in range(0, len(items), BLOCK)
    ]
    packed = sum(len(text) for _, text in groups) > PLAIN_LIMIT
    views = [{"id": name, "coding": "json", "text": text} for name, text in blocks]
    return views + [
        {"id": name, "coding": "deflate" if packed else "json", "text": _packed(text) if packed else text}
        for name, text in groups
    ]


def _json(value: Any) -> str:
    """JSON that is harmless inside a script element: no `<`, no `&`, none of JavaScript's odd line ends."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Lone surrogates can't be written as UTF-8.
    text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode()


def _fact(value: Any) -> str:
    """A value of the configuration in words: lists with commas, mappings as `name value`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(item)}" for name, item in value.items() if item is not None) or "–"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_fact, value)) or "–"
    return "–" if value is None else str(value)


def _usd(value: float | None) -> str:
    return "–" if value is None else f"${value:.2f}"
