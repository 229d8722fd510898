"""The inputs over which `Valid(P, S)` is decided: visible ones an agent may run on, held-out ones it never sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fabrica_bench.tasks import Answers, Arrays, Task
from fabrica_bench.tasks.seeds import HeldOutKey, commitment, visible_seed
from fabrica_bench.version import SUITE_VERSION

VISIBLE_COUNT: Final = 3
HELD_OUT_COUNT: Final = 5

KEPT_BYTES: Final = 256 << 20
"""Values and answers of one scorer's inputs that are kept at most."""


@dataclass(frozen=True)
class InputCase:
    """One input: where its seed comes from and how its values are distributed.

    Attributes:
        kind: `visible` or `held-out`.
        index: Counts from 0 within its kind.
        seed: Seed of the generator. That of a held-out case never leaves the scorer's process.
        distribution: One of the task's input distributions; they take turns.
    """

    kind: Literal["visible", "held-out"]
    index: int
    seed: int
    distribution: str

    @property
    def label(self) -> str:
        """Name in evidence: `held-out 2 (skewed)`."""
        return f"{self.kind} {self.index} ({self.distribution})"

    @property
    def commitment(self) -> str:
        """SHA-256 commitment of the seed."""
        return commitment(self.seed)


def visible_cases(task: Task, count: int = VISIBLE_COUNT) -> tuple[InputCase, ...]:
    """The inputs that agents may run on."""
    return tuple(
        InputCase("visible", index, visible_seed(task.name, index), task.distribution(index)) for index in range(count)
    )


def held_out_seeds(task: Task, key: HeldOutKey, count: int = HELD_OUT_COUNT) -> tuple[int, ...]:
    """Seeds of the held-out inputs under a key."""
    return tuple(key.seed(SUITE_VERSION, task.name, index) for index in range(count))


def held_out_cases(task: Task, seeds: Sequence[int]) -> tuple[InputCase, ...]:
    """The held-out inputs of these seeds."""
    return tuple(InputCase("held-out", index, seed, task.distribution(index)) for index, seed in enumerate(seeds))


class InputData:
    """The values of inputs, and the oracle's answers to them, kept for the candidates that follow on the same ones.

    They stay in the scorer's process.

    Args:
        task: The task.
        size: Its parameters.
        limit: Bytes that are kept at most.
    """

    def __init__(self, task: Task, size: Mapping[str, int], *, limit: int = KEPT_BYTES) -> None:
        self._task = task
        self._size = dict(size)
        self._limit = limit
        self._inputs: dict[tuple[int, str], Arrays] = {}
        self._answers: dict[tuple[int, str], Answers] = {}
        self._room = limit

    def inputs(self, case: InputCase) -> Arrays:
        """The values; raises `FabricaError` when the oracle breaks the spec."""
        key = (case.seed, case.distribution)
        if key not in self._inputs:
            arrays = self._task.inputs(case.seed, self._size, case.distribution)
            self._make_room(arrays)
            self._inputs[key] = arrays
        return self._inputs[key]

    def answers(self, case: InputCase) -> Answers:
        """What the outputs are compared with; raises as `inputs`."""
        key = (case.seed, case.distribution)
        if key not in self._answers:
            answers = self._task.answers(self.inputs(case), self._size)
            self._make_room({**answers.expected, **{f"{name} allowed": a for name, a in answers.allowed.items()}})
            self._answers[key] = answers
        return self._answers[key]

    def _make_room(self, arrays: Arrays) -> None:
        self._room -= sum(array.nbytes for array in arrays.values())
        if self._room < 0:
            self._inputs.clear()
            self._answers.clear()
            self._room = self._limit
