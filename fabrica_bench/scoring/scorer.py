"""Scoring candidates of one task under fixed conditions, with the reference measured once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median_low

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.firewall.bundle import editable_files, reference_files
from fabrica_bench.firewall.screening import candidate_leaks
from fabrica_bench.integrity.findings import Finding
from fabrica_bench.scoring.candidate import CandidateError, candidate_digest, read_candidate
from fabrica_bench.scoring.inputs import InputCase
from fabrica_bench.scoring.validity import Conditions, Evaluation, HarnessFault, evaluate
from fabrica_bench.scoring.verdict import Blame, Invalid, NotScored, Predicate, PredicateResult, Valid

AnyVerdict = Valid | Invalid | NotScored


class Scorer:
    """Turns candidates into verdicts.

    Evaluations are kept by content, so that the reference (and a candidate that equals it) is built and run once per
    set of inputs.

    Args:
        conditions: Task, toolchain, target, size and workflow; the same for candidate and reference.
    """

    def __init__(self, conditions: Conditions) -> None:
        self.conditions = conditions
        self._kept: dict[tuple[str, tuple[InputCase, ...]], Evaluation] = {}

    @property
    def editable(self) -> tuple[str, ...]:
        """Names that a candidate must supply."""
        return editable_files(self.conditions.task, self.conditions.workflow)

    def reference_files(self) -> dict[str, str]:
        """The expert reference as a candidate."""
        return reference_files(self.conditions.task, self.conditions.workflow)

    def evaluate(self, files: Mapping[str, str], cases: Sequence[InputCase]) -> Evaluation:
        """The five predicates; see `fabrica_bench.scoring.validity.evaluate`."""
        key = (candidate_digest(files), tuple(cases))
        if key not in self._kept:
            self._kept[key] = evaluate(self.conditions, files, cases)
        return self._kept[key]

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
                remedy="see `fabrica-bench doctor`; if all is well there, the task or the toolchain is at fault",
            )
        return evaluation

    def judge(
        self, candidate: Path | Mapping[str, str], cases: Sequence[InputCase], *, trusted: bool = False
    ) -> Valid | Invalid:
        """The verdict on a candidate. One whose files can't be accepted, or that holds the reference, is invalid.

        Args:
            candidate: A folder, or texts by name.
            cases: Inputs, visible before held-out.
            trusted: The benchmark's own reference is judged, so holding it is no fault.

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
        evaluation = self.evaluate(files, cases)
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
