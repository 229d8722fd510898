"""The inputs over which `Valid(P, S)` is decided: visible ones an agent may run on, held-out ones it never sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fabrica_bench.tasks import Task
from fabrica_bench.tasks.seeds import HeldOutKey, commitment, visible_seed
from fabrica_bench.version import SUITE_VERSION

VISIBLE_COUNT: Final = 3
HELD_OUT_COUNT: Final = 5


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
