"""Run the validation suite and print published and simulated cycles.

python -m validation                      everything but the slow points
python -m validation ramp- stream-        points whose id contains one of these
python -m validation --slow --record      all points; write results.json and the documentation's plot and table
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from validation.examples import CHECKOUT_VARIABLE, Unavailable
from validation.page import with_results
from validation.plot import scatter_svg
from validation.points import load_table
from validation.suite import RESULTS, Measured, Summary, chosen, load_results, measure, save_results, summarize

DOCUMENTATION: Final = Path(__file__).parent.parent / "docs"
PAGE: Final = DOCUMENTATION / "cycle-model.md"
PLOT: Final = DOCUMENTATION / "images" / "cycle-validation.svg"


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point. Exit status 1 if a target is missed and `--strict` was given."""
    options = _parser().parse_args(arguments)
    table = load_table()
    results = []
    for point in chosen(table, options.points, options.slow):
        begin = time.monotonic()
        try:
            result = measure(point)
        except Unavailable as reason:
            sys.stdout.write(f"{point.id:<42} not measured: {reason}\n")
            continue
        results.append(result)
        sys.stdout.write(f"{_row(result)}  {time.monotonic() - begin:6.1f} s\n")
        sys.stdout.flush()
    summary = summarize(table, results)
    sys.stdout.write(_text(summary, results))
    if options.record:
        # What this run left out keeps its earlier result.
        known = {**load_results(), **{result.id: result for result in results}}
        kept = [known[point.id] for point in table.points if point.id in known]
        save_results(kept)
        PLOT.parent.mkdir(parents=True, exist_ok=True)
        PLOT.write_text(scatter_svg(kept), encoding="utf-8")
        PAGE.write_text(with_results(PAGE.read_text(encoding="utf-8"), table, kept), encoding="utf-8")
        sys.stdout.write(f"wrote {RESULTS}, {PLOT} and the table of {PAGE}\n")
    return 1 if options.strict and not all(summary.on_target.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m validation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("points", nargs="*", metavar="ID", help="only points whose id contains one of these")
    parser.add_argument("--slow", action="store_true", help="also the points that take minutes")
    parser.add_argument("--record", action="store_true", help="write results.json and the plot")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    parser.epilog = (
        f"{CHECKOUT_VARIABLE} names a checkout of Cerebras/csl-examples; without it those points are skipped."
    )
    return parser


def _row(result: Measured) -> str:
    split = f"{result.split}{', assumed' if result.structure == 'assumed' else ''}"
    numbers = f"{result.published:>10g} {result.simulated:>10g} {result.ratio:>7.3f}"
    return f"{result.id:<42} {result.arch} {numbers}  {split:<20}"


def _text(summary: Summary, results: Sequence[Measured]) -> str:
    lines = [
        "",
        f"calibration: {summary.calibrated} of {summary.calibration} points within 3 % or one cycle",
        f"validation: {summary.validation} points, median error {summary.median_error:.1%}, "
        f"{summary.usual_share:.0%} within 20 %",
        f"directions: {summary.right} of {summary.directions} right"
        + "".join(f"\n  wrong: {a} should be faster than {b}" for a, b in summary.wrong),
        "largest misses: "
        + ", ".join(f"{r.id} ({r.ratio - 1:+.0%})" for r in sorted(results, key=lambda r: -r.error)[:5]),
    ]
    lines += [f"{'reached' if reached else 'MISSED '}  {target}" for target, reached in summary.on_target.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
