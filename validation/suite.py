"""Measure points and judge the result: `python -m validation`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from fabrica_bench.wse.costs import load_costs
from validation.cases import CASES
from validation.examples import Unavailable
from validation.points import Point, Table

RESULTS: Final = Path(__file__).with_name("results.json")

CALIBRATION_ERROR: Final = 0.03
CALIBRATION_CYCLES: Final = 1.0  # a figure of a dozen cycles can't come closer than one
MEDIAN_ERROR: Final = 0.08
USUAL_ERROR: Final = 0.20
USUAL_SHARE: Final = 0.90


class Measured(BaseModel):
    """A point with its simulated cycles."""

    model_config = ConfigDict(frozen=True)

    id: str
    arch: Literal["wse2", "wse3"]
    split: Literal["calibration", "validation"]
    structure: Literal["known", "assumed"]
    published: float
    simulated: float

    @property
    def ratio(self) -> float:
        """Simulated over published cycles."""
        return self.simulated / self.published

    @property
    def error(self) -> float:
        """Absolute relative error."""
        return abs(self.ratio - 1)

    @property
    def calibrated(self) -> bool:
        """Within the target for calibration points."""
        off = abs(self.simulated - self.published)
        return self.error <= CALIBRATION_ERROR or off <= CALIBRATION_CYCLES


class Summary(BaseModel):
    """What the suite says about the model.

    Attributes:
        calibration, calibrated: calibration points, and how many of them are within their target.
        validation: validation points measured.
        median_error: their median absolute relative error.
        usual_share: share of them within 20 %.
        directions, right: published comparisons of which both sides were measured, and how many come out right.
        wrong: the others.
    """

    model_config = ConfigDict(frozen=True)

    calibration: int
    calibrated: int
    validation: int
    median_error: float
    usual_share: float
    directions: int
    right: int
    wrong: list[tuple[str, str]]

    @property
    def on_target(self) -> dict[str, bool]:
        """Each target, and whether it is reached."""
        return {
            "calibration points within 3 % or one cycle": self.calibrated == self.calibration,
            "validation: median error at most 8 %": self.median_error <= MEDIAN_ERROR,
            "validation: 90 % of the points within 20 %": self.usual_share >= USUAL_SHARE,
            "all directions right": self.right == self.directions,
        }


def measure(point: Point) -> Measured:
    """Run one point.

    Raises:
        Unavailable: Something that it needs is missing.
        WrongResult: Its program computed something wrong.
    """
    if point.unmeasured:
        raise Unavailable(point.unmeasured)
    if point.program not in CASES:
        raise Unavailable(f"there is no program {point.program!r}")
    cycles = CASES[point.program](point)
    if point.window == "host":
        cycles += load_costs(point.arch)["host.launch"]
    return Measured(
        id=point.id,
        arch=point.arch,
        split=point.split,
        structure=point.structure,
        published=point.published,
        simulated=round(cycles, 2),
    )


def chosen(table: Table, names: Sequence[str], slow: bool) -> list[Point]:
    """Points whose id contains one of `names` (all, if there are none); slow ones only if asked for."""
    return [
        point
        for point in table.points
        if (slow or not point.slow) and (not names or any(name in point.id for name in names))
    ]


def summarize(table: Table, results: Iterable[Measured]) -> Summary:
    """Judge measured points."""
    found = {result.id: result for result in results}
    calibration = [result for result in found.values() if result.split == "calibration"]
    errors = [result.error for result in found.values() if result.split == "validation"]
    pairs = [pair for pair in table.faster if pair[0] in found and pair[1] in found]
    wrong = [(a, b) for a, b in pairs if found[a].simulated >= found[b].simulated]
    return Summary(
        calibration=len(calibration),
        calibrated=sum(result.calibrated for result in calibration),
        validation=len(errors),
        median_error=statistics.median(errors) if errors else 0.0,
        usual_share=sum(error <= USUAL_ERROR for error in errors) / len(errors) if errors else 1.0,
        directions=len(pairs),
        right=len(pairs) - len(wrong),
        wrong=wrong,
    )


def load_results(path: Path = RESULTS) -> dict[str, Measured]:
    """Results of an earlier run by id; empty if there are none."""
    if not path.is_file():
        return {}
    return {item["id"]: Measured.model_validate(item) for item in json.loads(path.read_text(encoding="utf-8"))}


def save_results(results: Iterable[Measured], path: Path = RESULTS) -> None:
    """Write results, one a line, so that a change shows as what it is."""
    records: list[dict[str, Any]] = [result.model_dump() for result in results]
    lines = ",\n".join(json.dumps(record) for record in records)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
