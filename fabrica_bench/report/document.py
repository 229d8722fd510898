"""Everything that a report shows, as one plain object: pages, tables and files are different views of it.

Texts (candidates, logs, prompts) are kept once each and referred to by number, because attempts share most of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fabrica_bench.json_text import json_text
from fabrica_bench.report.data import AttemptReport
from fabrica_bench.report.figures import breaks_rules, figures_json
from fabrica_bench.report.ranking import MUST_PASS, Entry, Ranked, control_holds, rank
from fabrica_bench.scoring.glossary import GLOSSARY
from fabrica_bench.scoring.verdict import Invalid, NotScored, Predicate, Valid

TEXT_LIMIT: Final = 20_000
"""Characters of a log or agent event that a page shows; the whole text stays in the run folder."""

MOST_KINDS: Final = 15
_NUMBER: Final = re.compile(r"-?\d[\d.,e+-]*")


@dataclass
class Texts:
    """Texts by number, each once."""

    items: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """The number of a text, cut where it is very long."""
        if len(text) > TEXT_LIMIT:
            text = f"{text[:TEXT_LIMIT]}\n[{len(text) - TEXT_LIMIT:,} more characters are in the run folder]"
        if text not in self._numbers:
            self._numbers[text] = len(self.items)
            self.items.append(text)
        return self._numbers[text]


@dataclass(frozen=True)
class Document:
    """A report.

    Attributes:
        ranked: Entries in the order of the ranking.
        rows: One list per attempt, see `ROW_FIELDS`.
        details: One object per attempt, in the order of the rows.
        texts: What the details refer to by number.
    """

    ranked: Sequence[Ranked]
    rows: Sequence[Sequence[Any]]
    details: Sequence[Mapping[str, Any]]
    texts: Sequence[str]

    @property
    def total(self) -> int:
        return sum(item.entry.report.summary.total for item in self.ranked)


ROW_FIELDS: Final = (
    "entry",
    "task",
    "level",
    "attempt",
    "outcome",
    "reason",
    "cycles",
    "reference_cycles",
    "speedup",
    "first_pass",
    "evaluations",
    "seconds",
    "marks",
    "tokens",
    "cost_usd",
    "target",
)


def build_document(entries: Sequence[Entry]) -> Document:
    """Rank the entries and gather what is shown of them."""
    ranked = rank(entries)
    texts = Texts()
    rows: list[list[Any]] = []
    details: list[dict[str, Any]] = []
    for item in ranked:
        earlier: dict[str, Mapping[str, int]] = {}
        for attempt in item.entry.report.attempts:
            rows.append(_row(item, attempt))
            details.append(_detail(attempt, texts, earlier))
    return Document(ranked, rows, details, texts.items)


def entry_json(item: Ranked) -> dict[str, Any]:
    """One entry of the ranking as JSON values, with the definition of none of its numbers left to guess."""
    summary, manifest = item.entry.report.summary, item.entry.report.manifest
    return {
        "name": item.entry.name,
        "rank": item.rank,
        "not_ranked_because": list(item.reasons),
        "control": item.control,
        "control_holds": control_holds(item.entry.report) if item.control else None,
        "track": str(item.track),
        "agent": summary.agent,
        "model": summary.model,
        "run_id": summary.run_id,
        "created": manifest.created,
        "verified": item.entry.verified,
        **figures_json(item.figures),
        "missing": summary.missing,
        "model_calls": item.usage.calls,
        "input_tokens": item.usage.input_tokens,
        "output_tokens": item.usage.output_tokens,
        "cost_usd": item.usage.cost_usd,
        "comparison_with_the_rank_before": list(item.against_better),
        "key_fingerprint": manifest.key_fingerprint,
    }


def taxonomy(document: Document) -> list[tuple[str, str, int]]:
    """(kind, pattern of the reason, count), the most frequent first; numbers in reasons are replaced by `#`.

    Beside other entries, controls are left out: most of them fail on purpose.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for item in document.ranked:
        if item.control and len(document.ranked) > 1:
            continue
        for row in item.entry.report.summary.rows:
            if not row.valid:
                kind = (
                    str(row.verdict.predicate)
                    if isinstance(row.verdict, Invalid)
                    else f"not scored ({row.verdict.blame})"
                    if isinstance(row.verdict, NotScored)
                    else ""
                )
                counts[kind, _NUMBER.sub("#", row.reason or "")[:140]] += 1
    ordered = sorted(counts.items(), key=lambda found: (-found[1], found[0]))
    shown = [(kind, pattern, count) for (kind, pattern), count in ordered[:MOST_KINDS]]
    rest = sum(count for _, count in ordered[MOST_KINDS:])
    return [*shown, ("other", f"{len(ordered) - MOST_KINDS} more patterns", rest)] if rest else shown


def first_passes(document: Document) -> list[tuple[str, int]]:
    """How many attempts first ran correctly at which evaluation; the last line counts those that never did."""
    numbers = [a.first_pass for item in document.ranked if not item.control for a in item.entry.report.attempts]
    counts = Counter(number for number in numbers if number is not None)
    never = sum(number is None for number in numbers)
    return [*((str(number), counts[number]) for number in sorted(counts)), *([("never", never)] if never else [])]


def glossary() -> Sequence[tuple[str, str]]:
    """The definitions that every report prints."""
    return GLOSSARY


def control_text(item: Ranked) -> str:
    """What a control must do."""
    if item.entry.report.summary.agent == MUST_PASS:
        return "every attempt must be valid: the reference kernel passes its own checks"
    return "no attempt may be valid: a program that computes nothing, copies or cheats must be caught"


# ------------------------------------------------------------------------------------------------- attempts


def _row(item: Ranked, attempt: AttemptReport) -> list[Any]:
    row = attempt.row
    usage = attempt.usage
    return [
        item.entry.name,
        row.task,
        row.level,
        row.attempt,
        outcome_kind(attempt),
        (row.reason or "")[:200],
        row.cycles,
        row.reference_cycles,
        None if row.speedup is None else round(row.speedup, 6),
        attempt.first_pass,
        row.evaluations,
        round(row.seconds, 1),
        _marks(attempt),
        usage.input_tokens + usage.output_tokens if usage.calls else None,
        usage.cost_usd,
        item.track.arch,
    ]


def outcome_kind(attempt: AttemptReport) -> str:
    """`valid`, `fails Correct`, `breaks the rules (Timing)`, `not scored (agent)`."""
    verdict = attempt.row.verdict
    if isinstance(verdict, Valid):
        return "valid"
    if isinstance(verdict, Invalid):
        broken = breaks_rules(attempt.row)
        return f"breaks the rules ({verdict.predicate})" if broken else f"fails {verdict.predicate}"
    return f"not scored ({verdict.blame})"


def _marks(attempt: AttemptReport) -> str:
    """One sign per predicate: `+` holds, `-` fails, `.` was not evaluated."""
    verdict = attempt.row.verdict
    if isinstance(verdict, NotScored):
        return "." * len(Predicate)
    known = {result.predicate: result.holds for result in verdict.evidence}
    if isinstance(verdict, Invalid):
        known[verdict.predicate] = False
    return "".join({True: "+", False: "-", None: "."}[known.get(predicate)] for predicate in Predicate)


def _detail(attempt: AttemptReport, texts: Texts, earlier: dict[str, Mapping[str, int]]) -> dict[str, Any]:
    verdict = attempt.row.verdict
    before = earlier.get(attempt.row.task)
    files = {name: texts.number(text) for name, text in attempt.files.items()}
    evaluations: list[dict[str, Any]] = []
    last: Mapping[str, int] | None = None
    for evaluation in attempt.evaluations:
        record = evaluation.record
        current = {name: texts.number(text) for name, text in sorted(evaluation.files.items())}
        evaluations.append(
            {
                "action": record.action,
                "ok": record.ok,
                "outcome": record.outcome[:2000],
                "cycles": record.cycles,
                "diagnostics": [texts.number(item) for item in record.diagnostics],
                "log": texts.number(evaluation.log) if evaluation.log else None,
                "files": current,
                "before": last,
            }
        )
        last = current
    if files:
        earlier[attempt.row.task] = files
    return {
        "model": attempt.row.model,
        "reason": "" if attempt.row.valid else attempt.row.outcome,
        "evidence": []
        if isinstance(verdict, NotScored)
        else [[str(r.predicate), r.holds, [texts.number(line) for line in r.evidence]] for r in verdict.evidence],
        "samples": [list(verdict.samples), list(verdict.reference_samples)] if isinstance(verdict, Valid) else None,
        "notes": list(attempt.notes),
        "files": files,
        "before": before,
        "evaluations": evaluations,
        "events": [[event.event, texts.number(_event_text(event.data))] for event in attempt.events],
        "failures": [f"({failure.blame}): {failure.reason}" for failure in attempt.failures],
        "commitments": [commitment[:16] for commitment in attempt.commitments],
        "share": attempt.reference_share,
        "usage": attempt.usage.model_dump(mode="json") if attempt.usage.calls else None,
    }


def _event_text(data: Mapping[str, Any]) -> str:
    """An event's data: text as it is, the rest as JSON."""
    if set(data) == {"text"} and isinstance(data["text"], str):
        return str(data["text"])
    return json_text(data, indent=2, sort_keys=True)
