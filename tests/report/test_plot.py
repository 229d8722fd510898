"""The speed-up plot: a true logarithmic axis, parity always on it, and valid XML."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.report.plot import LogAxis, Mark, speedup_svg

RATIOS = st.lists(st.floats(min_value=2**-40, max_value=2**40), min_size=1, max_size=20)


@given(RATIOS)
def test_every_value_and_parity_lie_on_the_axis(values):
    axis = LogAxis.covering(values)
    for value in [*values, 1.0]:
        assert -1e-9 <= axis.position(value) <= 1 + 1e-9
    assert 1.0 in [value for value, _ in axis.ticks()]
    assert len(axis.ticks()) <= 15


def test_equal_ratios_are_equal_distances():
    axis = LogAxis.covering([0.25, 4.0])
    assert axis.position(1.0) - axis.position(0.25) == pytest.approx(axis.position(4.0) - axis.position(1.0))


def test_without_values_the_axis_still_shows_parity():
    assert LogAxis.covering([]) == LogAxis(-1, 1)


def test_the_drawing_is_xml_whatever_the_tasks_are_called():
    marks = [Mark('<b> & "x"', 1, 2.0, ""), Mark("b", 1, None, "fails <Correct>"), Mark("c", 2, 0.5, "")]
    root = ElementTree.fromstring(speedup_svg(marks))
    circles = [element for element in root.iter() if element.tag.endswith("circle")]
    assert [circle.get("class") for circle in circles] == ["faster", "slower"]
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "fails <Correct>" in texts
    assert texts.count("Level 1") == 1
    assert texts.count("Level 2") == 1


def test_marks_are_grouped_by_level_and_none_is_cut_off():
    marks = [Mark(f"t{number}", level, 1.5, "") for number, level in enumerate([2, 1, 3, 1, 2])]
    root = ElementTree.fromstring(speedup_svg(marks))
    texts = [element for element in root.iter() if element.tag.endswith("text")]
    order = [element.text for element in texts if element.get("class") in {"group", "label"}]
    assert order == ["Level 1", "t1", "t3", "Level 2", "t0", "t4", "Level 3", "t2"]
    height = float(root.get("height", "nan"))
    assert all(float(element.get("y", "nan")) < height for element in texts)


def test_faster_marks_are_right_of_parity_and_slower_ones_left():
    root = ElementTree.fromstring(speedup_svg([Mark("a", 1, 3.0, ""), Mark("b", 1, 0.3, "")]))
    fast, slow = [float(e.get("cx", "nan")) for e in root.iter() if e.tag.endswith("circle")]
    (parity,) = [float(e.get("x1", "nan")) for e in root.iter() if e.get("class") == "parity"]
    assert slow < parity < fast


def test_a_pair_of_targets_is_two_marks_on_one_line_and_entries_have_colours_and_a_legend():
    marks = [
        Mark("a", 1, 2.0, "", "wse3", "first"),
        Mark("a", 1, 1.5, "", "wse2", "second"),
        Mark("a", 1, 9.0, "", "wse3", "hacked", trusted=False),
    ]
    root = ElementTree.fromstring(speedup_svg(marks))
    texts = {e.text: float(e.get("y", "nan")) for e in root.iter() if e.tag.endswith("text")}
    assert {"first", "second", "hacked"} <= texts.keys()
    assert max(texts.values()) < float(root.get("height", "nan"))
    middle = texts["a"] - 4
    circles = [e.get("class") for e in root.iter() if e.tag.endswith("circle") and _near(e, "cy", middle)]
    diamonds = [e.get("class") for e in root.iter() if e.tag.endswith("polygon") and _near(e, "points", middle)]
    assert (sorted(circles), diamonds) == (["e0", "e2 hollow"], ["e1"])


def _near(element: ElementTree.Element, attribute: str, y: float) -> bool:
    """Whether a mark lies on the line at this height; a diamond's second corner does."""
    text = element.get(attribute, "nan")
    value = text.split()[1].split(",")[1] if " " in text else text
    return abs(float(value) - y) < 0.2
