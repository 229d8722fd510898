"""What the caller of the scorer's functions gets wrong is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fabrica_bench.errors import FabricaError
from fabrica_bench.scoring.api import accept, fast_p, score
from fabrica_bench.scoring.verdict import HeldOutInputs, Invalid, Predicate


def invalid(task: str) -> Invalid:
    held_out = HeldOutInputs(suite="1", task=task, key="0", commitments=("0",))
    return Invalid(predicate=Predicate.RUN, reason="none", held_out=held_out)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: score("ReLU-1PE", {1: ""}), "name of the candidate's file 1 must be a text, not of type int"),  # type: ignore[dict-item]
        (lambda: score("ReLU-1PE", "fn compute() void {\n}\n"), "a program's text where the path of a folder"),
        (lambda: score("ReLU-1PE", {}, arch=3), "the target must be a name, not of type int"),  # type: ignore[arg-type]
        (lambda: score("ReLU-1PE", {}, size={"n": 4}), "the size must be a name, not of type dict"),  # type: ignore[arg-type]
        (lambda: score("ReLU-1PE", {}, workflow=None), "the workflow must be a name, not of type NoneType"),  # type: ignore[arg-type]
        (lambda: score("ReLU-1PE", {}, toolchain=3), "the toolchain must be a name or a back end"),  # type: ignore[arg-type]
        (lambda: score("ReLU-1PE", {}, trusted="no"), "trusted must be True or False, not of type str"),  # type: ignore[arg-type]
        (lambda: fast_p(invalid("A"), 1), "verdicts must be a sequence of verdicts"),  # type: ignore[arg-type]
        (lambda: fast_p(["valid"], 1), "element 0 of verdicts must be a verdict, not of type str"),  # type: ignore[list-item]
        (lambda: fast_p([], "1"), "p must be a number, not of type str"),  # type: ignore[arg-type]
    ],
)
def test_an_argument_of_a_wrong_type_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(FabricaError, match=message):
        call()


def test_verdicts_on_different_tasks_are_not_compared() -> None:
    assert not accept(invalid("A"), invalid("A"))
    with pytest.raises(ValueError, match="on A and on B can't be compared"):
        accept(invalid("A"), invalid("B"))
