"""Scoring candidates of one task under fixed conditions, with the reference measured once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median_low
from typing import Protocol

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.firewall.bundle import editable_files, reference_files
from fabrica_bench.firewall.screening import candidate_leaks
from fabrica_bench.integrity.findings import Finding
from fabrica_bench.scoring.candidate import CandidateError, read_candidate
from fabrica_bench.scoring.conditions import Conditions, HarnessFault
from fabrica_bench.scoring.inputs import InputCase
from fabrica_bench.scoring.staging import task_digest
from fabrica_bench.scoring.validity import Evaluation, combine, content_key, evaluate_groups, split_cases
from fabrica_bench.scoring.verdict import Blame, Invalid, NotScored, Predicate, PredicateResult, Valid
from fabrica_bench.scoring.workshop import Workshop
from fabrica_bench.toolchains.protocol import BuildResult

AnyVerdict = Valid | Invalid | NotScored


class EvaluationStore(Protocol):
    """Where finished evaluations are kept by content key, so that none is computed twice."""

    def find(self, key: str) -> Evaluation | None:
        """The evaluation with this key; None when the caller has to compute it and then `keep` it."""
        ...

    def keep(self, key: str, evaluation: Evaluation) -> None:
        """Store a finished evaluation."""
        ...


class MemoryStore:
    """Keeps evaluations in this process."""

    def __init__(self) -> None:
        self._kept: dict[str, Evaluation] = {}

    def find(self, key: str) -> Evaluation | None:
        """See `EvaluationStore`."""
        return self._kept.get(key)

    def keep(self, key: str, evaluation: Evaluation) -> None:
        """See `EvaluationStore`."""
        self._kept[key] = evaluation


class Scorer:
    """Turns candidates into verdicts.

    Evaluations are kept by content, visible and held-out inputs apart: what an agent has run on the visible ones is
    not run again for the score, and the reference (and a candidate that equals it) is measured once.

    Args:
        conditions: Task, toolchain, target, size and workflow; the same for candidate and reference.
        store: Where evaluations are kept; in memory by default.
        repeat: Number of the attempt, which keeps measurements of different attempts apart; the reference's are shared.
    """

    def __init__(self, conditions: Conditions, store: EvaluationStore | None = None, *, repeat: int = 1) -> None:
        self.conditions = conditions
        self.workshop = Workshop(conditions)
        self._store = store or MemoryStore()
        self._repeat = repeat
        self._digest = task_digest(conditions.task)

    def __enter__(self) -> Scorer:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what was built."""
        self.workshop.close()

    @property
    def editable(self) -> tuple[str, ...]:
        """Names that a candidate must supply."""
        return editable_files(self.conditions.task, self.conditions.workflow)

    def reference_files(self) -> dict[str, str]:
        """The expert reference as a candidate."""
        return reference_files(self.conditions.task, self.conditions.workflow)

    def compile(self, files: Mapping[str, str]) -> BuildResult:
        """Build a candidate, or say what came of it before; its log names no temporary path."""
        built = self.workshop.build(files)
        result = built.result
        return BuildResult(result.ok, result.diagnostics, None, built.stage.scrub(result.log), result.seconds)

    def key(self, files: Mapping[str, str], cases: Sequence[InputCase]) -> str:
        """Content key of an evaluation, see `fabrica_bench.scoring.validity.content_key`."""
        repeat = 0 if dict(files) == self.reference_files() else self._repeat
        return content_key(self.conditions, files, cases, self._digest, repeat)

    def evaluate(self, files: Mapping[str, str], cases: Sequence[InputCase], *, trusted: bool = False) -> Evaluation:
        """The five predicates; see `fabrica_bench.scoring.validity.evaluate`. `trusted` as for `judge`."""
        groups = split_cases(cases)
        keys = [self.key(files, group) for group in groups]
        if trusted or dict(files) == self.reference_files():
            return combine(self._of_reference(files, groups, keys))
        found: list[Evaluation] = []
        for group, key in zip(groups, keys, strict=True):
            found.append(self._store.find(key) or self._measure(files, [group], [key], trusted=False)[0])
            if not found[-1].ok:
                break  # held-out inputs are only run when the visible ones hold
        return combine(found)

    def _of_reference(
        self, files: Mapping[str, str], groups: Sequence[Sequence[InputCase]], keys: Sequence[str]
    ) -> list[Evaluation]:
        """A reference is ours: what isn't known of it is measured in one batch, held-out inputs included."""
        found = {key: kept for key in keys if (kept := self._store.find(key)) is not None}
        missing = [index for index, key in enumerate(keys) if key not in found]
        if missing:
            wanted = [keys[index] for index in missing]
            measured = self._measure(files, [groups[index] for index in missing], wanted, trusted=True)
            found.update(zip(wanted, measured, strict=True))
        return [found[key] for key in keys]

    def _measure(
        self, files: Mapping[str, str], groups: Sequence[Sequence[InputCase]], keys: Sequence[str], *, trusted: bool
    ) -> list[Evaluation]:
        measured = evaluate_groups(self.conditions, files, groups, workshop=self.workshop, trusted=trusted)
        # What a program printed about held-out inputs is kept nowhere.
        hidden = [any(case.kind == "held-out" for case in group) for group in groups]
        measured = [replace(e, log="") if secret else e for e, secret in zip(measured, hidden, strict=True)]
        for key, evaluation in zip(keys, measured, strict=True):
            self._store.keep(key, evaluation)
        return measured

    def reference(self, cases: Sequence[InputCase]) -> Evaluation:
        """The reference's evaluation on these inputs.

        Raises:
            HarnessFault: The reference isn't valid under these conditions, so nothing can be scored against it.
        """
        evaluation = self.evaluate(self.reference_files(), cases)
        failed = evaluation.failed
        if failed is not None or not evaluation.samples:
            why = f"{failed.predicate}: {_first(failed)}" if failed else "it has no cycles"
            raise HarnessFault(
                f"the reference of {self.conditions.task.name} is not valid here: {why}",
                place=str(self.conditions.task.bundle_dir),
                remedy=f"see `fabrica-bench tasks validate --filter name={self.conditions.task.name}`, and "
                "`fabrica-bench doctor`: the task or the toolchain is at fault",
            )
        return evaluation

    def judge(
        self, candidate: Path | Mapping[str, str], cases: Sequence[InputCase], *, trusted: bool = False
    ) -> Valid | Invalid:
        """The verdict on a candidate. One whose files can't be accepted, or that holds the reference, is invalid.

        Args:
            candidate: A folder, or texts by name.
            cases: Inputs, visible before held-out.
            trusted: One of the benchmark's own references is judged: holding one is no fault, and all its inputs
                are run in one batch.

        Raises:
            FabricaError: `candidate` is a folder that can't be read, or the machine failed.
            HarnessFault: The benchmark itself is at fault.
        """
        try:
            files = read_candidate(candidate, self.editable)
        except CandidateError as error:
            return invalid_files(error)
        conditions = self.conditions
        leaked = [] if trusted else candidate_leaks(files, conditions.task, conditions.workflow)
        if leaked:
            return invalid_contract(leaked)
        evaluation = self.evaluate(files, cases, trusted=trusted)
        if not evaluation.ok or not evaluation.samples:
            return _invalid(evaluation)
        return _valid(evaluation, self.reference(cases))

    def score(
        self, candidate: Path | Mapping[str, str], cases: Sequence[InputCase], *, trusted: bool = False
    ) -> AnyVerdict:
        """Like `judge`, but a fault of the machine or of the benchmark is a verdict too: `NotScored`.

        Raises:
            FabricaError: `candidate` is a folder that doesn't exist or can't be read.
        """
        try:
            return self.judge(candidate, cases, trusted=trusted)
        except FabricaError as error:
            if error.code not in (ExitCode.ENVIRONMENT, ExitCode.HARNESS):
                raise
            blame = Blame.MACHINE if error.code == ExitCode.ENVIRONMENT else Blame.HARNESS
            return NotScored(blame=blame, reason=str(error))


def invalid_files(error: CandidateError) -> Invalid:
    """The verdict on a candidate whose files can't be accepted."""
    # The folder's name is left out: where a candidate lies must not change its verdict.
    evidence = PredicateResult(predicate=Predicate.CONTRACT, holds=False, evidence=(error.message,))
    return Invalid(predicate=Predicate.CONTRACT, reason=error.message, evidence=(evidence,))


def invalid_contract(findings: Sequence[Finding]) -> Invalid:
    """The verdict on a candidate that breaks the contract before anything is built."""
    lines = tuple(str(finding) for finding in findings)
    evidence = PredicateResult(predicate=Predicate.CONTRACT, holds=False, evidence=lines)
    return Invalid(predicate=Predicate.CONTRACT, reason=lines[0], evidence=(evidence,))


def _invalid(evaluation: Evaluation) -> Invalid:
    failed = evaluation.failed
    if failed is None:
        # Nothing failed, yet nothing was measured: no inputs. Comparing nothing must not succeed.
        raise HarnessFault("there were no inputs to run on", remedy="give at least one input")
    return Invalid(predicate=failed.predicate, reason=_first(failed), evidence=evaluation.results)


def _valid(evaluation: Evaluation, reference: Evaluation) -> Valid:
    cycles, reference_cycles = median_low(evaluation.samples), median_low(reference.samples)
    return Valid(
        cycles=cycles,
        reference_cycles=reference_cycles,
        speedup=reference_cycles / cycles,
        samples=evaluation.samples,
        reference_samples=reference.samples,
        evidence=evaluation.results,
    )


def _first(result: PredicateResult) -> str:
    """First line of evidence of a failed predicate, without what follows its first line break."""
    return result.evidence[0].splitlines()[0] if result.evidence else "no evidence"
