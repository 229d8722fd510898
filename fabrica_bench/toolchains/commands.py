"""A toolchain made of two executables, `cslc` and `cs_python`: shared by the embedded and the vendor's back end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.toolchains.diagnostics import harmless, parse_diagnostics
from fabrica_bench.toolchains.processes import (
    Limits,
    ProcessResult,
    isolation_report,
    run_process,
    scrubbed_environment,
)
from fabrica_bench.toolchains.protocol import (
    STATS_FILE,
    BuildOptions,
    BuildResult,
    FaultKind,
    RunFault,
    RunRequest,
    RunResult,
)
from fabrica_bench.wse.evidence import RunEvidence, read_evidence

INPUTS_NAME: Final = "inputs.npz"
OUTPUTS_NAME: Final = "outputs.npz"
ARTIFACT_NAME: Final = "out"
RUNNER_NAME: Final = "run.py"

LEAST_SHARE: Final = 0.25
"""Of its wall limit a child must have had so much processor time for the limit to say something about it."""

MESSAGE_LIMIT: Final = 2000
"""Characters of a fault message kept in a record."""

_SIM_FAULT: Final = re.compile(r"^fabrica-sim: (?P<kind>fault|deadlock|budget): ?(?P<text>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class CommandToolchain:
    """Runs `cslc ...` and `cs_python run.py ...` as confined child processes.

    Attributes:
        name: Name of the back end in records.
        cslc, cs_python: Program and leading arguments of each tool.
        environment: Variables added to the scrubbed environment of the children.
        description: What `describe` answers.
        limits: Resource limits of each child.
    """

    name: str
    cslc: tuple[str, ...]
    cs_python: tuple[str, ...]
    environment: Mapping[str, str]
    description: Mapping[str, str]
    limits: Limits

    def describe(self) -> dict[str, str]:
        """Name, version and origin of the two tools."""
        return dict(self.description)

    def isolation(self) -> dict[str, str]:
        """What confines the children."""
        return isolation_report(self.limits)

    def build(self, bundle: Path, options: BuildOptions) -> BuildResult:
        """Compile the bundle in place."""
        result = self._run([*self.cslc, *options.flags()], bundle, options.deadline_s)
        return judge_build(result, bundle, options)

    def run(self, artifact: Path, request: RunRequest) -> RunResult:
        """Run the artefact once; it gets its own copies of artefact, runner and inputs."""
        arguments = stage_run(artifact, request)
        result = self._run([*self.cs_python, *arguments], request.workdir, request.deadline_s)
        return collect_run(result, request)

    def run_all(self, artifact: Path, requests: Sequence[RunRequest]) -> list[RunResult]:
        """One process after another."""
        return [self.run(artifact, request) for request in requests]

    def _run(self, argv: Sequence[str], workdir: Path, deadline_s: float) -> ProcessResult:
        environment = scrubbed_environment(workdir, self.environment)
        return run_process(argv, workdir=workdir, environment=environment, limits=self.limits, deadline_s=deadline_s)


def judge_build(result: ProcessResult, bundle: Path, options: BuildOptions) -> BuildResult:
    """A finished compiler as a result; a failed build always has an error diagnostic."""
    log = _join(result.stdout, result.stderr)
    artifact = bundle / options.output
    if result.timed_out:
        log = _join(log, f"error: cslc exceeded its wall limit of {options.deadline_s:g} s")
    elif result.ok and not artifact.is_dir():
        log = _join(log, f"error: cslc succeeded but wrote no {options.output}/")
    elif not result.ok and not any(item.severity == "error" for item in parse_diagnostics(log)):
        log = _join(log, f"error: cslc failed with {result.ending()}")
    ok = result.ok and artifact.is_dir()
    return BuildResult(ok, parse_diagnostics(log), artifact if ok else None, log, result.seconds)


def stage_run(artifact: Path, request: RunRequest, *, linked: bool = False) -> list[str]:
    """Fill the private folder of a run and return the arguments of `cs_python`.

    Everything is a copy under a fixed name inside the working directory: a container sees nothing else, and one run
    can't change what the next one gets. `linked`: only the artefact is none, for runs that can't write outside.
    """
    workdir = request.workdir
    workdir.mkdir(parents=True, exist_ok=True)
    if linked:
        (workdir / ARTIFACT_NAME).symlink_to(artifact.resolve())
    else:
        shutil.copytree(artifact, workdir / ARTIFACT_NAME, symlinks=True)
    shutil.copyfile(request.runner, workdir / RUNNER_NAME)
    for path in request.support:
        shutil.copyfile(path, workdir / path.name)
    arguments = [RUNNER_NAME, "--name", ARTIFACT_NAME, "--outputs", OUTPUTS_NAME]
    if request.inputs is not None:
        shutil.copyfile(request.inputs, workdir / INPUTS_NAME)
        arguments += ["--inputs", INPUTS_NAME]
    if not request.check:
        arguments.append("--no-check")
    return arguments


def collect_run(result: ProcessResult, request: RunRequest) -> RunResult:
    """Judge a finished run by its exit status and its files, never by what it printed on success."""
    log = _join(result.stdout, result.stderr)
    outputs = request.workdir / OUTPUTS_NAME
    fault = _fault_of(result, request, outputs)
    if fault is not None:
        return RunResult(False, None, fault, log, result.seconds)
    stats = request.workdir / STATS_FILE
    window = launch_window(stats, request.entry)
    return RunResult(True, outputs, None, log, result.seconds, window, run_evidence(stats, request.entry))


def launch_window(stats: Path, entry: str | None = None) -> tuple[int, int] | None:
    """First start and last end of an entry's launches in the simulator's statistics (of the last launch, without one).

    None when there is no readable file or no such launch.
    """
    try:
        launches = json.loads(stats.read_text(encoding="utf-8"))["launches"]
        chosen = [item for item in launches if item["name"] == entry] if entry is not None else launches[-1:]
        if not chosen:
            return None
        return int(chosen[0]["start"]), int(chosen[-1]["end"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def run_evidence(stats: Path, entry: str | None) -> RunEvidence | None:
    """What the simulator's statistics tell about an entry; None when there is no readable file or no such launch."""
    try:
        return None if entry is None else read_evidence(json.loads(stats.read_text(encoding="utf-8")), entry)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def out_of_memory(what: str, returncode: int, timed_out: bool, cpu_s: float, limits: Limits) -> FabricaError | None:
    """The machine's failure if a child of the embedded toolchain ended by it, else None.

    Such a child says by its status that the machine has no memory left. Or the system killed it for that: nobody else
    sends SIGKILL but we at a deadline, and the system at the limit on processor time.
    """
    # The system counts for the limit in ticks, and for the answer exactly.
    killed = returncode == -signal.SIGKILL and (limits.cpu_s is None or cpu_s < 0.9 * limits.cpu_s)
    if timed_out or not (killed or returncode == ExitCode.ENVIRONMENT):
        return None
    how = "was killed by the system" if killed else "found the machine without memory or space"
    return FabricaError(
        f"{what} {how}",
        remedy="free some memory, or run fewer jobs at a time; finished work is kept, run again to continue",
        code=ExitCode.ENVIRONMENT,
    )


def starved(what: str, result: ProcessResult, deadline_s: float) -> FabricaError | None:
    """The machine's failure if a child of the embedded toolchain reached its deadline for want of a processor.

    Such a child computes all the time: it waits for nobody, so the machine had stopped it or was busy with others.
    """
    if not result.timed_out or result.cpu_s is None or result.cpu_s >= deadline_s * LEAST_SHARE:
        return None
    return FabricaError(
        f"{what} got {result.cpu_s:.1f} s of processor time in {result.seconds:.0f} s, its wall limit",
        remedy="run fewer jobs at a time, or on a machine with less other work; finished work is kept, run again to "
        "continue",
        code=ExitCode.ENVIRONMENT,
    )


def _fault_of(result: ProcessResult, request: RunRequest, outputs: Path) -> RunFault | None:
    if result.timed_out:
        return RunFault(
            "timeout",
            f"wall limit of {request.deadline_s:g} s exceeded after {result.seconds:.1f} s; all processes killed",
        )
    if result.returncode != 0:
        found = _SIM_FAULT.search(result.stderr)
        if found:
            text = result.stderr[found.start("text") :].strip()
            return RunFault(cast(FaultKind, found["kind"]), _cut(text))
        kind: FaultKind = "mismatch" if request.check and result.returncode == 1 else "crash"
        return RunFault(kind, _cut(f"runner ended with {result.ending()}: {_last_lines(result)}"))
    if outputs.is_symlink() or not outputs.is_file():
        return RunFault("crash", f"runner succeeded but wrote no {OUTPUTS_NAME}")
    return None


def _last_lines(result: ProcessResult) -> str:
    lines = [line for line in (result.stderr.strip() or result.stdout.strip()).splitlines() if line.strip()]
    return " / ".join(line.strip() for line in lines[-3:]) or "no output"


def _cut(text: str) -> str:
    text = harmless(text)
    return text if len(text) <= MESSAGE_LIMIT else text[:MESSAGE_LIMIT] + " [...]"


def _join(*parts: str) -> str:
    return "\n".join(part.rstrip("\n") for part in parts if part.strip())


def tool_version(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """First line that the tool prints for `--version`; empty when it doesn't start, fails or takes too long."""
    scratch = Path(os.devnull).parent
    try:
        result = run_process(
            [*argv, "--version"],
            workdir=scratch,
            environment=scrubbed_environment(scratch, environment),
            limits=Limits(cpu_s=20, file_size=0),
            deadline_s=20.0,
        )
    except OSError:
        return ""
    lines = (result.stdout.strip() or result.stderr.strip()).splitlines()
    return lines[0].strip() if result.ok and lines else ""
