"""What a run tells while it goes on, for progress displays and event streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class EventKind(StrEnum):
    """Kinds of event, in the order in which a run shows them."""

    RUN_STARTED = "run_started"
    """data: run_dir, agent, total, finished (taken over from an earlier session), jobs, toolchain."""
    VERIFY_STARTED = "verify_started"
    """data: as for `RUN_STARTED`; finished counts the attempts that have nothing to execute."""
    JOB_STARTED = "job_started"
    """data: limit_s, the wall limit of the job."""
    JOB_PROGRESS = "job_progress"
    """text says what the job does now; data: stage (`agent`, `evaluation`, `reference`, `score`)."""
    JOB_FINISHED = "job_finished"
    """data: verdict (JSON of the verdict), seconds, model."""
    RUN_FINISHED = "run_finished"
    """data: valid, total, seconds."""


@dataclass(frozen=True)
class RunEvent:
    """One event. `task` is None for events of the run itself; `attempt` counts from 1."""

    kind: EventKind
    text: str
    task: str | None = None
    attempt: int = 1
    data: Mapping[str, object] = field(default_factory=dict)


Progress = Callable[[RunEvent], None]


def no_progress(event: RunEvent) -> None:
    """Discard the event."""
