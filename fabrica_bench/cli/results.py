"""How results look on the command line: the result table of a run and the account of one verdict."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Final

from fabrica_bench.cli import console
from fabrica_bench.cli.console import Column

if TYPE_CHECKING:
    from fabrica_bench.runs.summary import RunRow, RunSummary
    from fabrica_bench.scoring.verdict import Invalid, NotScored, Valid

FAULTS_OF_OTHERS: Final = ("provider", "harness", "machine")
"""Who may be to blame for an attempt that says nothing about agent or candidate."""

REASON_WIDTH: Final = 160
"""Characters of a reason in the table; the report has all of it."""


def write_run(summary: RunSummary) -> None:
    """The result table, then what was used for it."""
    console.write_table(
        [
            Column("task"),
            Column("level", True),
            Column("verdict"),
            Column("cycles", True),
            Column("reference cycles", True),
            Column("speed-up", True),
            Column("reason", prose=True),
        ],
        [_cells(row) for row in summary.rows],
    )
    console.write()
    counts = f"{summary.valid} of {summary.total} valid"
    if summary.judged not in (0, summary.total):
        others = {name: count for name, count in summary.outcomes.items() if name in FAULTS_OF_OTHERS and count}
        apart = ", ".join(f"{name} {count}" for name, count in others.items())
        counts += f"; {summary.valid} of {summary.judged} judged" + (f" (apart: {apart})" if apart else "")
    if summary.missing:
        counts += f"; PARTIAL: {summary.missing} without a verdict, run the same command with --out to continue"
    console.write(counts)
    console.write(f"agent {summary.agent}, model {summary.model}; toolchain {toolchain_text(summary.toolchain)}")


def write_verdict(task: str, verdict: Valid | Invalid | NotScored) -> None:
    """The verdict with the evidence of each predicate."""
    if verdict.kind == "valid":
        console.write(
            f"{task}: valid, {verdict.cycles:,} cycles, reference {verdict.reference_cycles:,}, "
            f"speed-up {verdict.speedup:.3f}"
        )
    elif verdict.kind == "invalid":
        console.write(f"{task}: invalid, fails {verdict.predicate}: {verdict.reason}")
    else:
        console.write(f"{task}: not scored, {verdict.blame} at fault: {verdict.reason}")
        return
    for result in verdict.evidence:
        state = {True: "holds", False: "fails", None: "not evaluated"}[result.holds]
        console.write(f"  {result.predicate!s:<9} {state}")
        for line in result.evidence:
            console.write(indent(line, " " * 12))


def toolchain_text(facts: dict[str, str]) -> str:
    """Name and version of a toolchain, and what else it says about itself."""
    rest = ", ".join(f"{name} {value}" for name, value in facts.items() if name not in {"toolchain", "version"})
    head = f"{facts.get('toolchain', 'unknown')} {facts.get('version', '')}".rstrip()
    return f"{head} ({rest})" if rest else head


def _cells(row: RunRow) -> list[str]:
    from fabrica_bench.report.tables import number_text, ratio_text, short_outcome

    reason = row.reason or ""
    return [
        row.task if row.attempt == 1 else f"{row.task} #{row.attempt}",
        str(row.level),
        short_outcome(row.verdict),
        number_text(row.cycles),
        number_text(row.reference_cycles),
        ratio_text(row.speedup),
        reason if len(reason) <= REASON_WIDTH else reason[: REASON_WIDTH - 3] + "...",
    ]
