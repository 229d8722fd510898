"""Adequacy: would the comparison of outputs notice a wrong program? Measured for every task.

Every mutant of `fabrica_bench.integrity.mutants` is compared on the inputs that a candidate is compared on, visible and
held-out. It is killed when one of them rejects it. A mutant whose outputs equal the right ones bit for bit on all
inputs is no wrong program for that task, and isn't counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fabrica_bench.integrity.mutants import FAMILY, HONEST, Case, Mutant
from fabrica_bench.integrity.outputs import check_outputs
from fabrica_bench.scoring.inputs import held_out_cases, held_out_seeds, visible_cases
from fabrica_bench.tasks import Arrays, Task
from fabrica_bench.tasks.seeds import RECORD_KEY, HeldOutKey


@dataclass(frozen=True)
class Adequacy:
    """What became of the mutants of one task.

    Attributes:
        killed: Mutants that were rejected.
        survived: Mutants that passed on every input, though they are wrong.
        equivalent: Mutants that are right for this task, or have nothing to change at.
        honest_rejected: Right results that were rejected.
    """

    task: str
    killed: tuple[str, ...]
    survived: tuple[str, ...]
    equivalent: tuple[str, ...]
    honest_rejected: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return bool(self.killed) and not self.survived and not self.honest_rejected

    @property
    def total(self) -> int:
        """Mutants that are wrong programs for this task."""
        return len(self.killed) + len(self.survived)


def measure_adequacy(task: Task, size: str, key: HeldOutKey | None = None) -> Adequacy:
    """Compare every mutant with the oracle.

    Args:
        task: The task.
        size: Named size.
        key: Held-out key; by default the public one, on whose inputs everybody measures the same.

    Raises:
        FabricaError: No such size, or the oracle is broken.
    """
    parameters = task.size(size)
    seeds = held_out_seeds(task, key or RECORD_KEY)
    found = (*visible_cases(task), *held_out_cases(task, seeds))
    inputs = [task.inputs(case.seed, parameters, case.distribution) for case in found]
    cases = [Case(task, parameters, arrays, inputs[0]) for arrays in inputs]
    outcomes = {name: _outcome(mutant, cases) for name, mutant in FAMILY.items()}
    honest = [name for name, mutant in HONEST.items() if any(not _passes(case, mutant(case)) for case in cases)]
    return Adequacy(
        task.name,
        tuple(name for name, outcome in outcomes.items() if outcome == "killed"),
        tuple(name for name, outcome in outcomes.items() if outcome == "survived"),
        tuple(name for name, outcome in outcomes.items() if outcome == "equivalent"),
        tuple(honest),
    )


def _outcome(mutant: Mutant, cases: Sequence[Case]) -> str:
    wrong = False
    for case in cases:
        outputs = mutant(case)
        if outputs is None or _same(outputs, case.right()):
            continue
        if not _passes(case, outputs):
            return "killed"
        wrong = True
    return "survived" if wrong else "equivalent"


def _passes(case: Case, outputs: Arrays | None) -> bool:
    if outputs is None:
        return True
    findings, _ = check_outputs(case.task, outputs, case.inputs, case.size)
    return not findings


def _same(one: Arrays, other: Arrays) -> bool:
    return all(np.array_equal(one[name].view(np.uint8), other[name].view(np.uint8)) for name in other)


def measure_all(tasks: Sequence[Task], size: str) -> Iterator[Adequacy]:
    """`measure_adequacy` of each task."""
    for task in tasks:
        yield measure_adequacy(task, size)
