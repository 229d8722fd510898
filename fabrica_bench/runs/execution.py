"""`execute_run`: one agent over some tasks, recorded as it goes and continued where it stopped."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.firewall.bundle import editable_files
from fabrica_bench.runs.agent_process import agent_isolation, describe_agent
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.events import EventKind, Progress, RunEvent, no_progress
from fabrica_bench.runs.job import JobSpec
from fabrica_bench.runs.keys import find_key, fresh_key
from fabrica_bench.runs.manifest import Manifest, config_difference, task_difference
from fabrica_bench.runs.records import (
    AgentEvent,
    AnyRecord,
    CandidateRecord,
    Evaluation,
    JobFailed,
    JobStarted,
    SessionEnded,
    SessionStarted,
    VerdictRecord,
    utc_now,
)
from fabrica_bench.runs.store import MANIFEST_NAME, RunStore
from fabrica_bench.runs.summary import RunSummary, summarize
from fabrica_bench.runs.workers import JobFailure, RunningJob, Workers
from fabrica_bench.scoring.inputs import held_out_seeds
from fabrica_bench.scoring.staging import task_digest
from fabrica_bench.scoring.verdict import Blame, NotScored, outcome_text, parse_verdict
from fabrica_bench.tasks import Task, load_task
from fabrica_bench.tasks.seeds import HeldOutKey, commitment
from fabrica_bench.toolchains import get_toolchain
from fabrica_bench.version import SUITE_VERSION, __version__

MIN_FREE_BYTES: Final = 64 << 20
"""Free space at the start, for records and for temporary files; less would end in a failure half-way."""

ATTEMPTS_PER_JOB: Final = 2
"""How often a job is tried when it fails through no fault of agent or candidate."""


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
    tasks = [load_task(name) for name in config.tasks]
    config = config.model_copy(update={"tasks": tuple(task.name for task in tasks)})
    _check(config, tasks)
    store, key = _open(config, tasks)
    with store:
        return _Session(config, tasks, store, key, progress).run()


def finished_jobs(records: list[AnyRecord]) -> set[tuple[str, int]]:
    """(task, attempt) of every job that needn't be done again: the last verdict blames neither machine nor harness."""
    last = {(record.task, record.attempt): record for record in records if isinstance(record, VerdictRecord)}
    return {
        job
        for job, record in last.items()
        if not (isinstance(record.verdict, NotScored) and record.verdict.blame is not Blame.AGENT)
    }


def environment_versions() -> dict[str, str]:
    """Versions that a result may depend on."""
    return {
        "fabrica-bench": __version__,
        "suite": SUITE_VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": f"{sys.platform} {platform.machine()}",
    }


# ------------------------------------------------------------------------------------------------- opening


def _check(config: RunConfig, tasks: list[Task]) -> None:
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise FabricaError(f"task {name} is named twice", place="--filter", code=ExitCode.USAGE)
    for task in tasks:
        task.size(config.size)
        editable_files(task, config.workflow)
        if config.arch not in task.spec.bundle.archs:
            raise FabricaError(
                f"task {task.name} has no reference for {config.arch}",
                place=str(task.root / "spec.yaml"),
                remedy=f"use --arch {' or '.join(task.spec.bundle.archs)}",
                code=ExitCode.USAGE,
            )


def _open(config: RunConfig, tasks: list[Task]) -> tuple[RunStore, HeldOutKey]:
    if (config.out / MANIFEST_NAME).exists():
        store = RunStore.resume(config.out)
        try:
            _require_same(store, config, tasks)
            return store, find_key(store.manifest.key_fingerprint, config.key_file)
        except BaseException:
            store.close()
            raise
    if config.out.exists() and not config.out.is_dir():
        raise FabricaError("not a folder", place=str(config.out), remedy="choose another one with --out")
    if config.out.is_dir() and any(config.out.iterdir()) and not (config.out / "lock").exists():
        raise FabricaError(
            "the folder is not empty and holds no run",
            place=str(config.out),
            remedy="choose another one with --out",
            code=ExitCode.USAGE,
        )
    parent = _existing_parent(config.out)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise FabricaError(
            "the run folder can't be made: no permission to write here",
            place=str(parent),
            remedy="choose another place with --out DIR",
            code=ExitCode.ENVIRONMENT,
        )
    _require_space(parent)
    agent = describe_agent(config.agent)
    toolchain = get_toolchain(config.toolchain)
    key = HeldOutKey.from_file(config.key_file) if config.key_file is not None else fresh_key()
    manifest = Manifest(
        run_id=f"{utc_now()[:19].replace(':', '').replace('-', '')}-{secrets.token_hex(3)}",
        created=utc_now(),
        config=config.frozen(),
        model=agent.model,
        control=agent.control,
        versions=environment_versions(),
        toolchain=toolchain.describe(),
        isolation={"agent": agent_isolation(), "toolchain": toolchain.isolation()},
        key_fingerprint=key.fingerprint,
        commitments={task.name: tuple(commitment(seed) for seed in held_out_seeds(task, key)) for task in tasks},
        tasks={task.name: task_digest(task) for task in tasks},
    )
    return RunStore.create(config.out, manifest), key


def _require_same(store: RunStore, config: RunConfig, tasks: list[Task]) -> None:
    """Refuse to mix results of different configurations, tasks or versions in one run."""
    old = store.manifest
    differences = config_difference(old.config, config.frozen())
    differences += task_difference(old.tasks, {task.name: task_digest(task) for task in tasks})
    differences += config_difference(dict(old.toolchain), get_toolchain(config.toolchain).describe())
    differences += config_difference(dict(old.versions), environment_versions())
    if differences:
        raise FabricaError(
            f"the run in this folder was made under other conditions: {'; '.join(differences)}",
            place=str(store.run_dir),
            remedy="give the same options to continue it, or choose another --out",
            code=ExitCode.USAGE,
        )


def _existing_parent(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _require_space(*folders: Path) -> None:
    for folder in [*folders, Path(tempfile.gettempdir())]:
        free = shutil.disk_usage(folder).free
        if free < MIN_FREE_BYTES:
            raise FabricaError(
                f"no space left to start: {free >> 20} MiB free, {MIN_FREE_BYTES >> 20} MiB needed",
                place=str(folder),
                remedy="free some space, choose another --out, or set TMPDIR",
                code=ExitCode.ENVIRONMENT,
            )


# ------------------------------------------------------------------------------------------------- working


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
        self._done = finished_jobs(store.records())
        self._begin = time.monotonic()
        self._workers: Workers | None = None

    @property
    def _total(self) -> int:
        return len(self._tasks) * self._config.repeat

    def run(self) -> RunSummary:
        owed = [
            (name, attempt)
            for name in self._tasks
            for attempt in range(1, self._config.repeat + 1)
            if (name, attempt) not in self._done
        ]
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
        self._store.append(SessionEnded(reason="finished"))
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
        ) as workers:
            self._workers = workers
            for name, attempt in owed:
                workers.submit(self._spec(name, attempt))
            workers.run()

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
        )

    # ---------------------------------------------------------------------------------------- callbacks

    def _on_start(self, job: RunningJob) -> None:
        spec = job.spec
        self._tries[spec.task, spec.attempt] = self._tries.get((spec.task, spec.attempt), 0) + 1
        self._store.append(JobStarted(task=spec.task, attempt=spec.attempt))
        self._tell(job, EventKind.JOB_STARTED, "started", {"limit_s": job.limit_s})

    def _on_message(self, job: RunningJob, message: dict[str, Any]) -> None:
        task, attempt = job.spec.task, job.spec.attempt
        match message["type"]:
            case "progress":
                self._tell(job, EventKind.JOB_PROGRESS, message["text"], {"stage": message["stage"]})
            case "agent_event":
                event = AgentEvent(task=task, attempt=attempt, event=message["event"], data=message["data"])
                self._store.append(event)
            case "evaluation":
                self._on_evaluation(job, message)
            case "candidate":
                record = CandidateRecord(
                    task=task,
                    attempt=attempt,
                    model=message["model"],
                    notes=tuple(message["notes"]),
                    files=self._put(message["files"]),
                    seconds=message["seconds"],
                )
                self._store.append(record)
            case "verdict":
                self._on_verdict(job, message)

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
        import json

        spec = job.spec
        record = VerdictRecord(
            task=spec.task,
            level=self._tasks[spec.task].spec.level,
            attempt=spec.attempt,
            verdict=parse_verdict(json.dumps(message["verdict"])),
            key=message["key"],
            candidate=message["candidate"],
            model=message["model"],
            evaluations=message["evaluations"],
            commitments=tuple(message["commitments"]),
            reference_share=message["reference_share"],
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
        return f"agent {self._config.agent} ({manifest.model}) on {owed} tasks{kept}"

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
