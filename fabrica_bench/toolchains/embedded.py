"""The project's own compiler and simulator, as confined child processes of this Python."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fabrica_bench.compat.batch import output_files
from fabrica_bench.compat.tracing import PROFILE_VARIABLE
from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.tasks import secret_roots
from fabrica_bench.toolchains.commands import (
    CommandToolchain,
    collect_run,
    judge_build,
    out_of_memory,
    stage_run,
    starved,
)
from fabrica_bench.toolchains.landlock import Confinement, describe_confinement, python_paths
from fabrica_bench.toolchains.processes import (
    NEW_PROGRAM,
    Limits,
    ProcessResult,
    available_cores,
    cut_output,
    isolation_report,
    python_environment,
    run_process,
    scrubbed_environment,
)
from fabrica_bench.toolchains.protocol import BuildOptions, BuildResult, RunRequest, RunResult, Toolchain
from fabrica_bench.toolchains.seccomp import describe_calls
from fabrica_bench.toolchains.starter import Access, StarterUnavailable, how_children_start, run_forked
from fabrica_bench.version import __version__
from fabrica_bench.wse.selection import confined_native, keep_code

PYTHON: Final = (sys.executable, "-P", "-m")
"""-P keeps the bundle's folder, which holds candidate files, off the children's import path."""

EMBEDDED_LIMITS: Final = Limits(cpu_s=300, address_space=8 << 30, file_size=512 << 20, processes=64, open_files=256)

UNTRUSTED_FLAGS: Final = ("--confine-imports", "--max-comptime-steps=2000000")
"""Candidates are not trusted. No reference needs more than 5000 steps."""

CODE_NAME: Final = "code"
PRIVATE_CODE_VARIABLE: Final = "FABRICA_PRIVATE_CODE"

CYCLES_VARIABLE: Final = "FABRICA_SIM_MAX_CYCLES"

CHILD_MODULES: Final = ("fabrica_bench.compat.batch", "fabrica_bench.compat.cslc", "fabrica_bench.csl.driver")
"""What builds and batches import, for a starter."""

MOST_AT_ONCE: Final = 4
"""Runs at a time that `spread` asks for at most: each may need the memory of a large rectangle."""

START_ALLOWANCE_S: Final = 60.0
"""Wall-clock time that a batch may take to start, beyond the deadlines of its runs."""


@dataclass(frozen=True)
class EmbeddedToolchain(CommandToolchain):
    """Confined by Landlock where the kernel has it, and with several runs in one start (see `batch`).

    Attributes:
        forks: Start children as forks (see `starter`) where that is possible; with the same results.
        at_once: Runs of one program at a time, each with its own process; with the same results. See `spread`.
    """

    forks: bool = True
    at_once: int = 1

    def isolation(self) -> dict[str, str]:
        """What confines the children."""
        return isolation_report(
            self.limits,
            start=how_children_start() if self.forks else NEW_PROGRAM,
            confinement=describe_confinement(network=False),
            calls=describe_calls(),
        )

    def build(self, bundle: Path, options: BuildOptions) -> BuildResult:
        """Compile the bundle in place.

        Raises:
            FabricaError: The compiler itself failed, or the machine did: not the program's fault.
        """
        command = [*self.cslc, *options.flags(), *UNTRUSTED_FLAGS]
        result = self._confined(command, bundle, options.deadline_s, write=[bundle])
        # By exit status only: a program can have any text printed while it is compiled.
        if result.returncode == ExitCode.ENVIRONMENT:
            raise FabricaError(f"cslc: {_last_line(result.stderr)}", code=ExitCode.ENVIRONMENT)
        if problem := out_of_memory("cslc", result.returncode, result.timed_out, result.seconds, self.limits):
            raise problem
        if problem := starved("cslc", result, options.deadline_s):
            raise problem
        if _crashed(result):
            how = _last_line(result.stderr) if result.returncode == ExitCode.HARNESS else result.ending()
            raise FabricaError(f"cslc crashed: {how}", remedy="report the program", code=ExitCode.HARNESS)
        return judge_build(result, bundle, options)

    def run(self, artifact: Path, request: RunRequest) -> RunResult:
        """Run the artefact once."""
        return self.run_all(artifact, [request])[0]

    def run_all(self, artifact: Path, requests: Sequence[RunRequest]) -> list[RunResult]:
        """Run every request on a simulator and in a process of its own, all started from one.

        Raises:
            FabricaError: The batch itself failed, e.g. the simulator can't be imported.
        """
        if not requests:
            return []
        runs = [self._describe_run(artifact, request) for request in requests]
        parent = requests[0].workdir.parent
        orders = parent / f"{requests[0].workdir.name}.batch.json"
        # Machine code of this program, for its later batches: the folder lives and dies with the staged program.
        code = parent / CODE_NAME
        code.mkdir(exist_ok=True)
        orders.write_text(
            json.dumps({"artifact": str(artifact), "at_once": self.at_once, "runs": runs}), encoding="utf-8"
        )
        result = self._confined(
            [*PYTHON, "fabrica_bench.compat.batch"],
            parent,
            START_ALLOWANCE_S + sum(request.deadline_s for request in requests),
            read=[artifact],
            write=[parent],
            stdin=orders,
            extra={PRIVATE_CODE_VARIABLE: str(code)},
        )
        answers = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        if len(answers) != len(requests):
            raise FabricaError(
                f"the simulator can't be started: {result.ending()}: {_last_line(result.stderr)}",
                remedy="see `fabrica-bench doctor`",
                code=ExitCode.HARNESS,
            )
        ended = [_process_result(request, answer) for request, answer in zip(requests, answers, strict=True)]
        for request, result in zip(requests, ended, strict=True):
            if problem := self._not_the_programs_fault(request, result):
                raise problem
        if all(request.trusted for request in requests):
            keep_code(code)
        results = [collect_run(result, request) for request, result in zip(requests, ended, strict=True)]
        for request, run in zip(requests, results, strict=True):
            if run.ok and request.entry is not None and run.evidence is None:
                # Without it the stamps would have to be believed.
                raise FabricaError(
                    f"the simulator left no record of the launch of {request.entry!r}",
                    remedy="report the program",
                    code=ExitCode.HARNESS,
                )
        return results

    def _not_the_programs_fault(self, request: RunRequest, result: ProcessResult) -> FabricaError | None:
        """Why a run says nothing about its program; by exit status and processor time only."""
        assert result.cpu_s is not None
        if problem := out_of_memory("a run", result.returncode, result.timed_out, result.cpu_s, self.limits):
            return problem
        if problem := starved("a run", result, request.deadline_s):
            return problem
        if not _crashed(result):
            return None
        # The kind of error only: its text may hold values of a held-out input.
        kind = result.ending()
        if result.returncode == ExitCode.HARNESS:
            kind = _last_line(result.stderr).partition(":")[0]
        return FabricaError(f"the simulator crashed: {kind}", remedy="report the program", code=ExitCode.HARNESS)

    def _describe_run(self, artifact: Path, request: RunRequest) -> dict[str, Any]:
        environment = {} if request.max_cycles is None else {CYCLES_VARIABLE: str(request.max_cycles)}
        if request.profile:
            environment[PROFILE_VARIABLE] = str(request.workdir / "profile")
        return {
            "workdir": str(request.workdir),
            "arguments": stage_run(artifact, request, linked=True),
            "support": bool(request.support),
            "deadline_s": request.deadline_s,
            "environment": environment,
        }

    def _confined(
        self,
        argv: Sequence[str],
        workdir: Path,
        deadline_s: float,
        *,
        read: Iterable[Path] = (),
        write: Iterable[Path],
        stdin: Path | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> ProcessResult:
        paths = python_paths(hidden=secret_roots())
        variables, code = confined_native()
        shared = {**self.environment, **variables}
        environment = scrubbed_environment(workdir, {**shared, **(extra or {})})
        access = Access((*paths.read, *code, *read), paths.listed, tuple(write))
        if self.forks and tuple(argv[: len(PYTHON)]) == PYTHON:
            with contextlib.suppress(StarterUnavailable):
                return run_forked(
                    argv[len(PYTHON)],
                    argv[len(PYTHON) + 1 :],
                    modules=CHILD_MODULES,
                    shared=shared,
                    workdir=workdir,
                    environment=environment,
                    limits=self.limits,
                    deadline_s=deadline_s,
                    stdin=stdin,
                    access=access,
                )
        with Confinement(
            read=access.read, listed=access.listed, write=access.write, network=access.network
        ) as confinement:
            return run_process(
                argv,
                workdir=workdir,
                environment=environment,
                limits=self.limits,
                deadline_s=deadline_s,
                stdin=stdin,
                confine=confinement.apply,
            )


_CRASHES: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)


def embedded_toolchain() -> EmbeddedToolchain:
    """The embedded back end; it is always available."""
    return EmbeddedToolchain(
        name="embedded",
        cslc=(*PYTHON, "fabrica_bench.compat.cslc"),
        cs_python=(*PYTHON, "fabrica_bench.compat.cs_python"),
        environment=python_environment(),
        description={
            "toolchain": "embedded",
            "version": __version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "vendor": "no",
        },
        limits=EMBEDDED_LIMITS,
    )


def spread(toolchain: Toolchain, beside: int = 1) -> Toolchain:
    """The same back end, using the cores that it has for itself.

    Args:
        beside: How many work on this machine side by side, each with such a back end.
    """
    if not isinstance(toolchain, EmbeddedToolchain):
        return toolchain
    return dataclasses.replace(toolchain, at_once=max(1, min(available_cores() // max(beside, 1), MOST_AT_ONCE)))


def _crashed(result: ProcessResult) -> bool:
    """Whether a child of this toolchain failed by itself: it says so, or the processor stopped it.

    Where compiler and simulator are right, no CSL program has a wrong address used, or an impossible instruction done.
    """
    return result.returncode == ExitCode.HARNESS or -result.returncode in _CRASHES


def _process_result(request: RunRequest, answer: dict[str, Any]) -> ProcessResult:
    stdout, stderr = (_read(path) for path in output_files(request.workdir))
    return ProcessResult(
        answer["returncode"], answer["timed_out"], 0, stdout, stderr, answer["seconds"], answer["cpu_s"]
    )


def _read(path: Path) -> str:
    try:
        return cut_output(path.read_bytes())
    except FileNotFoundError:
        return ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


__all__ = ["EmbeddedToolchain", "embedded_toolchain", "spread"]
