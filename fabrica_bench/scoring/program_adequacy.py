"""Adequacy on programs: does the scorer reject wrong programs, and let honest variants pass?

For each task the wrong programs of `fabrica_bench.integrity.wrong_programs` (the expert kernel with device code that
spoils its results) and the mutations of `fabrica_bench.integrity.program_mutations` (of the plain kernel, and the
vectors of the expert one) are candidates: built, checked, run on visible and held-out inputs and compared like any
other. A mutant is killed when one of the five predicates fails. One that doesn't compile is no program and is left
out. One whose outputs equal the unchanged kernel's bit for bit on every input is listed with its place, not counted.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.firewall.bundle import bundle_texts, frozen_texts, reference_files
from fabrica_bench.integrity import device_facts, honest_variants, program_mutations, wrong_programs
from fabrica_bench.integrity.device_facts import Program, read_program
from fabrica_bench.integrity.honest_variants import VARIANTS, all_at_once
from fabrica_bench.integrity.outputs import read_outputs
from fabrica_bench.integrity.program_mutations import mutations
from fabrica_bench.integrity.wrong_programs import FAMILY, Inapplicable
from fabrica_bench.scoring.conditions import Conditions, HarnessFault
from fabrica_bench.scoring.inputs import InputCase, held_out_cases, held_out_seeds, visible_cases
from fabrica_bench.scoring.scorer import Scorer
from fabrica_bench.scoring.staging import Stage
from fabrica_bench.scoring.validity import Evaluation
from fabrica_bench.tasks import Task
from fabrica_bench.tasks.seeds import RECORD_KEY, HeldOutKey
from fabrica_bench.tasks.spec import Arch
from fabrica_bench.toolchains.commands import stage_run
from fabrica_bench.toolchains.embedded import embedded_toolchain
from fabrica_bench.toolchains.processes import run_process, scrubbed_environment
from fabrica_bench.toolchains.protocol import BuildOptions, BuildResult, RunRequest, RunResult, Toolchain
from fabrica_bench.version import __version__

DEADLINE_S: Final = 300.0

PLACES: Final = 4
"""Places per kind of mutation that are tried at most."""

Tier = Literal["programs", "mutations"]

Outcome = Literal["killed", "survived", "same outputs", "not applicable", "not a program"]


@dataclass(frozen=True)
class Tried:
    """A mutant and what became of it.

    Attributes:
        name: Of the family, or kind and place of a mutation.
        kernel: `expert` or `plain`.
        outcome: See the module.
        by: The predicate that failed, for a killed one.
        reason: Its first line of evidence, or the rule by which the mutant doesn't exist for the task.
    """

    name: str
    kernel: str
    outcome: Outcome
    by: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ProgramAdequacy:
    """What became of the wrong programs and the honest variants of one task.

    Attributes:
        tier: Which were tried.
        tried: Every mutant.
        honest: Honest candidates that were tried.
        honest_rejected: Those that were rejected, with the reason.
    """

    task: str
    tier: Tier
    tried: tuple[Tried, ...]
    honest: int
    honest_rejected: tuple[str, ...]

    def of(self, outcome: Outcome) -> tuple[Tried, ...]:
        return tuple(item for item in self.tried if item.outcome == outcome)

    @property
    def total(self) -> int:
        """Wrong programs."""
        return len(self.of("killed")) + len(self.of("survived"))

    @property
    def ok(self) -> bool:
        return bool(self.of("killed")) and not self.of("survived") and not self.honest_rejected

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ProgramAdequacy:
        """Inverse of `to_json`; raises TypeError or KeyError on anything else."""
        tried = tuple(Tried(**item) for item in data["tried"])
        return ProgramAdequacy(data["task"], data["tier"], tried, data["honest"], tuple(data["honest_rejected"]))


class _Witness:
    """A toolchain that also keeps a digest of every run's outputs, in the order of the runs."""

    def __init__(self, toolchain: Toolchain, task: Task) -> None:
        self._toolchain = toolchain
        self._task = task
        self.seen: list[str] = []
        self.name = toolchain.name

    def describe(self) -> dict[str, str]:
        return self._toolchain.describe()

    def isolation(self) -> dict[str, str]:
        return self._toolchain.isolation()

    def build(self, bundle: Path, options: BuildOptions) -> BuildResult:
        return self._toolchain.build(bundle, options)

    def run(self, artifact: Path, request: RunRequest) -> RunResult:
        return self.run_all(artifact, [request])[0]

    def run_all(self, artifact: Path, requests: Sequence[RunRequest]) -> list[RunResult]:
        results = self._toolchain.run_all(artifact, requests)
        self.seen += [self._digest(result) for result in results]
        return results

    def _digest(self, result: RunResult) -> str:
        outputs = None if result.outputs is None else read_outputs(result.outputs, self._task)
        if outputs is None or isinstance(outputs, str):
            return "no outputs"
        digest = hashlib.sha256()
        for name in sorted(outputs.arrays):
            digest.update(np.ascontiguousarray(outputs.arrays[name]).tobytes())
        return digest.hexdigest()

    def take(self) -> tuple[str, ...]:
        """The digests since the last call."""
        seen, self.seen = tuple(self.seen), []
        return seen


class _Trial:
    """One task under fixed conditions."""

    def __init__(self, task: Task, size: str, arch: Arch, key: HeldOutKey) -> None:
        self.task = task
        self.witness = _Witness(embedded_toolchain(), task)
        self.conditions = Conditions(task, self.witness, arch, size)
        self.scorer = Scorer(self.conditions)
        self.cases: tuple[InputCase, ...] = (*visible_cases(task), *held_out_cases(task, held_out_seeds(task, key)))
        self.bundle = task.spec.bundle
        texts = bundle_texts(task)
        self.kernels = {"expert": texts[self.bundle.compute]}
        if self.bundle.plain is not None:
            self.kernels["plain"] = texts[self.bundle.plain]
        self._usual: dict[str, tuple[str, ...]] = {}

    def evaluate(self, text: str, cases: Sequence[InputCase]) -> tuple[Evaluation, tuple[str, ...]]:
        """The five predicates of a program as a candidate, and the digests of its outputs."""
        self.witness.take()
        evaluation = self.scorer.evaluate({self.bundle.compute: text}, cases)
        return evaluation, self.witness.take()

    def usual(self, kernel: str) -> tuple[str, ...]:
        """Digests of an unchanged kernel's outputs on all inputs.

        Raises:
            HarnessFault: It isn't valid.
        """
        if kernel not in self._usual:
            evaluation, self._usual[kernel] = self.evaluate(self.kernels[kernel], self.cases)
            if evaluation.failed is not None:
                why = f"{evaluation.failed.predicate}: {evaluation.failed.evidence[0]}"
                raise HarnessFault(f"the {kernel} kernel of {self.task.name} isn't valid: {why}")
        return self._usual[kernel]

    def mutant(self, name: str, kernel: str, text: str) -> Tried:
        """Try a wrong program: on one input, and where that doesn't tell on all."""
        failed = self.evaluate(text, self.cases[:1])[0].failed
        if failed is None:
            evaluation, digests = self.evaluate(text, self.cases)
            failed = evaluation.failed
            if failed is None:
                return Tried(name, kernel, "same outputs" if digests == self.usual(kernel) else "survived")
        outcome: Outcome = "not a program" if failed.predicate == "Build" else "killed"
        return Tried(name, kernel, outcome, failed.predicate.value, failed.evidence[0].splitlines()[0][:200])

    def honest(self, text: str) -> str:
        """Try an honest variant; why it was rejected, empty when it passed."""
        failed = self.evaluate(text, self.cases)[0].failed
        return "" if failed is None else f"{failed.predicate}: {failed.evidence[0].splitlines()[0]}"


def measure_programs(
    task: Task, size: str = "small", arch: Arch = "wse3", key: HeldOutKey | None = None, *, tier: Tier = "programs"
) -> ProgramAdequacy:
    """Try wrong programs and honest variants of a task on the embedded toolchain.

    Args:
        task: A task with a W1 workflow.
        size, arch: What is built and run.
        key: Held-out key; by default the public one, on whose inputs everybody measures the same.
        tier: `programs`: the fixed family, and the honest variants. `mutations`: mutations of the kernels.

    Raises:
        HarnessFault: A kernel of the task isn't valid, so nothing can be said.
        FabricaError: The machine failed, or no such size.
    """
    trial = _Trial(task, size, arch, key or RECORD_KEY)
    with trial.scorer:
        if tier == "mutations":
            return ProgramAdequacy(task.name, tier, tuple(_mutations(trial)), 0, ())
        program = _program(trial, trial.kernels["expert"])
        tried = tuple(_family_member(trial, name, program) for name in FAMILY)
        return ProgramAdequacy(task.name, tier, tried, len(trial.kernels), tuple(_honest(trial)))


def _family_member(trial: _Trial, name: str, program: Program) -> Tried:
    made = FAMILY[name](program)
    if isinstance(made, Inapplicable):
        return Tried(name, "expert", "not applicable", reason=made.rule)
    tried = trial.mutant(name, "expert", made)
    if tried.outcome == "not a program":
        raise HarnessFault(f"the wrong program {name!r} of {trial.task.name} doesn't compile: {tried.reason}")
    return tried


def _mutations(trial: _Trial) -> Iterator[Tried]:
    """All kinds on the kernel with loops; on the expert one beside it what it alone has, vectors.

    Of each kind the first place that makes another program; the places that didn't come before it.
    """
    for kernel, text in trial.kernels.items():
        found = mutations(text, PLACES)
        if kernel == "expert" and "plain" in trial.kernels:
            found = [item for item in found if item.kind == "vector one short"]
        for _, group in itertools.groupby(found, key=lambda item: item.kind):
            for mutation in group:
                tried = trial.mutant(mutation.name, kernel, mutation.text)
                yield tried
                if tried.outcome in ("killed", "survived"):
                    break


def _honest(trial: _Trial) -> Iterator[str]:
    """Every variant at once, on every kernel; one by one where that is rejected."""
    window = trial.bundle.window
    for kernel, text in trial.kernels.items():
        why = trial.honest(all_at_once(text, window))
        if why:
            single = {name: trial.honest(variant(text, window)) for name, variant in VARIANTS.items()}
            yield f"{kernel} {', '.join(name for name, bad in single.items() if bad) or 'all'}: {why}"


def _program(trial: _Trial, text: str) -> Program:
    """The expert kernel and its host-visible arrays, recorded on the first visible input."""
    task, conditions = trial.task, trial.conditions
    toolchain = embedded_toolchain()
    with Stage(reference_files(task, "W1"), frozen_texts(task, "W1")) as stage:
        artifact = toolchain.build(stage.bundle, conditions.build_options()).artifact
        assert artifact is not None
        case = trial.cases[0]
        inputs = stage.root / "inputs.npz"
        np.savez(inputs, **task.inputs(case.seed, conditions.parameters, case.distribution))  # type: ignore[arg-type]
        support = tuple(stage.bundle / name for name in trial.bundle.runner_files if name != trial.bundle.runner)
        folder, record, orders = stage.run_folder("record"), stage.root / "record.npz", stage.root / "orders.json"
        arguments = stage_run(artifact, RunRequest(stage.bundle / trial.bundle.runner, folder, inputs, support))
        orders.write_text(
            json.dumps({"arguments": arguments, "support": bool(support), "record": str(record)}), encoding="utf-8"
        )
        result = run_process(
            [sys.executable, "-P", "-m", "fabrica_bench.integrity.recording_host"],
            workdir=folder,
            environment=scrubbed_environment(folder, toolchain.environment),
            limits=toolchain.limits,
            deadline_s=DEADLINE_S,
            stdin=orders,
        )
        if not result.ok:
            last = (result.stderr.strip().splitlines() or ["no message"])[-1]
            raise FabricaError(f"the reference of {task.name} can't be recorded: {last}", code=ExitCode.HARNESS)
        spec = task.spec
        return read_program(
            text,
            record,
            outputs=[output.name for output in spec.outputs],
            window=spec.bundle.window,
            launches=spec.frozen.launches,
        )


def state_key(task: Task, size: str, arch: Arch, tier: Tier) -> str:
    """Digest of what decides a result beside the held-out key, so that a kept one is only used where it still holds.

    That is the programs, the runner, the oracle, inputs, tolerances and this size: not published cycles, other sizes or
    the command scripts.
    """
    spec = task.spec
    parts = (spec.inputs, spec.outputs, spec.distributions, spec.entry, spec.frozen, task.size(size))
    digest = hashlib.sha256(f"{__version__} {task.name} {size} {arch} {tier} {parts!r}".encode())
    names = (spec.bundle.layout, spec.bundle.compute, spec.bundle.plain, spec.bundle.window, *spec.bundle.runner_files)
    files = [task.root / "oracle.py", *(task.bundle_dir / name for name in names if name is not None)]
    modules = (device_facts, honest_variants, program_mutations, wrong_programs)
    for path in (*files, *(Path(str(module.__file__)) for module in modules)):
        digest.update(path.read_bytes())
    return digest.hexdigest()
