"""`verify_run`: score the stored candidates of a run again and compare the verdicts byte for byte."""

from __future__ import annotations

import json
import random
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabrica_bench.errors import ExitCode, FabricaError, UnknownNameError
from fabrica_bench.plugins import Budget
from fabrica_bench.runs.events import EventKind, Progress, RunEvent, no_progress
from fabrica_bench.runs.execution import make_executor
from fabrica_bench.runs.job import JobSpec
from fabrica_bench.runs.keys import find_key
from fabrica_bench.runs.opening import environment_versions
from fabrica_bench.runs.manifest import Manifest, config_difference, task_difference
from fabrica_bench.runs.records import CandidateRecord, VerdictRecord
from fabrica_bench.runs.store import RunStore
from fabrica_bench.runs.workers import JobFailure, RunningJob, Workers
from fabrica_bench.scoring.inputs import held_out_seeds
from fabrica_bench.scoring.staging import task_digest
from fabrica_bench.scoring.verdict import NotScored, Valid, outcome_text, parse_verdict, verdict_bytes
from fabrica_bench.tasks import load_task
from fabrica_bench.tasks.seeds import HeldOutKey
from fabrica_bench.toolchains import get_toolchain


@dataclass(frozen=True)
class VerifiedRow:
    """One attempt. `same` is None when there was nothing to execute again; `detail` says why, or what differs."""

    task: str
    attempt: int
    same: bool | None
    detail: str


@dataclass(frozen=True)
class VerifyReport:
    """Outcome of a verification.

    Attributes:
        rows: Every recorded attempt.
        conditions: Differences between the run's conditions and today's, one per line. With any, verdicts may differ
            for that reason alone.
        partial: The run itself has attempts without a verdict.
    """

    run_dir: Path
    rows: tuple[VerifiedRow, ...]
    conditions: tuple[str, ...]
    partial: bool

    @property
    def checked(self) -> int:
        return sum(row.same is not None for row in self.rows)

    @property
    def different(self) -> int:
        return sum(row.same is False for row in self.rows)

    @property
    def ok(self) -> bool:
        """Something was executed again, and every verdict came out the same."""
        return self.checked > 0 and self.different == 0

    def to_json(self) -> dict[str, Any]:
        """JSON values for `--json` output."""
        return {
            "run_dir": str(self.run_dir),
            "ok": self.ok,
            "checked": self.checked,
            "different": self.different,
            "partial": self.partial,
            "conditions": list(self.conditions),
            "rows": [
                {"task": row.task, "attempt": row.attempt, "same": row.same, "detail": row.detail} for row in self.rows
            ],
        }


def verify_run(
    run_dir: Path,
    *,
    only: Collection[str] | None = None,
    jobs: int = 2,
    key_file: Path | None = None,
    tasks_dir: Path | None = None,
    sample: int | None = None,
    sample_seed: int = 0,
    cluster: str | None = None,
    key: HeldOutKey | None = None,
    fresh: bool = False,
    progress: Progress = no_progress,
) -> VerifyReport:
    """Execute stored candidates of a run again, with nothing taken from a cache.

    Args:
        run_dir: The run folder; it is only read.
        only: Names of the tasks to verify; None for all.
        jobs: Candidates scored at the same time.
        key_file: The run's held-out key, when it isn't in the state folder.
        tasks_dir: Folder of the tasks; None for the one that the run names.
        sample: Verify only so many of the attempts that can be executed; None for all.
        sample_seed: Which ones: the same seed draws the same.
        cluster: As in `RunConfig`.
        key: The held-out key itself, instead of a file.
        fresh: The key is not the run's: other inputs give other cycles, so only whether a verdict is valid is compared,
            and only what was valid is executed.
        progress: Told what happens.

    Raises:
        FabricaError: There is no run, its key is missing, `only` names a task that isn't in it, or the machine failed.
    """
    store = RunStore.open(run_dir)
    manifest = store.manifest
    seeds_key = key or find_key(manifest.key_fingerprint, key_file)
    records = store.records()
    root = tasks_dir if tasks_dir is not None else Path(manifest.tasks_dir) if manifest.tasks_dir else None
    unknown = set(only or ()) - set(manifest.config["tasks"])
    if unknown:
        raise UnknownNameError("task in this run", min(unknown), manifest.config["tasks"])
    verdicts = {
        (r.task, r.attempt): r for r in records if isinstance(r, VerdictRecord) and (only is None or r.task in only)
    }
    candidates = {(r.task, r.attempt): r for r in records if isinstance(r, CandidateRecord)}
    rows: dict[tuple[str, int], VerifiedRow] = {}
    executable = [
        job
        for job, r in verdicts.items()
        if manifest.has_attempt(*job) and job in candidates and not isinstance(r.verdict, NotScored) and not (r.screened and not r.valid)
    ]
    if fresh:
        executable = [job for job in executable if isinstance(verdicts[job].verdict, Valid)]
    chosen = set(executable)
    if sample is not None and sample < len(executable):
        chosen = set(random.Random(sample_seed).sample(executable, sample))

    def finish(job: RunningJob, same: bool, detail: str) -> None:
        rows[job.spec.task, job.spec.attempt] = VerifiedRow(job.spec.task, job.spec.attempt, same, detail)
        progress(RunEvent(EventKind.JOB_FINISHED, detail, job.spec.task, job.spec.attempt))

    def on_message(job: RunningJob, message: dict[str, Any]) -> None:
        if message["type"] == "verdict":
            old = verdicts[job.spec.task, job.spec.attempt]
            new = parse_verdict(json.dumps(message["verdict"]))
            finish(job, *(_compare_validity(old, new) if fresh else _compare(old, new)))

    def on_failure(job: RunningJob, failure: JobFailure) -> None:
        if failure.code == ExitCode.ENVIRONMENT:
            raise FabricaError(failure.reason, place=failure.place, remedy=failure.remedy, code=ExitCode.ENVIRONMENT)
        finish(job, False, f"can't be scored now: {failure}")

    def on_start(job: RunningJob) -> None:
        data = {"limit_s": job.limit_s}
        progress(RunEvent(EventKind.JOB_STARTED, "started", job.spec.task, job.spec.attempt, data))

    with Workers(
        jobs,
        seeds=lambda name: held_out_seeds(load_task(name, root), seeds_key),
        on_start=on_start,
        on_message=on_message,
        on_failure=on_failure,
        executor=make_executor(cluster),
    ) as workers:
        for job, record in verdicts.items():
            if not manifest.has_attempt(*job):
                rows[job] = VerifiedRow(*job, False, "the run makes no such attempt")
                continue
            if isinstance(record.verdict, NotScored):
                rows[job] = VerifiedRow(*job, None, f"nothing to execute: {outcome_text(record.verdict)}")
                continue
            candidate = candidates.get(job)
            if candidate is None:  # every verdict on a candidate rests on one that was recorded before
                detail = f"the run holds no candidate for this: {outcome_text(record.verdict)}"
                rows[job] = VerifiedRow(*job, False, detail)
                continue
            if record.screened and not record.valid:
                rows[job] = VerifiedRow(*job, None, f"rests on what the agent held: {outcome_text(record.verdict)}")
                continue
            if job not in chosen:
                rows[job] = VerifiedRow(*job, None, "was not valid" if fresh else "not in the sample")
                continue
            files = {name: store.get_text(digest) for name, digest in candidate.files.items()}
            workers.submit(_spec(manifest, job, files, root))
        progress(_opening(store, len(verdicts), len(rows), jobs))
        workers.run()
    total = len(manifest.config["tasks"] if only is None else set(only)) * manifest.config["repeat"]
    return VerifyReport(
        run_dir,
        tuple(rows[job] for job in verdicts),
        tuple(_conditions(store, root)),
        partial=sum(manifest.has_attempt(*job) for job in verdicts) < total,
    )


def _opening(store: RunStore, total: int, skipped: int, jobs: int) -> RunEvent:
    config = store.manifest.config
    data = {
        "agent": config["agent"],
        "total": total,
        "finished": skipped,
        "jobs": jobs,
        "toolchain": config["toolchain"],
        "run_dir": str(store.run_dir),
    }
    return RunEvent(EventKind.VERIFY_STARTED, f"verifying {total - skipped} of {total} attempts", data=data)


def _compare_validity(old: VerdictRecord, new: Any) -> tuple[bool, str]:
    same = isinstance(old.verdict, Valid) == isinstance(new, Valid)
    return same, f"{'same' if same else 'was valid'}: {outcome_text(new)}"


def _compare(old: VerdictRecord, new: Any) -> tuple[bool, str]:
    if verdict_bytes(new) == verdict_bytes(old.verdict):
        return True, f"same: {outcome_text(new)}"
    before, after = outcome_text(old.verdict), outcome_text(new)
    if before != after:
        return False, f"was {before!r}, is {after!r}"
    ours, theirs = old.verdict.model_dump(mode="json"), new.model_dump(mode="json")
    return False, f"differs in {', '.join(name for name in ours if ours[name] != theirs.get(name))}"


def _spec(manifest: Manifest, job: tuple[str, int], files: dict[str, str], root: Path | None) -> JobSpec:
    config = manifest.config
    return JobSpec(
        agent=config["agent"],
        model=manifest.model,
        control=manifest.control,
        task=job[0],
        attempt=job[1],
        toolchain=config["toolchain"],
        arch=config["arch"],
        size=config["size"],
        workflow=config["workflow"],
        budget=Budget.model_validate(config["budget"]),
        tasks_dir=None if root is None else str(root.absolute()),
        files=files,
    )


def _conditions(store: RunStore, root: Path | None) -> list[str]:
    manifest = store.manifest
    today = {name: task_digest(load_task(name, root)) for name in manifest.tasks}
    return [
        *config_difference(dict(manifest.versions), environment_versions()),
        *config_difference(dict(manifest.toolchain), get_toolchain(manifest.config["toolchain"]).describe()),
        *task_difference(manifest.tasks, today),
    ]
