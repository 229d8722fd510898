"""`Valid(P, S)`: Build, Run, Contract, Timing and Correct over a set of inputs, each with its evidence.

Order: the bundle is built once; the frozen interface and window are compared on the syntax tree; then every input is
run in a process of its own on a fresh simulator. Expected values are computed here, after the run has ended, and never
anywhere else. Visible inputs come first, and the held-out ones are only run when those hold.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.firewall.bundle import bundle_texts, frozen_texts
from fabrica_bench.integrity.findings import Finding, Predicate
from fabrica_bench.integrity.frozen import BrokenReference, check_frozen
from fabrica_bench.integrity.outputs import RunOutputs, check_outputs, read_outputs
from fabrica_bench.integrity.timers import check_timers, decode_stamps
from fabrica_bench.plugins import Workflow
from fabrica_bench.scoring.inputs import InputCase
from fabrica_bench.scoring.staging import Stage
from fabrica_bench.scoring.verdict import PredicateResult
from fabrica_bench.tasks import Arrays, Task
from fabrica_bench.tasks.spec import FABRIC_OFFSETS, Arch
from fabrica_bench.toolchains.commands import INPUTS_NAME
from fabrica_bench.toolchains.protocol import BuildOptions, BuildResult, RunRequest, RunResult, Toolchain

BUILD_DEADLINE_S: Final = 120.0
RUN_DEADLINE_S: Final = 180.0
"""Wall limits are a backstop only: the simulator's own cycle budget decides."""

MAX_CYCLES: Final = 10_000_000
"""Simulated cycles of one run: a hundred times what any reference of the suite's published sizes takes."""

MIN_FREE_BYTES: Final = 16 << 20
"""A failure with less free space than this is the machine's, not the candidate's."""

MAX_EVIDENCE: Final = 20
"""Lines of evidence kept per predicate."""


class HarnessFault(FabricaError):
    """The benchmark itself is at fault, e.g. a reference that doesn't hold: no candidate can be scored."""

    def __init__(self, message: str, *, place: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message, place=place, remedy=remedy, code=ExitCode.HARNESS)


@dataclass(frozen=True)
class Conditions:
    """Everything beside candidate and inputs that decides a result.

    Attributes:
        task: The task.
        toolchain: What builds and runs.
        arch: Compile target.
        size: Named size.
        workflow: What a candidate may change.
    """

    task: Task
    toolchain: Toolchain
    arch: Arch = "wse3"
    size: str = "small"
    workflow: Workflow = "W1"

    @property
    def parameters(self) -> dict[str, int]:
        return self.task.size(self.size)

    def build_options(self) -> BuildOptions:
        """The compile command of the bundle."""
        return BuildOptions(
            arch=self.arch,
            fabric_dims=self.task.fabric_dims(self.parameters),
            fabric_offsets=FABRIC_OFFSETS,
            params=self.task.compile_params(self.parameters),
            layout=self.task.spec.bundle.layout,
            deadline_s=BUILD_DEADLINE_S,
        )


@dataclass(frozen=True)
class Evaluation:
    """Outcome of `evaluate`: the five predicates, and the cycles of every input when all of them hold."""

    results: tuple[PredicateResult, ...]
    samples: tuple[int, ...] = ()
    log: str = ""

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
        if len(lines) > MAX_EVIDENCE:
            lines = [*lines[:MAX_EVIDENCE], f"... {len(lines) - MAX_EVIDENCE} more"]
        holds = None if predicate not in self.examined else not self.broken[predicate]
        return PredicateResult(predicate=predicate, holds=holds, evidence=tuple(lines))


def build_only(conditions: Conditions, files: Mapping[str, str]) -> BuildResult:
    """Compile a candidate in a fresh clone; the artefact is gone when this returns."""
    with Stage(files, frozen_texts(conditions.task, conditions.workflow)) as stage:
        result = _build(conditions, stage)
        return BuildResult(result.ok, result.diagnostics, None, stage.scrub(result.log), result.seconds)


def evaluate(conditions: Conditions, files: Mapping[str, str], cases: Sequence[InputCase]) -> Evaluation:
    """Decide the five predicates for a candidate.

    Args:
        conditions: Task, toolchain, target, size and workflow.
        files: The candidate's editable files, already checked by `read_candidate`.
        cases: Inputs, visible before held-out.

    Raises:
        FabricaError: The machine failed (no space, no memory): nothing is said about the candidate.
        HarnessFault: The task or the toolchain itself is broken.
    """
    ledger = _Ledger()
    with Stage(files, frozen_texts(conditions.task, conditions.workflow)) as stage:
        build = _build(conditions, stage)
        _judge_build(build, ledger)
        if build.artifact is None:
            return Evaluation(ledger.results(), log=stage.scrub(build.log))
        for finding in frozen_findings(conditions, files):
            ledger.breaks(finding.predicate, str(finding))
        samples: list[int] = []
        log = ""
        groups = [[case for case in cases if case.kind == kind] for kind in ("visible", "held-out")]
        for group in groups:
            if not ledger.intact or not group:
                continue
            got, log = _run_group(conditions, stage, build.artifact, group, ledger)
            samples += got
        if altered := stage.altered():
            ledger.breaks(Predicate.CONTRACT, f"files of the bundle changed during the run: {', '.join(altered)}")
        if ledger.examined >= {Predicate.RUN} and not ledger.broken[Predicate.CONTRACT]:
            ledger.holds(Predicate.CONTRACT, "interface, params and frozen files are as in the reference")
        return Evaluation(ledger.results(), tuple(samples) if ledger.intact else (), stage.scrub(log))


def frozen_findings(conditions: Conditions, files: Mapping[str, str]) -> list[Finding]:
    """Violations of the frozen interface and timing window, without building or running anything."""
    spec = conditions.task.spec
    try:
        return check_frozen(
            files, bundle_texts(conditions.task), window_file=spec.bundle.window, launches=spec.frozen.launches
        )
    except BrokenReference as error:
        raise HarnessFault(
            f"the reference breaks the frozen interface itself: {error}",
            place=str(conditions.task.bundle_dir),
            remedy="mend the task",
        ) from error


def content_key(conditions: Conditions, files: Mapping[str, str], cases: Sequence[InputCase], task_digest: str) -> str:
    """Hash of everything that decides an evaluation: equal keys have equal verdicts on the same machine."""
    from fabrica_bench.scoring.candidate import candidate_digest
    from fabrica_bench.version import SUITE_VERSION, __version__

    parts = [
        __version__,
        SUITE_VERSION,
        conditions.task.name,
        task_digest,
        conditions.arch,
        conditions.size,
        conditions.workflow,
        repr(sorted(conditions.toolchain.describe().items())),
        candidate_digest(files),
        *(f"{case.kind} {case.index} {case.distribution} {case.commitment}" for case in cases),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part.encode()).to_bytes(8, "big") + part.encode())
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------------ building


def _build(conditions: Conditions, stage: Stage) -> BuildResult:
    try:
        result = conditions.toolchain.build(stage.bundle, conditions.build_options())
    except OSError as error:
        raise from_os_error(error) from error
    if not result.ok:
        _require_space(stage)
    return result


def _judge_build(build: BuildResult, ledger: _Ledger) -> None:
    errors = [str(item).replace("\n", " ") for item in build.diagnostics if item.severity == "error"]
    if build.ok:
        warnings = sum(item.severity == "warning" for item in build.diagnostics)
        ledger.holds(Predicate.BUILD, f"compiled with {warnings} warnings")
        return
    for line in errors or ["the compiler failed without a message"]:
        ledger.breaks(Predicate.BUILD, line)


# ------------------------------------------------------------------------------------------------- running


def _run_group(
    conditions: Conditions, stage: Stage, artifact: Path, cases: Sequence[InputCase], ledger: _Ledger
) -> tuple[list[int], str]:
    """Run the cases, judge each, and return their cycles and the log of the last one that was looked at."""
    parameters = conditions.parameters
    inputs = [conditions.task.inputs(case.seed, parameters, case.distribution) for case in cases]
    requests = [_request(conditions, stage, case, arrays) for case, arrays in zip(cases, inputs, strict=True)]
    try:
        results = conditions.toolchain.run_all(artifact, requests)
    except OSError as error:
        raise from_os_error(error) from error
    samples: list[int] = []
    log = ""
    for case, arrays, request, result in zip(cases, inputs, requests, results, strict=True):
        log = result.log
        cycles = _judge_run(conditions, stage, case, arrays, request, result, ledger)
        if cycles is not None:
            samples.append(cycles)
        shutil.rmtree(request.workdir, ignore_errors=True)
    return samples, log


def _request(conditions: Conditions, stage: Stage, case: InputCase, arrays: Arrays) -> RunRequest:
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
    )


def _judge_run(
    conditions: Conditions,
    stage: Stage,
    case: InputCase,
    arrays: Arrays,
    request: RunRequest,
    result: RunResult,
    ledger: _Ledger,
) -> int | None:
    """Judge one finished run; its cycles, or None when something doesn't hold."""
    if result.fault is not None or result.outputs is None:
        _require_space(stage)
        fault = result.fault
        text = f"{fault.kind}: {stage.scrub(fault.message)}" if fault else "no outputs"
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
    findings, checks = check_outputs(conditions.task, outputs.arrays, arrays, conditions.parameters)
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
    window, evidence = result.window, result.evidence
    findings = check_timers(times, outputs.cycles, lower_bound=bound, launch=window, evidence=evidence)
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
    except OSError:
        return False


def _require_space(stage: Stage) -> None:
    free = shutil.disk_usage(stage.root).free
    if free < MIN_FREE_BYTES:
        raise FabricaError(
            f"no space left for temporary files: {free >> 20} MiB free",
            place=str(stage.root.parent),
            remedy="free some space or set TMPDIR to another folder; finished work is kept, run again to continue",
            code=ExitCode.ENVIRONMENT,
        )
