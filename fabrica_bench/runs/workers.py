"""Runs jobs side by side, each in a process of its own with its own deadline."""

from __future__ import annotations

import os
import select
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

from fabrica_bench.errors import from_os_error
from fabrica_bench.runs.cache import EvaluationCache
from fabrica_bench.runs.job import JobSpec
from fabrica_bench.runs.link import Link, LinkFailure
from fabrica_bench.tasks import TASKS_VARIABLE, tasks_root
from fabrica_bench.toolchains.folders import remove_folder
from fabrica_bench.toolchains.processes import ChildProcess, Limits, python_environment

SCORING_LIMIT_S: Final = 1800.0
"""Wall-clock backstop of scoring one candidate, beyond the agent's own budget."""

PLACING_LIMIT_S: Final = 3600.0
"""How long a job may wait for a machine of a cluster."""

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


class JobLink(Protocol):
    """JSON messages to and from a job, wherever it runs. `LinkFailure` tells that it is gone."""

    def descriptors(self) -> list[int]:
        """What to wait on for new messages."""
        ...

    def send(self, message: Mapping[str, Any], deadline: float) -> None:
        """Write one message."""
        ...

    def poll(self) -> dict[str, Any] | None:
        """The next message that has arrived."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing more can arrive."""
        ...

    def ending(self) -> str:
        """How it ended, for people."""
        ...

    def close(self) -> None:
        """End the job with everything it started, and free what it held."""
        ...


class RunningJob:
    """A started job. Its clock starts with it, or for a job placed elsewhere when it begins there."""

    def __init__(self, spec: JobSpec, link: JobLink, *, waiting: bool = False) -> None:
        self.spec = spec
        self.link = link
        self.limit_s = (spec.budget.wall_s if spec.files is None else 0.0) + SCORING_LIMIT_S
        self.placed = time.monotonic()
        self.started: float | None = None if waiting else self.placed

    @property
    def seconds(self) -> float:
        """Wall-clock time since its start; 0 before."""
        return 0.0 if self.started is None else time.monotonic() - self.started

    @property
    def overdue(self) -> str | None:
        """Which limit it exceeds; None when it is within."""
        if self.started is None:
            waited = time.monotonic() - self.placed
            return f"no worker took it within {PLACING_LIMIT_S:g} s" if waited > PLACING_LIMIT_S else None
        if self.seconds <= self.limit_s:
            return None
        return f"wall limit of {self.limit_s:g} s exceeded after {self.seconds:.0f} s; all its processes were killed"


class Executor(Protocol):
    """Starts jobs: here, or on other machines."""

    def start(self, spec: JobSpec) -> RunningJob:
        """Start a job, or place it; never waits for it.

        Raises:
            OSError: It can't be started.
        """
        ...

    def close(self) -> None:
        """Free what all jobs shared; called when none runs any more."""
        ...


class LocalExecutor:
    """A process on this machine for each job, in a temporary folder of its own."""

    def __init__(self) -> None:
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="fabrica-run-"))
        except OSError as error:
            raise from_os_error(error) from error

    def start(self, spec: JobSpec) -> RunningJob:
        """See `Executor`."""
        link = ProcessLink(spec, self._folder)
        job = RunningJob(spec, link)
        link.send(spec.model_dump(mode="json"), time.monotonic() + SEND_LIMIT_S)
        return job

    def close(self) -> None:
        """See `Executor`."""
        remove_folder(self._folder)


class ProcessLink(Link):
    """The link to a job's own process, which goes with its folder when it is closed."""

    def __init__(self, spec: JobSpec, parent: Path) -> None:
        self._job_folder = Path(tempfile.mkdtemp(prefix="job-", dir=parent))
        environment = {
            **os.environ,
            **python_environment(),
            "TMPDIR": str(self._job_folder),
            TASKS_VARIABLE: str(spec.tasks_dir or tasks_root()),
        }
        super().__init__(
            ChildProcess(
                [sys.executable, "-P", "-m", "fabrica_bench.runs.job"],
                workdir=self._job_folder,
                environment=environment,
                limits=NO_LIMITS,
                interactive=True,
            )
        )

    def close(self) -> None:
        """Kill the process with everything it started and remove its folder."""
        super().close()
        remove_folder(self._job_folder)


class Workers:
    """A fixed number of job slots.

    Args:
        slots: Jobs that run at the same time.
        seeds: Gives the held-out seeds of a task, asked for once its agent has ended.
        on_start: Called when a job starts.
        on_message: Called with each message of a job that isn't answered here.
        on_failure: Called when a job ends without a verdict; may submit it again.
        board: Evaluations that jobs share; a fresh one by default.
        executor: Starts the jobs; closed with the workers. On this machine by default.
    """

    def __init__(
        self,
        slots: int,
        *,
        seeds: Callable[[str], Iterable[int]],
        on_start: Callable[[RunningJob], None],
        on_message: Callable[[RunningJob, dict[str, Any]], None],
        on_failure: Callable[[RunningJob, JobFailure], None],
        board: EvaluationBoard | None = None,
        executor: Executor | None = None,
    ) -> None:
        self._slots = slots
        self._seeds = seeds
        self._on_start = on_start
        self._on_message = on_message
        self._on_failure = on_failure
        self._board = board or EvaluationBoard(EvaluationCache())
        self._executor = executor or LocalExecutor()
        self._waiting: deque[JobSpec] = deque()
        self._running: list[RunningJob] = []
        self._stopped = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for job in self._running:
            job.link.close()
        self._executor.close()

    def submit(self, spec: JobSpec) -> None:
        """Add a job to the queue. Its clock starts when it does."""
        self._waiting.append(spec)

    def stop(self) -> None:
        """Start no further job; those that run are finished."""
        self._stopped = True

    def run(self) -> None:
        """Work until every submitted job has ended."""
        while self._running or (self._waiting and not self._stopped):
            while self._waiting and len(self._running) < self._slots and not self._stopped:
                self._start(self._waiting.popleft())
            self._wait()
            for job in list(self._running):
                if job in self._running:
                    self._serve(job)

    def _start(self, spec: JobSpec) -> None:
        try:
            job = self._executor.start(spec)
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
        if overdue := job.overdue:
            self._end(job)
            self._on_failure(job, JobFailure(None, overdue))

    def _handle(self, job: RunningJob, message: dict[str, Any]) -> bool:
        """Act on one message; True when the job is done."""
        match message["type"]:
            case "started":
                job.started = time.monotonic()
            case "sealed":
                self._answer(job, {"type": "seeds", "seeds": [str(seed) for seed in self._seeds(job.spec.task)]})
            case "lookup":
                self._board.ask(str(message["key"]), job, self._answer)
            case "measured":
                self._board.tell(str(message["key"]), job, message["evaluation"], self._answer)
            case "failed":
                self._end(job)
                failure = JobFailure(
                    message.get("code"), str(message["reason"]), message.get("place"), message.get("remedy")
                )
                self._on_failure(job, failure)
                return True
            case "verdict":
                self._on_message(job, message)
                return True
            case _:
                self._on_message(job, message)
        return False

    def _answer(self, job: RunningJob, message: Mapping[str, Any]) -> None:
        try:
            job.link.send(message, time.monotonic() + SEND_LIMIT_S)
        except LinkFailure:
            # Found and reported when this job is served next.
            return

    def _end(self, job: RunningJob) -> None:
        if job in self._running:
            self._running.remove(job)
            job.link.close()
            self._board.leave(job, self._answer)


Answer = Callable[[RunningJob, Mapping[str, Any]], None]


class EvaluationBoard:
    """Which evaluations are known, and which job computes one that others wait for.

    A job owns a key from the answer `null` until it tells the result or ends; then the next one that waits gets the
    result, or becomes the owner. A waiting job computes nothing, so two can't wait for each other.

    Args:
        cache: Where results are.
        on_kept: Called with (job, key, evaluation, taken over) for every result that is new to this run.
    """

    def __init__(
        self,
        cache: EvaluationCache,
        on_kept: Callable[[RunningJob, str, Mapping[str, Any], bool], None] = lambda *_: None,
    ) -> None:
        self._cache = cache
        self._on_kept = on_kept
        self._owners: dict[str, RunningJob] = {}
        self._waiting: dict[str, list[RunningJob]] = {}

    def ask(self, key: str, job: RunningJob, answer: Answer) -> None:
        """Answer a job's question, now or when the job that computes it has told."""
        own = self._cache.holds_in_run(key)
        found = self._cache.find(key)
        if found is not None:
            if not own:
                self._on_kept(job, key, found, True)
            answer(job, {"type": "found", "evaluation": found})
        elif self._owners.get(key, job) is not job:  # one that asks again has failed to compute it, and waits for nobody
            self._waiting.setdefault(key, []).append(job)
        else:
            self._owners[key] = job
            answer(job, {"type": "found", "evaluation": None})

    def tell(self, key: str, job: RunningJob, evaluation: Mapping[str, Any], answer: Answer) -> None:
        """Take a result and pass it on."""
        if not self._cache.holds_in_run(key):
            self._cache.keep(key, evaluation)
            self._on_kept(job, key, evaluation, False)
        self._owners.pop(key, None)
        for waiting in self._waiting.pop(key, []):
            answer(waiting, {"type": "found", "evaluation": evaluation})

    def leave(self, job: RunningJob, answer: Answer) -> None:
        """A job has ended: what it owned and didn't tell goes to the next that waits."""
        for waiting in self._waiting.values():
            if job in waiting:
                waiting.remove(job)
        for key in [key for key, owner in self._owners.items() if owner is job]:
            del self._owners[key]
            if self._waiting.get(key):
                heir = self._waiting[key].pop(0)
                self._owners[key] = heir
                answer(heir, {"type": "found", "evaluation": None})
