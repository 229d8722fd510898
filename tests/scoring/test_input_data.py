"""Inputs and answers are asked of the oracle once, and only so many of them are kept."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.double_it import all_cases, double_it

from fabrica_bench.integrity.syntax import parse_text, walk
from fabrica_bench.scoring.inputs import InputData
from fabrica_bench.tasks import Task

SIZE = double_it().size("small")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes each question to the oracle."""
    notes: list[str] = []
    for name in ("inputs", "answers"):
        usual = getattr(Task, name)

        def noted(self: Task, *arguments: object, usual: object = usual, name: str = name) -> object:
            notes.append(name)
            return usual(self, *arguments)  # type: ignore[operator]

        monkeypatch.setattr(Task, name, noted)
    return notes


def test_the_oracle_is_asked_once_per_input(asked: list[str]) -> None:
    data = InputData(double_it(), SIZE)
    first, second = all_cases()[:2]
    for _ in range(3):
        for case in (first, second):
            arrays, answers = data.inputs(case), data.answers(case)
            assert np.array_equal(answers.expected["y"], 2.0 * arrays["x"].astype(np.float64))
    assert asked == ["inputs", "answers"] * 2
    assert not np.array_equal(data.inputs(first)["x"], data.inputs(second)["x"])


def test_an_input_of_another_distribution_or_seed_is_another(asked: list[str]) -> None:
    data = InputData(double_it(), SIZE)
    case = all_cases()[0]
    found = [data.inputs(case), data.inputs(dataclasses.replace(case, seed=case.seed + 1))]
    assert not np.array_equal(found[0]["x"], found[1]["x"])


def test_what_is_kept_is_bounded(asked: list[str]) -> None:
    case = all_cases()[0]
    size = sum(array.nbytes for array in InputData(double_it(), SIZE).inputs(case).values())
    data = InputData(double_it(), SIZE, limit=size)
    others = [dataclasses.replace(case, seed=seed) for seed in range(3)]
    for other in [*others, *others]:
        data.inputs(other)
    assert asked == ["inputs"] * 7


def test_walks_of_a_file_are_the_same_again() -> None:
    texts = [f"const a{number} = 1 + {number};\nfn f() void {{ a{number}; }}\n" for number in range(100)]
    for number, text in [*enumerate(texts), *enumerate(texts)]:
        tree = parse_text("pe.csl", text)
        assert [type(node).__name__ for node in walk(tree)] == [type(node).__name__ for node in walk(tree)]
        assert {node.value for node in walk(tree) if hasattr(node, "value")} == {1, number}
