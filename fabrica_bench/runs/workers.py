"""Runs jobs side by side, each in a process of its own with its own deadline."""

from __future__ import annotations

import os
import select
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from fabrica_bench.errors import from_os_error
from fabrica_bench.runs.job import JobSpec
from fabrica_bench.runs.link import Link, LinkFailure
from fabrica_bench.tasks import TASKS_VARIABLE, tasks_root
from fabrica_bench.toolchains.processes import ChildProcess, Limits, python_environment

SCORING_LIMIT_S: Final = 1800.0
"""Wall-clock backstop of scoring one candidate, beyond the agent's own budget."""

SEND_LIMIT_S: Final = 10.0
NO_LIMITS: Final = Limits(cpu_s=None, address_space=None, file_size=None, processes=None, open_files=None)
"""A job is our own code; what it starts is limited."""


@dataclass(frozen=True)
class JobFailure:
    """A job that ended without a verdict.

    Attributes:
        code: Exit code of the error, None when the process died or exceeded its limit.
        reason, place, remedy: As in `FabricaError`.
    """

    code: int | None
    reason: str
    place: str | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        """The reason with its place, on one line."""
        return f"{self.place}: {self.reason}" if self.place else self.reason


class RunningJob:
    """A started job."""

    def __init__(self, spec: JobSpec, folder: Path) -> None:
        self.spec = spec
        self.folder = Path(tempfile.mkdtemp(prefix="job-", dir=folder))
        self.started = time.monotonic()
        self.limit_s = (spec.budget.wall_s if spec.files is None else 0.0) + SCORING_LIMIT_S
        environment = {
            **os.environ,
            **python_environment(),
            "TMPDIR": str(self.folder),
            TASKS_VARIABLE: str(tasks_root()),
        }
        child = ChildProcess(
            [sys.executable, "-P", "-m", "fabrica_bench.runs.job"],
            workdir=self.folder,
            environment=environment,
            limits=NO_LIMITS,
            interactive=True,
        )
        self.link = Link(child)
        self.link.send(spec.model_dump(mode="json"), self.started + SEND_LIMIT_S)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def close(self) -> None:
        """Kill it with everything it started and remove its folder."""
        self.link.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Workers:
    """A fixed number of job slots.

    Args:
        slots: Jobs that run at the same time.
        seeds: Gives the held-out seeds of a task, asked for once its agent has ended.
        on_start: Called when a job starts.
        on_message: Called with each message of a job except `sealed` and `failed`.
        on_failure: Called when a job ends without a verdict; may submit it again.
    """

    def __init__(
        self,
        slots: int,
        *,
        seeds: Callable[[str], Iterable[int]],
        on_start: Callable[[RunningJob], None],
        on_message: Callable[[RunningJob, dict[str, Any]], None],
        on_failure: Callable[[RunningJob, JobFailure], None],
    ) -> None:
        self._slots = slots
        self._seeds = seeds
        self._on_start = on_start
        self._on_message = on_message
        self._on_failure = on_failure
        self._waiting: deque[JobSpec] = deque()
        self._running: list[RunningJob] = []
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="fabrica-run-"))
        except OSError as error:
            raise from_os_error(error) from error

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for job in self._running:
            job.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def submit(self, spec: JobSpec) -> None:
        """Add a job to the queue. Its clock starts when it does."""
        self._waiting.append(spec)

    def run(self) -> None:
        """Work until every submitted job has ended."""
        while self._waiting or self._running:
            while self._waiting and len(self._running) < self._slots:
                self._start(self._waiting.popleft())
            self._wait()
            for job in list(self._running):
                self._serve(job)

    def _start(self, spec: JobSpec) -> None:
        try:
            job = RunningJob(spec, self._folder)
        except OSError as error:
            raise from_os_error(error) from error
        self._running.append(job)
        self._on_start(job)

    def _wait(self) -> None:
        descriptors = [fd for job in self._running for fd in job.link.descriptors()]
        if descriptors:
            select.select(descriptors, [], [], 0.25)
        else:
            time.sleep(0.01)

    def _serve(self, job: RunningJob) -> None:
        try:
            while (message := job.link.poll()) is not None:
                if self._handle(job, message):
                    self._end(job)
                    return
            if job.link.ended:
                raise LinkFailure(job.link.ending())
        except LinkFailure as failure:
            self._end(job)
            self._on_failure(job, JobFailure(None, str(failure)))
            return
        if job.seconds > job.limit_s:
            self._end(job)
            reason = (
                f"wall limit of {job.limit_s:g} s exceeded after {job.seconds:.0f} s; all its processes were killed"
            )
            self._on_failure(job, JobFailure(None, reason))

    def _handle(self, job: RunningJob, message: dict[str, Any]) -> bool:
        """Act on one message; True when the job is done."""
        kind = message["type"]
        if kind == "sealed":
            seeds = [str(seed) for seed in self._seeds(job.spec.task)]
            job.link.send({"type": "seeds", "seeds": seeds}, time.monotonic() + SEND_LIMIT_S)
            return False
        if kind == "failed":
            self._end(job)
            failure = JobFailure(
                message.get("code"), str(message["reason"]), message.get("place"), message.get("remedy")
            )
            self._on_failure(job, failure)
            return True
        self._on_message(job, message)
        return bool(kind == "verdict")

    def _end(self, job: RunningJob) -> None:
        if job in self._running:
            self._running.remove(job)
            job.close()
