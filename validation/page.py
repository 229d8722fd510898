"""The results as they stand in docs/cycle-model.md, between two comments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from validation.points import Table
from validation.suite import Measured, summarize

BEGIN: Final = "<!-- results: written by python -m validation --record -->\n"
END: Final = "<!-- end of results -->\n"


def with_results(page: str, table: Table, results: Sequence[Measured]) -> str:
    """The page with its results replaced.

    Raises:
        ValueError: The page lacks the comments.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no place for the results")
    return f"{before}{BEGIN}{results_text(table, results)}{END}{after}"


def results_text(table: Table, results: Sequence[Measured]) -> str:
    """Summary, targets, and all points as a table."""
    summary = summarize(table, results)
    known = summarize(table, [result for result in results if result.structure == "known"])
    lines = [
        "",
        f"{summary.calibrated} of {summary.calibration} calibration points are within 3 % or one cycle. The "
        f"{summary.validation} validation points",
        f"have a median error of {summary.median_error:.1%}; {summary.usual_share:.0%} are within 20 %. "
        f"{summary.right} of {summary.directions} comparisons come out right.",
        "",
        f"Of the {known.validation} validation points whose program's structure is known, the median error is "
        f"{known.median_error:.1%} and {known.usual_share:.0%} are within 20 %.",
        "",
        "| target | |",
        "|---|---|",
        *(f"| {target} | {'reached' if reached else 'missed'} |" for target, reached in summary.on_target.items()),
        "",
    ]
    if summary.wrong:
        lines += ["Comparisons the wrong way round: " + ", ".join(f"`{a}` < `{b}`" for a, b in summary.wrong) + ".", ""]
    lines += ["| point | target | published | simulated | ratio | |", "|---|---|---:|---:|---:|---|"]
    for result in results:
        remarks = ", ".join([result.split] + (["assumed"] if result.structure == "assumed" else []))
        numbers = f"{result.published:,.10g} | {result.simulated:,.10g} | {result.ratio:.3f}"
        lines.append(f"| {result.id} | {result.arch} | {numbers} | {remarks} |")
    measured = {result.id for result in results}
    left = [point.id for point in table.points if point.id not in measured]
    if left:
        lines += ["", "Not measured: " + ", ".join(f"`{name}`" for name in left) + "."]
    return "\n".join([*lines, ""]) + "\n"
