"""The validation suite: its table is sound, its recorded results are this simulator's, its judgement is right."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from validation.page import with_results
from validation.plot import scatter_svg
from validation.points import Point, Table, load_table
from validation.suite import Measured, load_results, measure, summarize

TABLE = load_table()
RESULTS = load_results()

OTHERS = (
    "saxpy-task-2x2-8-8-8",
    "par-dot",
    "loop-spmv",
    "chain-64",
    "fma-map",
    "data-task-period-wse2",
    "send-8",
)
# One point per program and mechanism; the whole suite is `nox -s cycles`.
QUICK = [
    point
    for point in TABLE.points
    if not point.slow
    and not point.unmeasured
    and point.program != "example"
    and (point.split == "calibration" or point.id in OTHERS)
]


def _measured(name: str, published: float, simulated: float, split: str = "validation") -> Measured:
    return Measured.model_validate(
        {
            "id": name,
            "arch": "wse3",
            "split": split,
            "structure": "known",
            "published": published,
            "simulated": simulated,
        }
    )


def _table(*pairs: tuple[str, str], **published: float) -> Table:
    points = [
        Point(id=name, program="p", arch="wse3", published=cycles, split="validation", source="s")
        for name, cycles in published.items()
    ]
    return Table(sources={"s": "text"}, faster=list(pairs), points=points)


def test_the_table_has_points_of_both_splits_and_architectures() -> None:
    for arch in ("wse2", "wse3"):
        for split in ("calibration", "validation"):
            assert sum(point.arch == arch and point.split == split for point in TABLE.points) >= 5
    assert len(TABLE.points) >= 40


def test_a_comparison_that_contradicts_the_published_cycles_is_refused() -> None:
    with pytest.raises(ValueError, match="the published cycles do not"):
        _table(("slow", "quick"), slow=20, quick=10)


@pytest.mark.parametrize("point", QUICK, ids=lambda point: point.id)
def test_recorded_results_are_those_of_this_simulator(point: Point) -> None:
    assert measure(point).simulated == RESULTS[point.id].simulated, "run python -m validation --record"


def test_the_known_targets_hold_for_the_recorded_results() -> None:
    summary = summarize(TABLE, RESULTS.values())
    missed = {name for name, result in RESULTS.items() if result.split == "calibration" and not result.calibrated}
    assert missed == set()
    # What docs/cycle-model.md explains under "Known misses", and nothing else.
    assert summary.wrong == [("tile-4x5-wse3", "tile-4x5-wse2")]
    assert summary.median_error <= 0.08
    assert summary.usual_share >= 0.9


def test_a_summary_counts_what_it_says() -> None:
    table = _table(("a", "b"), ("b", "c"), a=10, b=20, c=30)
    summary = summarize(table, [_measured("a", 100, 100), _measured("b", 200, 260), _measured("c", 300, 270)])
    assert summary.validation == 3
    assert summary.median_error == pytest.approx(0.10)
    assert summary.usual_share == pytest.approx(2 / 3)
    assert (summary.right, summary.directions, summary.wrong) == (2, 2, [])


def test_a_wrong_direction_is_named() -> None:
    summary = summarize(_table(("a", "b"), a=10, b=20), [_measured("a", 10, 21), _measured("b", 20, 21)])
    assert summary.wrong == [("a", "b")]


def test_one_cycle_is_close_enough_for_a_small_calibration_figure() -> None:
    assert _measured("a", 17, 16, "calibration").calibrated
    assert not _measured("a", 1700, 1600, "calibration").calibrated


def test_the_plot_is_well_formed_and_has_a_mark_per_point() -> None:
    results = list(RESULTS.values())
    root = ElementTree.fromstring(scatter_svg(results))
    assert len([element for element in root.iter() if element.tag.endswith("title")]) == len(results)


def test_results_replace_those_of_the_page() -> None:
    page = "head\n<!-- results: written by python -m validation --record -->\nold\n<!-- end of results -->\ntail\n"
    text = with_results(page, _table(a=10), [_measured("a", 10, 11)])
    assert "old" not in text
    assert "| a | wse3 | 10 | 11 | 1.100 | validation |" in text
    assert text.endswith("tail\n")
