"""The records of a run: one JSON object per line, told apart by `record`. They are only ever appended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fabrica_bench.runs.usage import Usage
from fabrica_bench.scoring.verdict import Valid, Verdict


def utc_now() -> str:
    """Current time, UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    time: str = Field(default_factory=utc_now)


class SessionStarted(_Record):
    """A process began to work on the run; `finished` jobs were already done."""

    record: Literal["session_started"] = "session_started"
    finished: int
    total: int
    jobs: int


class JobStarted(_Record):
    """An attempt at a task began."""

    record: Literal["job_started"] = "job_started"
    task: str
    attempt: int


class AgentEvent(_Record):
    """Something that the agent logged: a prompt, a decision, a note."""

    record: Literal["agent_event"] = "agent_event"
    task: str
    attempt: int
    event: str
    data: dict[str, Any]


class Evaluation(_Record):
    """A compile, visible run or profile that the agent asked for.

    `files` are SHA-256 digests of side files (see `RunStore.blob`); `cycles` exist only when it was valid on the
    visible inputs.
    """

    record: Literal["evaluation"] = "evaluation"
    task: str
    attempt: int
    index: int
    action: Literal["compile", "run_visible", "profile"]
    ok: bool
    outcome: str
    cycles: int | None = None
    diagnostics: tuple[str, ...] = ()
    log: str | None = None
    files: dict[str, str]
    seconds: float


class CandidateRecord(_Record):
    """The agent's final answer; `files` are digests of side files.

    `isolation` says what confined the agent, on the machine where it worked.
    """

    record: Literal["candidate"] = "candidate"
    task: str
    attempt: int
    model: str
    notes: tuple[str, ...]
    files: dict[str, str]
    isolation: dict[str, str] = {}
    seconds: float


class VerdictRecord(_Record):
    """The end of a job. There is at most one per task, attempt and run.

    Attributes:
        key: Content key: hash of task, candidate, inputs, toolchain and harness version.
        candidate: Digest over the candidate's files; None when there was no candidate.
        reference: Digest over the reference's files.
        commitments: SHA-256 commitments of the held-out seeds used.
        usage: Tokens and cost of the agent's model calls.
        reference_share: Share of a reference kernel's distinctive text that the candidate holds (0 to 1, see
            `fabrica_bench.integrity.leakage`): a hint for people, not a verdict, because small kernels look alike.
            None for the reference itself and where there is no candidate.
        screened: The verdict rests on what was found with the agent, not on its program; always invalid, and there is
            nothing to execute again.
        seconds: Wall-clock time of the whole job.
    """

    record: Literal["verdict"] = "verdict"
    task: str
    level: int
    attempt: int
    verdict: Verdict
    key: str
    candidate: str | None
    model: str
    evaluations: int
    commitments: tuple[str, ...]
    usage: Usage = Usage()
    reference_share: float | None = None
    screened: bool = False
    seconds: float

    @property
    def valid(self) -> bool:
        return isinstance(self.verdict, Valid)


class Measured(_Record):
    """An evaluation of a program on one kind of input, under its content key; nothing with this key is computed again.

    `evaluation` holds the predicates' results, the cycles by input, the end of the log and what confined the runs.
    """

    record: Literal["measured"] = "measured"
    task: str
    attempt: int
    key: str
    evaluation: dict[str, Any]
    taken_over: bool = False
    """It came from another run's evaluation under the same key."""


class JobFailed(_Record):
    """A job ended without a verdict through a fault of the harness or the machine; it is owed again."""

    record: Literal["job_failed"] = "job_failed"
    task: str
    attempt: int
    blame: Literal["provider", "harness", "machine"]
    reason: str


class SessionEnded(_Record):
    """A process stopped working on the run."""

    record: Literal["session_ended"] = "session_ended"
    reason: Literal["finished", "interrupted", "failed", "cost"]
    detail: str = ""


AnyRecord = (
    SessionStarted
    | JobStarted
    | AgentEvent
    | Evaluation
    | CandidateRecord
    | Measured
    | VerdictRecord
    | JobFailed
    | SessionEnded
)

RECORD_ADAPTER: TypeAdapter[AnyRecord] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="record")])
