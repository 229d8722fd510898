"""The result of a run as one object: computed from its manifest and records, and from nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from fabrica_bench.runs.manifest import Manifest
from fabrica_bench.runs.records import AnyRecord, VerdictRecord
from fabrica_bench.runs.store import RunStore
from fabrica_bench.scoring.verdict import Blame, NotScored, Valid, Verdict, outcome_text


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunRow(_Frozen):
    """One attempt at one task. `cycles`, `reference_cycles` and `speedup` are None unless the verdict is valid."""

    task: str
    level: int
    attempt: int
    verdict: Verdict
    model: str
    evaluations: int
    seconds: float

    @property
    def valid(self) -> bool:
        return isinstance(self.verdict, Valid)

    @property
    def outcome(self) -> str:
        """`valid`, or the predicate that failed and why."""
        return outcome_text(self.verdict)

    @property
    def reason(self) -> str | None:
        """Why the verdict isn't valid, on one line; None when it is."""
        return None if isinstance(self.verdict, Valid) else " ".join(self.verdict.reason.split())

    @property
    def cycles(self) -> int | None:
        return self.verdict.cycles if isinstance(self.verdict, Valid) else None

    @property
    def reference_cycles(self) -> int | None:
        return self.verdict.reference_cycles if isinstance(self.verdict, Valid) else None

    @property
    def speedup(self) -> float | None:
        return self.verdict.speedup if isinstance(self.verdict, Valid) else None

    def to_json(self) -> dict[str, Any]:
        """Flat JSON values for `--json` output."""
        return {
            "task": self.task,
            "level": self.level,
            "attempt": self.attempt,
            "verdict": self.verdict.kind,
            "outcome": self.outcome,
            "reason": self.reason,
            "cycles": self.cycles,
            "reference_cycles": self.reference_cycles,
            "speedup": self.speedup,
            "model": self.model,
            "evaluations": self.evaluations,
            "seconds": round(self.seconds, 3),
        }


class RunSummary(_Frozen):
    """A run, finished or not.

    `valid`, `invalid`, `not_scored` and `missing` partition `total`; `missing` counts attempts that have no verdict
    yet, so a run is partial exactly when it isn't zero.
    """

    run_dir: Path
    run_id: str
    agent: str
    control: bool
    model: str
    toolchain: dict[str, str]
    rows: tuple[RunRow, ...]
    total: int

    @property
    def valid(self) -> int:
        return sum(row.valid for row in self.rows)

    @property
    def not_scored(self) -> int:
        return sum(isinstance(row.verdict, NotScored) for row in self.rows)

    @property
    def invalid(self) -> int:
        return len(self.rows) - self.valid - self.not_scored

    @property
    def outcomes(self) -> dict[str, int]:
        """Attempts by outcome: `valid`, `candidate` (invalid), who is to blame for the others, and `missing`.

        They partition `total`.
        """
        counts = {"valid": self.valid, "candidate": self.invalid}
        counts |= {blame.value: 0 for blame in Blame}
        for row in self.rows:
            if isinstance(row.verdict, NotScored):
                counts[row.verdict.blame.value] += 1
        return {**counts, "missing": self.missing}

    @property
    def judged(self) -> int:
        """Attempts that say something about the agent: all but the missing and the faults of others."""
        return self.valid + self.invalid + self.outcomes[Blame.AGENT.value]

    @property
    def missing(self) -> int:
        return self.total - len(self.rows)

    @property
    def partial(self) -> bool:
        return self.missing > 0

    def to_json(self) -> dict[str, Any]:
        """JSON values for `--json` output."""
        return {
            "run_dir": str(self.run_dir),
            "run_id": self.run_id,
            "agent": self.agent,
            "control": self.control,
            "model": self.model,
            "toolchain": self.toolchain,
            "valid": self.valid,
            "invalid": self.invalid,
            "not_scored": self.not_scored,
            "missing": self.missing,
            "outcomes": self.outcomes,
            "judged": self.judged,
            "total": self.total,
            "rows": [row.to_json() for row in self.rows],
        }


def summarize(run_dir: Path, manifest: Manifest, records: list[AnyRecord]) -> RunSummary:
    """Rows in the order of the configuration's tasks, attempts ascending.

    Verdicts on attempts that the configuration doesn't ask for count for nothing: they could hide that others are missing.
    """
    order = {task: index for index, task in enumerate(manifest.config["tasks"])}
    verdicts = {
        (r.task, r.attempt): r
        for r in records
        if isinstance(r, VerdictRecord) and manifest.has_attempt(r.task, r.attempt)
    }
    rows = tuple(
        RunRow(
            task=r.task,
            level=r.level,
            attempt=r.attempt,
            verdict=r.verdict,
            model=r.model,
            evaluations=r.evaluations,
            seconds=r.seconds,
        )
        for r in sorted(verdicts.values(), key=lambda r: (order.get(r.task, len(order)), r.attempt))
    )
    models = sorted({row.model for row in rows if row.model}) or [manifest.model]
    return RunSummary(
        run_dir=run_dir,
        run_id=manifest.run_id,
        agent=manifest.config["agent"],
        control=manifest.control,
        model=", ".join(models),
        toolchain=manifest.toolchain,
        rows=rows,
        total=len(manifest.config["tasks"]) * manifest.config["repeat"],
    )


def load_summary(run_dir: Path) -> RunSummary:
    """Summary of the run in a folder.

    Raises:
        FabricaError: The folder holds no run, or its records can't be read.
    """
    store = RunStore.open(run_dir)
    return summarize(run_dir, store.manifest, store.records())
