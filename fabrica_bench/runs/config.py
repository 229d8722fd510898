"""What a run does. The part that decides results is frozen into the run folder; the rest may differ on resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from fabrica_bench.plugins import Budget, Workflow

DEFAULT_BUDGET: Final = Budget(evaluations=20, wall_s=300.0, tokens=200_000)


class RunConfig(BaseModel):
    """One agent over some tasks.

    Attributes:
        agent: Name of the agent.
        tasks: Published names of the tasks, in the order of the result table.
        out: Run folder; it is created, and a run found in it is continued.
        toolchain: `embedded`, `sdk` or `appliance`.
        arch: Compile target.
        size: Named size of every task.
        workflow: What a candidate may change.
        repeat: Independent attempts of the agent per task.
        budget: What the agent may spend per task.
        jobs: Tasks in progress at the same time.
        key_file: Held-out key; None makes a fresh one for the run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent: str
    tasks: tuple[str, ...] = Field(min_length=1)
    out: Path
    toolchain: str = "embedded"
    arch: Literal["wse2", "wse3"] = "wse3"
    size: str = "small"
    workflow: Workflow = "W1"
    repeat: int = Field(default=1, ge=1)
    budget: Budget = DEFAULT_BUDGET
    jobs: int = Field(default=2, ge=1)
    key_file: Path | None = None

    def frozen(self) -> dict[str, object]:
        """The fields that decide results, as JSON values; a resumed run must have the same."""
        return self.model_dump(mode="json", exclude={"out", "jobs", "key_file"})
