"""What a report shows, gathered from the manifest, the records and the side files of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fabrica_bench.runs.manifest import Manifest
from fabrica_bench.runs.records import (
    AgentEvent,
    AnyRecord,
    CandidateRecord,
    Evaluation,
    JobFailed,
    JobStarted,
    VerdictRecord,
)
from fabrica_bench.runs.store import RunStore
from fabrica_bench.runs.summary import RunRow, RunSummary, summarize
from fabrica_bench.runs.usage import Usage


@dataclass(frozen=True)
class EvaluationReport:
    """A compile or visible run that the agent asked for, with the text of what it tried."""

    record: Evaluation
    files: Mapping[str, str]
    log: str


@dataclass(frozen=True)
class AttemptReport:
    """One attempt at a task.

    Attributes:
        row: Verdict and numbers, as in the result table.
        files: Text of the final candidate by file name; empty when there was none or it stands for the reference.
        notes: What the agent said about its answer.
        evaluations: In the order in which the agent asked for them.
        events: What the agent logged.
        failures: Earlier ends of this job without a verdict.
        commitments: SHA-256 commitments of the held-out seeds used.
        first_pass: Number of the first visible run that was correct, counting evaluations from 1; None without one.
    """

    row: RunRow
    files: Mapping[str, str]
    notes: Sequence[str]
    evaluations: Sequence[EvaluationReport]
    events: Sequence[AgentEvent]
    failures: Sequence[JobFailed]
    commitments: Sequence[str]
    first_pass: int | None
    usage: Usage = field(default_factory=Usage)
    reference_share: float | None = None


@dataclass(frozen=True)
class RunReport:
    """A whole run."""

    manifest: Manifest
    summary: RunSummary
    attempts: Sequence[AttemptReport]


@dataclass
class _Collected:
    """Records of one job as they are read."""

    evaluations: list[EvaluationReport] = field(default_factory=list)
    events: list[AgentEvent] = field(default_factory=list)
    failures: list[JobFailed] = field(default_factory=list)
    candidate: CandidateRecord | None = None
    verdict: VerdictRecord | None = None


def load_report(run_dir: Path) -> RunReport:
    """Read a run, finished or not.

    Raises:
        FabricaError: The folder holds no run, or a record or side file is damaged.
    """
    store = RunStore.open(run_dir)
    records = store.records()
    summary = summarize(run_dir, store.manifest, records)
    collected = _collect(store, records)
    attempts = [_attempt(store, row, collected.get((row.task, row.attempt), _Collected())) for row in summary.rows]
    return RunReport(store.manifest, summary, attempts)


def _collect(store: RunStore, records: Sequence[AnyRecord]) -> dict[tuple[str, int], _Collected]:
    jobs: dict[tuple[str, int], _Collected] = {}
    for record in records:
        if isinstance(record, JobStarted):
            # What an earlier try left, before a crash, is not part of the attempt that counts.
            job = jobs.setdefault((record.task, record.attempt), _Collected())
            jobs[record.task, record.attempt] = _Collected(failures=job.failures)
        elif isinstance(record, (AgentEvent, Evaluation, CandidateRecord, VerdictRecord, JobFailed)):
            job = jobs.setdefault((record.task, record.attempt), _Collected())
            if isinstance(record, Evaluation):
                log = store.get_text(record.log) if record.log else ""
                job.evaluations.append(EvaluationReport(record, _texts(store, record.files), log))
            elif isinstance(record, AgentEvent):
                job.events.append(record)
            elif isinstance(record, CandidateRecord):
                job.candidate = record
            elif isinstance(record, JobFailed):
                job.failures.append(record)
            else:
                job.verdict = record
    return jobs


def _attempt(store: RunStore, row: RunRow, job: _Collected) -> AttemptReport:
    passes = [
        number
        for number, evaluation in enumerate(job.evaluations, start=1)
        if evaluation.record.action == "run_visible" and evaluation.record.ok
    ]
    return AttemptReport(
        row=row,
        files=_texts(store, job.candidate.files) if job.candidate else {},
        notes=job.candidate.notes if job.candidate else (),
        evaluations=job.evaluations,
        events=job.events,
        failures=job.failures,
        commitments=job.verdict.commitments if job.verdict else (),
        first_pass=passes[0] if passes else None,
        usage=job.verdict.usage if job.verdict else Usage(),
        reference_share=job.verdict.reference_share if job.verdict else None,
    )


def _texts(store: RunStore, files: Mapping[str, str]) -> dict[str, str]:
    return {name: store.get_text(digest) for name, digest in sorted(files.items())}
