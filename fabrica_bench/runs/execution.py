"""`execute_run`: one agent over some tasks, recorded as it goes and continued where it stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.runs.cache import EvaluationCache, shared_folder
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.events import EventKind, Progress, RunEvent, no_progress
from fabrica_bench.runs.job import JobSpec
from fabrica_bench.models.replay import MODEL_CALL
from fabrica_bench.runs.opening import environment_versions, load_tasks, open_run
from fabrica_bench.runs.records import (
    AgentEvent,
    AnyRecord,
    CandidateRecord,
    Evaluation,
    JobFailed,
    JobStarted,
    Measured,
    SessionEnded,
    SessionStarted,
    VerdictRecord,
)
from fabrica_bench.runs.store import RunStore
from fabrica_bench.runs.summary import RunSummary, summarize
from fabrica_bench.runs.usage import Usage
from fabrica_bench.runs.workers import EvaluationBoard, Executor, JobFailure, LocalExecutor, RunningJob, Workers
from fabrica_bench.scoring.inputs import held_out_seeds
from fabrica_bench.scoring.verdict import Blame, NotScored, outcome_text, parse_verdict
from fabrica_bench.tasks import Task
from fabrica_bench.tasks.seeds import HeldOutKey
from fabrica_bench.plugins import USAGE_EVENT

__all__ = ["RunInterrupted", "environment_versions", "execute_run", "finished_jobs", "make_executor"]

ATTEMPTS_PER_JOB: Final = 2
"""How often a job is tried when it fails through no fault of agent or candidate."""

PROVIDER_TRIP: Final = 3
"""The same failure of a model provider this often in a row stops the run."""


class RunInterrupted(FabricaError):
    """Ctrl-C. What was finished is kept in the run folder."""

    def __init__(self, message: str, *, place: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message, place=place, remedy=remedy, code=ExitCode.INTERRUPTED)


def execute_run(config: RunConfig, progress: Progress = no_progress) -> RunSummary:
    """Run, or continue, an agent over tasks.

    The same call continues an interrupted run: finished work is never repeated and never lost.

    Args:
        config: What to do. A run that exists in `config.out` must have been made with the same configuration.
        progress: Told what happens.

    Raises:
        FabricaError: An unknown name, an unusable toolchain, a different run in the folder, no space left, ...
        RunInterrupted: Ctrl-C.
    """
    tasks = load_tasks(config)
    config = config.model_copy(update={"tasks": tuple(task.name for task in tasks)})
    store, key = open_run(config, tasks)
    with store:
        return _Session(config, tasks, store, key, progress).run()


def finished_jobs(records: list[AnyRecord]) -> set[tuple[str, int]]:
    """(task, attempt) of every job that needn't be done again: the last verdict blames neither machine, harness nor provider."""
    last = {(record.task, record.attempt): record for record in records if isinstance(record, VerdictRecord)}
    return {
        job
        for job, record in last.items()
        if not (isinstance(record.verdict, NotScored) and record.verdict.blame is not Blame.AGENT)
    }


def make_executor(cluster: str | None) -> Executor:
    """What starts the jobs: this machine, or a Dask cluster.

    Raises:
        FabricaError: The extra `cluster` isn't installed, or the scheduler doesn't answer.
    """
    if cluster is None:
        return LocalExecutor()
    from fabrica_bench.runs.cluster import DaskExecutor

    return DaskExecutor(cluster)


class _Session:
    """One process's work on a run."""

    def __init__(
        self, config: RunConfig, tasks: list[Task], store: RunStore, key: HeldOutKey, progress: Progress
    ) -> None:
        self._config = config
        self._tasks = {task.name: task for task in tasks}
        self._store = store
        self._key = key
        self._progress = progress
        self._tries: dict[tuple[str, int], int] = {}
        self._provider_failures: list[str] = []
        records = store.records()
        self._done = finished_jobs(records)
        self._cache = EvaluationCache(shared_folder())
        self._cost = 0.0
        for record in records:
            self._remember(record)
        self._begin = time.monotonic()
        self._workers: Workers | None = None
        self._too_dear = False
        self._replayed = _Replayed(config.replay) if config.replay is not None else None

    def _remember(self, record: AnyRecord) -> None:
        """Take over what an earlier session measured and spent."""
        if isinstance(record, Measured):
            self._cache.learn(record.key, record.evaluation)
        elif isinstance(record, AgentEvent):
            self._cost += cost_of(record)

    @property
    def _total(self) -> int:
        return len(self._tasks) * self._config.repeat

    def run(self) -> RunSummary:
        owed = [job for job in self._config.order() if job not in self._done]
        self._store.append(SessionStarted(finished=len(self._done), total=self._total, jobs=self._config.jobs))
        self._say(EventKind.RUN_STARTED, self._opening_text(len(owed)), data=self._opening_data())
        try:
            self._work(owed)
        except KeyboardInterrupt:
            self._end("interrupted", "by a signal")
            raise RunInterrupted(
                f"interrupted: {len(self._done)} of {self._total} results are kept",
                place=str(self._store.run_dir),
                remedy="run the same command with this --out to continue",
            ) from None
        except FabricaError as error:
            self._end("failed", str(error))
            raise
        if self._too_dear:
            self._end("cost", f"{self._cost:.2f} of {self._config.max_cost} US dollars are spent")
        else:
            self._store.append(SessionEnded(reason="finished"))
        self._cache.prune()
        summary = summarize(self._store.run_dir, self._store.manifest, self._store.records())
        seconds = time.monotonic() - self._begin
        self._say(
            EventKind.RUN_FINISHED,
            f"{summary.valid} of {summary.total} valid",
            data={"valid": summary.valid, "total": summary.total, "seconds": seconds},
        )
        return summary

    def _work(self, owed: list[tuple[str, int]]) -> None:
        with Workers(
            self._config.jobs,
            seeds=lambda name: held_out_seeds(self._tasks[name], self._key),
            on_start=self._on_start,
            on_message=self._on_message,
            on_failure=self._on_failure,
            board=EvaluationBoard(self._cache, self._on_measured),
            executor=make_executor(self._config.cluster),
        ) as workers:
            self._workers = workers
            self._watch_cost()
            for name, attempt in owed:
                if self._replayed is not None and not self._replayed.holds(name, attempt):
                    self._record_nothing(name, attempt)
                else:
                    workers.submit(self._spec(name, attempt))
            workers.run()

    def _record_nothing(self, name: str, attempt: int) -> None:
        """The replayed run has no program for this attempt, so there is none to score here either."""
        record = VerdictRecord(
            task=name,
            level=self._tasks[name].spec.level,
            attempt=attempt,
            verdict=NotScored(blame=Blame.AGENT, reason="the replayed run has no candidate for this attempt"),
            key="",
            candidate=None,
            model=self._store.manifest.model,
            evaluations=0,
            commitments=(),
            seconds=0.0,
        )
        self._store.append(record)
        self._done.add((name, attempt))

    def _spec(self, name: str, attempt: int) -> JobSpec:
        config, manifest = self._config, self._store.manifest
        return JobSpec(
            agent=config.agent,
            model=manifest.model,
            control=manifest.control,
            task=name,
            attempt=attempt,
            toolchain=config.toolchain,
            arch=config.arch,
            size=config.size,
            workflow=config.workflow,
            budget=config.budget,
            agent_options=config.options,
            agent_seed=config.agent_seed(name, attempt),
            tasks_dir=None if config.tasks_dir is None else str(config.tasks_dir.absolute()),
            digest=manifest.tasks[name],
            files=None if self._replayed is None else self._replayed.files(name, attempt),
            provider=config.model,
            requests_per_minute=config.requests_per_minute and config.requests_per_minute / config.jobs,
            beside=config.jobs if config.cluster is None else None,
        )

    # ---------------------------------------------------------------------------------------- callbacks

    def _on_start(self, job: RunningJob) -> None:
        spec = job.spec
        self._tries[spec.task, spec.attempt] = self._tries.get((spec.task, spec.attempt), 0) + 1
        self._store.append(JobStarted(task=spec.task, attempt=spec.attempt))
        if spec.files is not None and self._replayed is not None:
            self._replayed.pass_on(self._store, spec.task, spec.attempt)
        self._tell(job, EventKind.JOB_STARTED, "started", {"limit_s": job.limit_s})

    def _on_message(self, job: RunningJob, message: dict[str, Any]) -> None:
        task, attempt = job.spec.task, job.spec.attempt
        match message["type"]:
            case "progress":
                self._tell(job, EventKind.JOB_PROGRESS, message["text"], {"stage": message["stage"]})
            case "agent_event":
                event = AgentEvent(task=task, attempt=attempt, event=message["event"], data=message["data"])
                self._store.append(event)
                self._remember(event)
                self._watch_cost()
            case "evaluation":
                self._on_evaluation(job, message)
            case "candidate":
                record = CandidateRecord(
                    task=task,
                    attempt=attempt,
                    model=message["model"],
                    notes=tuple(message["notes"]),
                    files=self._put(message["files"]),
                    isolation=dict(message["isolation"]),
                    seconds=message["seconds"],
                )
                self._store.append(record)
            case "verdict":
                self._on_verdict(job, message)

    def _on_measured(self, job: RunningJob, key: str, evaluation: Mapping[str, Any], taken_over: bool) -> None:
        record = Measured(
            task=job.spec.task,
            attempt=job.spec.attempt,
            key=key,
            evaluation=dict(evaluation),
            taken_over=taken_over,
        )
        self._store.append(record)

    def _watch_cost(self) -> None:
        """Start nothing more once the limit is reached; what runs is finished, so that no paid work is lost."""
        limit = self._config.max_cost
        if limit is not None and self._cost >= limit and self._workers is not None:
            self._too_dear = True
            self._workers.stop()

    def _on_evaluation(self, job: RunningJob, message: dict[str, Any]) -> None:
        log = message["log"]
        record = Evaluation(
            task=job.spec.task,
            attempt=job.spec.attempt,
            index=message["index"],
            action=message["action"],
            ok=message["ok"],
            outcome=message["outcome"],
            cycles=message["cycles"],
            diagnostics=tuple(message["diagnostics"]),
            log=self._store.put_text(log) if log else None,
            files=self._put(message["files"]),
            seconds=message["seconds"],
        )
        self._store.append(record)
        first = record.outcome.splitlines()[0] if record.outcome else ""
        text = f"evaluation {record.index}: {record.action}: {first}"
        self._tell(job, EventKind.JOB_PROGRESS, text, {"stage": "evaluation"})

    def _on_verdict(self, job: RunningJob, message: dict[str, Any]) -> None:
        spec = job.spec
        verdict = parse_verdict(json.dumps(message["verdict"]))
        if isinstance(verdict, NotScored) and verdict.blame is Blame.PROVIDER:
            if self._provider_failed(job, verdict):
                return
        else:
            self._provider_failures.clear()
        record = VerdictRecord(
            task=spec.task,
            level=self._tasks[spec.task].spec.level,
            attempt=spec.attempt,
            verdict=verdict,
            key=message["key"],
            candidate=message["candidate"],
            model=message["model"],
            evaluations=message["evaluations"],
            usage=Usage.model_validate(message["usage"]),
            commitments=tuple(message["commitments"]),
            reference_share=message["reference_share"],
            screened=message["screened"],
            seconds=job.seconds,
        )
        self._finish(job, record)

    def _on_failure(self, job: RunningJob, failure: JobFailure) -> None:
        spec = job.spec
        blame: Any = "machine" if failure.code == ExitCode.ENVIRONMENT else "harness"
        self._store.append(JobFailed(task=spec.task, attempt=spec.attempt, blame=blame, reason=str(failure)))
        if failure.code == ExitCode.ENVIRONMENT:
            # Every other job would meet the same: stop with one message, and owe the rest.
            raise FabricaError(failure.reason, place=failure.place, remedy=failure.remedy, code=ExitCode.ENVIRONMENT)
        tries = self._tries[spec.task, spec.attempt]
        if tries < ATTEMPTS_PER_JOB and failure.code is None:
            assert self._workers is not None
            self._tell(job, EventKind.JOB_PROGRESS, f"{failure}; trying again", {"stage": "retry"})
            self._workers.submit(spec)
            return
        record = VerdictRecord(
            task=spec.task,
            level=self._tasks[spec.task].spec.level,
            attempt=spec.attempt,
            verdict=NotScored(blame=Blame.HARNESS, reason=str(failure)),
            key="",
            candidate=None,
            model=spec.model,
            evaluations=0,
            commitments=(),
            seconds=job.seconds,
        )
        self._finish(job, record)

    # ------------------------------------------------------------------------------------------ helpers

    def _provider_failed(self, job: RunningJob, verdict: NotScored) -> bool:
        """Account for a provider's failure; True when the attempt is made again.

        Raises:
            FabricaError: The same failure happened `PROVIDER_TRIP` times in a row: the rest would fail like it.
        """
        spec = job.spec
        self._provider_failures.append(verdict.reason)
        last = self._provider_failures[-PROVIDER_TRIP:]
        if len(last) == PROVIDER_TRIP and len(set(last)) == 1:
            self._store.append(
                JobFailed(task=spec.task, attempt=spec.attempt, blame="provider", reason=verdict.reason)
            )
            raise FabricaError(
                f"{verdict.reason}, {PROVIDER_TRIP} times in a row: the run is stopped",
                remedy="see to the provider, then run the same command with this --out to continue",
                code=ExitCode.ENVIRONMENT,
            )
        if self._tries[spec.task, spec.attempt] >= ATTEMPTS_PER_JOB:
            return False
        self._store.append(JobFailed(task=spec.task, attempt=spec.attempt, blame="provider", reason=verdict.reason))
        assert self._workers is not None
        self._tell(job, EventKind.JOB_PROGRESS, f"{verdict.reason}; trying again", {"stage": "retry"})
        self._workers.submit(spec)
        return True

    def _finish(self, job: RunningJob, record: VerdictRecord) -> None:
        self._store.append(record)
        self._done.add((record.task, record.attempt))
        data = {"verdict": record.verdict.model_dump(mode="json"), "seconds": record.seconds, "model": record.model}
        self._tell(job, EventKind.JOB_FINISHED, outcome_text(record.verdict), data)

    def _put(self, files: dict[str, str]) -> dict[str, str]:
        return {name: self._store.put_text(text) for name, text in files.items()}

    def _end(self, reason: Any, detail: str) -> None:
        try:
            self._store.append(SessionEnded(reason=reason, detail=detail))
        except FabricaError:
            # No space for the note either; the records before it say enough.
            return

    def _tell(self, job: RunningJob, kind: EventKind, text: str, data: dict[str, object]) -> None:
        self._progress(RunEvent(kind, text, job.spec.task, job.spec.attempt, data))

    def _say(self, kind: EventKind, text: str, data: dict[str, object]) -> None:
        self._progress(RunEvent(kind, text, data=data))

    def _opening_text(self, owed: int) -> str:
        manifest = self._store.manifest
        kept = f", {len(self._done)} already finished" if self._done else ""
        return f"agent {self._config.agent} ({manifest.model}) on {owed} attempts{kept}"

    def _opening_data(self) -> dict[str, object]:
        return {
            "run_dir": str(self._store.run_dir),
            "agent": self._config.agent,
            "model": self._store.manifest.model,
            "total": self._total,
            "finished": len(self._done),
            "jobs": self._config.jobs,
            "toolchain": self._store.manifest.toolchain,
        }


def cost_of(event: AgentEvent) -> float:
    """US dollars that an event stands for: a model call through the harness, or one that the agent accounts for."""
    if event.event == MODEL_CALL:
        reply = event.data.get("reply")
        return Usage().plus(reply if isinstance(reply, dict) else {}).cost_usd or 0.0
    return (Usage().plus(event.data).cost_usd or 0.0) if event.event == USAGE_EVENT else 0.0


class _Replayed:
    """The candidates of a finished run."""

    def __init__(self, run_dir: Path) -> None:
        self._store = RunStore.open(run_dir)
        records = self._store.records()
        self._candidates = {(r.task, r.attempt): r for r in records if isinstance(r, CandidateRecord)}

    def holds(self, task: str, attempt: int) -> bool:
        """Whether there is a candidate for the attempt."""
        return (task, attempt) in self._candidates

    def files(self, task: str, attempt: int) -> dict[str, str]:
        """Its files."""
        files = self._candidates[task, attempt].files
        return {name: self._store.get_text(digest) for name, digest in files.items()}

    def pass_on(self, store: RunStore, task: str, attempt: int) -> None:
        """Record the candidate in the run that replays it, so that it can be shown and verified there."""
        record = self._candidates[task, attempt]
        for text in self.files(task, attempt).values():
            store.put_text(text)
        store.append(record)
