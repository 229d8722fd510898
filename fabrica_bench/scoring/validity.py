"""`Valid(P, S)`: Build, Run, Contract, Timing and Correct over a set of inputs, each with its evidence.

Order: the bundle is built once; the frozen interface and window are compared on the syntax tree; then every input is
run in a process of its own on a fresh simulator. Expected values are computed here and never anywhere else. Visible
inputs come first, and the held-out ones are only run when those hold.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from fabrica_bench.errors import FabricaError, from_os_error, require_readable
from fabrica_bench.firewall.bundle import bundle_texts
from fabrica_bench.integrity.findings import Finding, Predicate
from fabrica_bench.integrity.frozen import BrokenReference, check_frozen
from fabrica_bench.integrity.outputs import RunOutputs, check_outputs, read_outputs
from fabrica_bench.integrity.timers import check_timers, decode_stamps
from fabrica_bench.scoring.candidate import candidate_digest
from fabrica_bench.scoring.conditions import BUILD_DEADLINE_S, Conditions, HarnessFault
from fabrica_bench.scoring.inputs import InputCase, InputData
from fabrica_bench.scoring.staging import Stage
from fabrica_bench.scoring.verdict import PredicateResult
from fabrica_bench.scoring.workshop import Workshop, require_space
from fabrica_bench.tasks import Arrays
from fabrica_bench.toolchains.commands import INPUTS_NAME
from fabrica_bench.toolchains.protocol import BuildResult, RunFault, RunRequest, RunResult
from fabrica_bench.version import SUITE_VERSION, __version__

RUN_DEADLINE_S: Final = 180.0
"""Wall limit of one run: a backstop only, the simulator's own cycle budget decides."""

MAX_CYCLES: Final = 10_000_000
"""Simulated cycles of one run: a hundred times what any reference of the suite's published sizes takes."""

CHANGED_INPUT: Final = "the program changed its input"
"""What the runners say, as their reason to fail, when an input is not what it was before the launch."""

MAX_EVIDENCE: Final = 20
"""Lines of evidence kept per predicate."""


@dataclass(frozen=True)
class Evaluation:
    """Outcome of `evaluate`: the five predicates, and the cycles of every input when all of them hold.

    `isolation` says what confined the build and the runs, on the machine where they were.
    """

    results: tuple[PredicateResult, ...]
    samples: tuple[int, ...] = ()
    log: str = ""
    isolation: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return all(result.holds for result in self.results)

    @property
    def failed(self) -> PredicateResult | None:
        """The first predicate that doesn't hold, in the order of their definition."""
        return next((result for result in self.results if result.holds is False), None)


@dataclass
class _Ledger:
    """Collects what was found about each predicate."""

    evidence: dict[Predicate, list[str]] = field(default_factory=lambda: {predicate: [] for predicate in Predicate})
    broken: dict[Predicate, list[str]] = field(default_factory=lambda: {predicate: [] for predicate in Predicate})
    examined: set[Predicate] = field(default_factory=set)

    def holds(self, predicate: Predicate, line: str) -> None:
        self.examined.add(predicate)
        self.evidence[predicate].append(line)

    def breaks(self, predicate: Predicate, line: str) -> None:
        self.examined.add(predicate)
        self.broken[predicate].append(line)

    @property
    def intact(self) -> bool:
        return not any(self.broken.values())

    def results(self) -> tuple[PredicateResult, ...]:
        return tuple(self._result(predicate) for predicate in Predicate)

    def _result(self, predicate: Predicate) -> PredicateResult:
        lines = [*self.broken[predicate], *self.evidence[predicate]]
        holds = None if predicate not in self.examined else not self.broken[predicate]
        return PredicateResult(predicate=predicate, holds=holds, evidence=_shortened(lines))


def _shortened(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= MAX_EVIDENCE:
        return tuple(lines)
    return (*lines[:MAX_EVIDENCE], f"... {len(lines) - MAX_EVIDENCE} more")


def evaluate(
    conditions: Conditions,
    files: Mapping[str, str],
    cases: Sequence[InputCase],
    *,
    workshop: Workshop | None = None,
    trusted: bool = False,
) -> Evaluation:
    """Decide the five predicates for a candidate.

    Args:
        conditions: Task, toolchain, target, size and workflow.
        files: The candidate's editable files, already checked by `read_candidate`.
        cases: Inputs, visible before held-out.
        workshop: Keeps built candidates for their next evaluation; without one the candidate is built for this one.
        trusted: The files are the reference's: all inputs are run in one go.

    Raises:
        FabricaError: The machine failed (no space, no memory): nothing is said about the candidate.
        HarnessFault: The task or the toolchain itself is broken.
    """
    groups = split_cases(cases)
    if workshop is None:
        with Workshop(conditions) as fresh:
            return evaluate(conditions, files, cases, workshop=fresh, trusted=trusted)
    if trusted:
        return combine(evaluate_groups(conditions, files, groups, workshop=workshop, trusted=True))
    found: list[Evaluation] = []
    for group in groups:
        found += evaluate_groups(conditions, files, [group], workshop=workshop)
        if not found[-1].ok:
            break
    return combine(found)


def split_cases(cases: Sequence[InputCase]) -> list[tuple[InputCase, ...]]:
    """The visible and the held-out cases, without an empty group; no case at all is one empty group."""
    groups = [tuple(case for case in cases if case.kind == kind) for kind in ("visible", "held-out")]
    return [group for group in groups if group] or [()]


def evaluate_groups(
    conditions: Conditions,
    files: Mapping[str, str],
    groups: Sequence[Sequence[InputCase]],
    *,
    workshop: Workshop,
    trusted: bool = False,
) -> list[Evaluation]:
    """One evaluation per group of cases, from one build and one batch of runs; errors as `evaluate`."""
    built = workshop.build(files)
    isolation = conditions.toolchain.isolation()
    ledgers = [_Ledger() for _ in groups]
    for ledger in ledgers:
        _judge_build(built.result, ledger)
    stage, artifact = built.stage, built.result.artifact
    if artifact is None:
        log = stage.scrub(built.result.log)
        return [Evaluation(ledger.results(), log=log, isolation=isolation) for ledger in ledgers]
    for finding in frozen_findings(conditions, files):
        for ledger in ledgers:
            ledger.breaks(finding.predicate, str(finding))
    outcomes: list[tuple[list[int], str]] = [([], "") for _ in groups]
    if all(ledger.intact for ledger in ledgers):
        try:
            outcomes = _run_groups(conditions, workshop.data, stage, artifact, groups, ledgers, trusted)
        except FabricaError:
            workshop.forget(files)  # its runs' folders are half done, and the program may be tried again
            raise
    altered = [*stage.altered(), *(["the compiled program"] if built.altered() else [])]
    if altered:
        workshop.forget(files)
    found: list[Evaluation] = []
    for ledger, (samples, log) in zip(ledgers, outcomes, strict=True):
        if altered:
            ledger.breaks(Predicate.CONTRACT, f"files of the bundle changed during the run: {', '.join(altered)}")
        if ledger.examined >= {Predicate.RUN} and not ledger.broken[Predicate.CONTRACT]:
            ledger.holds(Predicate.CONTRACT, "interface, params and frozen files are as in the reference")
        kept = tuple(samples) if ledger.intact else ()
        found.append(Evaluation(ledger.results(), kept, stage.scrub(log), isolation))
    return found


def combine(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Evaluations of one candidate over different inputs as one: a predicate holds when it does in all."""
    if len(evaluations) == 1:
        return evaluations[0]
    results = tuple(
        _merge([evaluation.results[index] for evaluation in evaluations])
        for index in range(len(evaluations[0].results))
    )
    valid = all(evaluation.ok for evaluation in evaluations)
    samples = tuple(sample for evaluation in evaluations for sample in evaluation.samples) if valid else ()
    return Evaluation(results, samples, evaluations[-1].log, evaluations[-1].isolation)


def _merge(results: Sequence[PredicateResult]) -> PredicateResult:
    # Failures first: the first line of evidence is the reason that people see.
    ordered = sorted(results, key=lambda result: result.holds is not False)
    lines = list(dict.fromkeys(line for result in ordered for line in result.evidence))
    known = [result.holds for result in results if result.holds is not None]
    return PredicateResult(
        predicate=results[0].predicate, holds=all(known) if known else None, evidence=_shortened(lines)
    )


def frozen_findings(conditions: Conditions, files: Mapping[str, str]) -> list[Finding]:
    """Violations of the frozen interface and timing window, without building or running anything."""
    spec = conditions.task.spec
    texts = tuple(bundle_texts(conditions.task).items())
    try:
        return list(_frozen_findings(tuple(files.items()), texts, spec.bundle.window, tuple(spec.frozen.launches)))
    except BrokenReference as error:
        raise HarnessFault(
            f"the reference breaks the frozen interface itself: {error}",
            place=str(conditions.task.bundle_dir),
            remedy="mend the task",
        ) from error


@lru_cache(maxsize=16)
def _frozen_findings(
    files: tuple[tuple[str, str], ...], reference: tuple[tuple[str, str], ...], window: str, launches: tuple[str, ...]
) -> tuple[Finding, ...]:
    """Kept for the evaluations of a candidate that follow: on held-out inputs after the visible ones."""
    return tuple(check_frozen(dict(files), dict(reference), window_file=window, launches=launches))


def content_key(
    conditions: Conditions, files: Mapping[str, str], cases: Sequence[InputCase], task_digest: str, repeat: int = 0
) -> str:
    """Hash of everything that decides an evaluation: equal keys have equal verdicts.

    It covers task, candidate, inputs and their seeds (through commitments), target, size, workflow, limits, toolchain,
    harness and the libraries that compute expected values. `repeat` tells repeated measurements apart, so that none
    is taken for another: attempts count from 1, the reference is measured as 0.
    """
    parts = [
        __version__,
        SUITE_VERSION,
        f"numpy {np.__version__}",
        conditions.task.name,
        task_digest,
        conditions.arch,
        conditions.size,
        conditions.workflow,
        f"limits {BUILD_DEADLINE_S} {RUN_DEADLINE_S} {MAX_CYCLES}",
        repr(sorted(conditions.toolchain.describe().items())),
        candidate_digest(files),
        f"repeat {repeat}",
        *(f"{case.kind} {case.index} {case.distribution} {case.commitment}" for case in cases),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part.encode()).to_bytes(8, "big") + part.encode())
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------------ building


def _judge_build(build: BuildResult, ledger: _Ledger) -> None:
    errors = [str(item).replace("\n", " ") for item in build.diagnostics if item.severity == "error"]
    if build.ok:
        warnings = sum(item.severity == "warning" for item in build.diagnostics)
        ledger.holds(Predicate.BUILD, f"compiled with {warnings} warning{'s' if warnings != 1 else ''}")
        return
    for line in errors or ["the compiler failed without a message"]:
        ledger.breaks(Predicate.BUILD, line)


# ------------------------------------------------------------------------------------------------- running


def _run_groups(
    conditions: Conditions,
    data: InputData,
    stage: Stage,
    artifact: Path,
    groups: Sequence[Sequence[InputCase]],
    ledgers: Sequence[_Ledger],
    trusted: bool,
) -> list[tuple[list[int], str]]:
    """Run all cases in one batch, judge each; for each group its cycles and the log of its last case."""
    cases = [case for group in groups for case in group]
    requests = [run_request(conditions, stage, case, data.inputs(case), trusted) for case in cases]
    try:
        results = conditions.toolchain.run_all(artifact, requests)
    except OSError as error:
        raise from_os_error(error) from error
    finished = iter(zip(cases, requests, results, strict=True))
    outcomes: list[tuple[list[int], str]] = []
    for group, ledger in zip(groups, ledgers, strict=True):
        samples: list[int] = []
        log = ""
        for case, request, result in itertools.islice(finished, len(group)):
            log = result.log
            cycles = _judge_run(conditions, data, stage, case, request, result, ledger)
            if cycles is not None:
                samples.append(cycles)
            shutil.rmtree(request.workdir, ignore_errors=True)
        outcomes.append((samples, log))
    return outcomes


def run_request(conditions: Conditions, stage: Stage, case: InputCase, arrays: Arrays, trusted: bool) -> RunRequest:
    """The run of a case whose inputs are these arrays, in a folder of its own."""
    label = f"{case.kind}-{case.index}"
    path = stage.root / f"inputs-{label}.npz"
    try:
        np.savez(path, **arrays)  # type: ignore[arg-type]  # the stub takes allow_pickle for an array name
    except OSError as error:
        raise from_os_error(error) from error
    bundle = conditions.task.spec.bundle
    return RunRequest(
        runner=stage.bundle / bundle.runner,
        support=tuple(stage.bundle / name for name in bundle.runner_files if name != bundle.runner),
        workdir=stage.run_folder(label),
        inputs=path,
        entry=conditions.task.spec.entry.name,
        max_cycles=MAX_CYCLES,
        check=False,
        deadline_s=RUN_DEADLINE_S,
        trusted=trusted,
    )


def fault_text(case: InputCase, fault: RunFault) -> str:
    """What evidence says of a run that ended early.

    The report of a fault names the values involved: of a held-out input only the place and the kind of fault are kept,
    or a failing assertion could write the input into a record.
    """
    message = fault.message
    if case.kind == "held-out" and fault.kind == "fault":
        message = message.split("\n", 1)[0].split(" (", 1)[0]
    return f"{fault.kind}: {message}"


def _judge_run(
    conditions: Conditions,
    data: InputData,
    stage: Stage,
    case: InputCase,
    request: RunRequest,
    result: RunResult,
    ledger: _Ledger,
) -> int | None:
    """Judge one finished run; its cycles, or None when something doesn't hold."""
    if result.fault is not None or result.outputs is None:
        require_space(stage)
        fault = result.fault
        text = stage.scrub(fault_text(case, fault)) if fault else "no outputs"
        if CHANGED_INPUT in text:
            # The frozen runner ran to its end and read the inputs back; only a failure can follow from its words.
            ledger.holds(Predicate.RUN, f"{case.label}: ran to its end")
            ledger.breaks(Predicate.CORRECT, f"{case.label}: {text[text.index(CHANGED_INPUT) :]}")
            return None
        ledger.breaks(Predicate.RUN, f"{case.label}: {text}")
        return None
    outputs = read_outputs(result.outputs, conditions.task)
    if isinstance(outputs, str):
        ledger.breaks(Predicate.RUN, f"{case.label}: {outputs}")
        return None
    ledger.holds(Predicate.RUN, f"{case.label}: ran to its end")
    if not _same_file(request.inputs, request.workdir / INPUTS_NAME):
        ledger.breaks(Predicate.CONTRACT, f"{case.label}: the input file was changed")
        return None
    timed = _judge_timing(conditions, case, outputs, result, ledger)
    findings, checks = check_outputs(
        conditions.task, outputs.arrays, data.inputs(case), conditions.parameters, data.answers(case)
    )
    for finding in findings:
        ledger.breaks(finding.predicate, f"{case.label}: {finding}")
    if findings:
        return None
    for check in checks:
        off = f"off by at most {check.max_error:.3g}, {check.max_ratio:.3g} of the tolerance"
        ledger.holds(Predicate.CORRECT, f"{case.label}: {check.name} is {off}")
    return outputs.cycles if timed else None


def _judge_timing(
    conditions: Conditions,
    case: InputCase,
    outputs: RunOutputs,
    result: RunResult,
    ledger: _Ledger,
) -> bool:
    parameters = conditions.parameters
    times = decode_stamps(outputs.stamps, conditions.task.mesh(parameters))
    if isinstance(times, str):
        ledger.breaks(Predicate.TIMING, f"{case.label}: {times}")
        return False
    bound = conditions.task.lower_bound(parameters, conditions.arch)
    window, stamps = result.window, conditions.task.spec.timing.stamps
    findings = check_timers(
        times, outputs.cycles, lower_bound=bound, launch=window, evidence=result.evidence, stamps=stamps
    )
    for finding in findings:
        ledger.breaks(finding.predicate, f"{case.label}: {finding}")
    if findings:
        return False
    launch = f" in a launch of {window[1] - window[0]}" if window else ""
    ledger.holds(Predicate.TIMING, f"{case.label}: {times.cycles} cycles{launch}, lower bound {bound}")
    return True


def _same_file(first: Path | None, second: Path) -> bool:
    if first is None:
        return True
    try:
        return not second.is_symlink() and first.read_bytes() == second.read_bytes()
    except OSError as error:
        require_readable(error)
        return False
