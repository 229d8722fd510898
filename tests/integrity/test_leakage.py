"""A renamed and reformatted copy is a copy; an independent program, or what everybody is shown, is not."""

from __future__ import annotations

import re

from helpers.double_it import double_it, expert
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.firewall.bundle import frozen_texts
from fabrica_bench.integrity.leakage import fingerprints, similarity
from fabrica_bench.tasks import list_tasks, tasks_root

PUBLIC = tuple(frozen_texts(double_it(), "W1").values())


def disguised(text: str) -> str:
    """Every declared name changed, comments replaced, all on a few lines."""
    text = re.sub(r"//[^\n]*", "// mine", text)
    for old, new in (("x_dsd", "src"), ("y_dsd", "dst"), ("x_ptr", "p"), ("y_ptr", "q"), ("sys_mod", "host")):
        text = text.replace(old, new)
    return re.sub(r"[ \n]+(?!//)", " ", re.sub(r"//[^\n]*\n", "", text))


def test_a_copy_is_found_in_any_dress() -> None:
    assert similarity(expert(), expert(), PUBLIC).share == 1.0
    assert similarity(disguised(expert()), expert(), PUBLIC).share > 0.95
    assert similarity(f"Here is a hint:\n{expert()}\nGood luck!", expert(), PUBLIC).share == 1.0


def test_what_everybody_sees_is_not_a_leak() -> None:
    for text in PUBLIC:
        assert similarity(text, expert(), PUBLIC).share == 0.0


def test_prose_is_not_a_leak() -> None:
    assert similarity("Write twice the input x to y, on one PE, within the timing window. " * 20, expert()).share == 0.0


def test_half_a_copy_scores_between() -> None:
    lines = expert().splitlines()
    half = similarity("\n".join(lines[: len(lines) // 2]), expert(), PUBLIC).share
    assert 0.1 < half < 0.9


def test_kernels_of_different_tasks_are_no_copies_of_each_other() -> None:
    tasks = list_tasks(root=tasks_root())
    kernels = {
        task.name: (task.bundle_dir / "pe.csl").read_text(encoding="utf-8")
        for task in tasks
        if (task.bundle_dir / "pe.csl").is_file()
    }
    for name, kernel in kernels.items():
        for other, text in kernels.items():
            if name != other:
                assert not similarity(text, kernel).is_copy, (name, other)


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_is_accepted_and_shares_lie_between_0_and_1(text: str, reference: str) -> None:
    assert 0.0 <= similarity(text, reference).share <= 1.0
    assert fingerprints(text) <= fingerprints(text + " ")
