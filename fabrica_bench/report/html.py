"""The run page: one HTML file without scripts, network or outside files."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.report.data import AttemptReport, EvaluationReport, RunReport
from fabrica_bench.report.figures import GLOSSARY, figures
from fabrica_bench.report.plot import Mark, speedup_svg
from fabrica_bench.report.tables import number_text, ratio_text, short_outcome
from fabrica_bench.scoring.verdict import Invalid, NotScored, Predicate, PredicateResult, Valid

if TYPE_CHECKING:
    from jinja2 import Environment

LOG_LIMIT: Final = 20_000
"""Characters of a log or agent event that the page shows; the whole text stays in the run folder."""

CONTROL_EXPECTATION: Final[Mapping[str, str]] = {
    "reference": "every attempt must be valid: the reference kernel passes its own checks",
    "null": "no attempt may be valid: a program that computes nothing must be caught",
}


def render_html(report: RunReport) -> str:
    """The page as text; equal records give equal text."""
    environment = _environment()
    attempts = [_attempt_view(attempt, index) for index, attempt in enumerate(report.attempts, start=1)]
    return environment.get_template("run.html.j2").render(
        css=(templates_root() / "style.css").read_text(encoding="utf-8"),
        report=report,
        summary=report.summary,
        manifest=report.manifest,
        figures=figures(report.summary),
        predicates=list(Predicate),
        attempts=attempts,
        plot=speedup_svg([_mark(attempt) for attempt in report.attempts]) if attempts else "",
        control=_control(report),
        glossary=GLOSSARY,
    )


def templates_root() -> Path:
    """Folder of the page templates: inside an installed package, or `reports/templates` of a source checkout.

    Raises:
        FabricaError: Neither exists.
    """
    package = Path(str(files("fabrica_bench")))
    for root in (package / "_reports", package.parent / "reports" / "templates"):
        if (root / "run.html.j2").is_file():
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
    environment.filters.update(number=number_text, ratio=ratio_text, percent=_percent)
    return environment


def _control(report: RunReport) -> dict[str, Any] | None:
    """Whether a control did what it must; None for agents that compete."""
    summary = report.summary
    expectation = CONTROL_EXPECTATION.get(summary.agent)
    if not summary.control or expectation is None:
        return None
    wanted = summary.total if summary.agent == "reference" else 0
    return {"text": expectation, "holds": summary.valid == wanted and not summary.partial, "partial": summary.partial}


def _mark(attempt: AttemptReport) -> Mark:
    row = attempt.row
    name = row.task if row.attempt == 1 else f"{row.task} #{row.attempt}"
    return Mark(name, row.level, row.speedup, "" if row.valid else short_outcome(attempt.row.verdict))


def _attempt_view(attempt: AttemptReport, index: int) -> dict[str, Any]:
    verdict = attempt.row.verdict
    evidence = {} if isinstance(verdict, NotScored) else {result.predicate: result for result in verdict.evidence}
    return {
        "id": f"attempt-{index}",
        "name": attempt.row.task if attempt.row.attempt == 1 else f"{attempt.row.task} #{attempt.row.attempt}",
        "row": attempt.row,
        "short": short_outcome(attempt.row.verdict),
        "marks": [_predicate_mark(attempt, predicate, evidence.get(predicate)) for predicate in Predicate],
        "evidence": list(evidence.values()),
        "samples": _samples(verdict) if isinstance(verdict, Valid) else [],
        "files": attempt.files,
        "notes": attempt.notes,
        "evaluations": _evaluation_views(attempt.evaluations),
        "events": [
            {"name": event.event, "text": _cut(json.dumps(event.data, indent=2, ensure_ascii=False, sort_keys=True))}
            for event in attempt.events
        ],
        "failures": attempt.failures,
        "commitments": attempt.commitments,
        "first_pass": attempt.first_pass,
    }


def _predicate_mark(attempt: AttemptReport, predicate: Predicate, result: PredicateResult | None) -> dict[str, str]:
    """A sign, a class for its colour and a word for those who don't see colours."""
    verdict = attempt.row.verdict
    failed = isinstance(verdict, Invalid) and verdict.predicate is predicate
    if failed or (result is not None and result.holds is False):
        return {"sign": "✗", "kind": "bad", "word": f"{predicate} fails"}
    if result is not None and result.holds:
        return {"sign": "✓", "kind": "good", "word": f"{predicate} holds"}
    return {"sign": "·", "kind": "none", "word": f"{predicate} was not evaluated"}


def _samples(verdict: Valid) -> list[tuple[int, int, int]]:
    """(number, cycles, reference cycles) per input."""
    return [
        (number, cycles, reference)
        for number, (cycles, reference) in enumerate(zip(verdict.samples, verdict.reference_samples, strict=False), 1)
    ]


def _evaluation_views(evaluations: Sequence[EvaluationReport]) -> list[dict[str, Any]]:
    views: list[dict[str, Any]] = []
    before: Mapping[str, str] = {}
    for number, evaluation in enumerate(evaluations, start=1):
        views.append(
            {
                "number": number,
                "record": evaluation.record,
                "log": _cut(evaluation.log),
                "diff": _diff(before, evaluation.files) if before else None,
                "files": evaluation.files if not before else {},
            }
        )
        before = evaluation.files
    return views


def _diff(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str]]:
    """(kind, line) of the unified difference; kind is `add`, `del`, `head` or `same`."""
    lines: list[tuple[str, str]] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, "").splitlines(), after.get(name, "").splitlines()
        for line in difflib.unified_diff(old, new, f"before/{name}", f"after/{name}", lineterm="", n=2):
            kind = {"+": "add", "-": "del", "@": "head"}.get(line[:1], "same")
            lines.append(("head" if line.startswith(("+++", "---")) else kind, line))
    return lines


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _cut(text: str) -> str:
    if len(text) <= LOG_LIMIT:
        return text
    return f"{text[:LOG_LIMIT]}\n[{len(text) - LOG_LIMIT:,} more characters are in the run folder]"
