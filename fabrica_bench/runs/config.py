"""What a run does. The part that decides results is frozen into the run folder; the rest may differ on resuming."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.models.selection import NO_MODEL
from fabrica_bench.plugins import Budget, Workflow

DEFAULT_BUDGET: Final = Budget(evaluations=20, wall_s=300.0, tokens=200_000)

OptionName = Annotated[str, StringConstraints(pattern=re.compile(r"^[a-z][a-z0-9_-]{0,40}$").pattern)]

OTHER_OPTIONS: Final = {"requests_per_minute": "rpm", "key_file": "key", "tasks_dir": "tasks", "options": "option"}
"""Options of the command line that aren't named like their field."""


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
        seed: Gives the agent's seeds, one per task and attempt, and the order of a shuffled run.
        shuffle: Work in an order drawn from the seed instead of the tasks' own.
        budget: What the agent may spend per task.
        model: Word of the model, see `fabrica_bench.models.selection`; its place (a folder, an address) is in it.
        requests_per_minute: Rate limit of model calls over all jobs; None for none.
        options: The agent's own options, e.g. `mode: C`; what they mean is up to the agent.
        study: Name and arm of the study that the run belongs to, `NAME/ARM`; empty for none.
        jobs: Tasks in progress at the same time.
        key_file: Held-out key; None makes a fresh one for the run.
        tasks_dir: Folder of the tasks; None for the one in use.
        max_cost: US dollars after which no further job is started; None for no limit.
        replay: Folder of a finished run whose candidates are scored instead of letting the agent work.
        cluster: Address of a Dask scheduler, or `local:N` for one with N workers on this machine; None for no cluster.
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
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    shuffle: bool = False
    budget: Budget = DEFAULT_BUDGET
    model: str = NO_MODEL
    requests_per_minute: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    options: dict[OptionName, str] = Field(default_factory=dict)
    study: str = ""
    jobs: int = Field(default=2, ge=1)
    key_file: Path | None = None
    tasks_dir: Path | None = None
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    cluster: str | None = None
    replay: Path | None = None

    @classmethod
    def checked(cls, fields: Mapping[str, object]) -> RunConfig:
        """From what a user gave.

        Raises:
            FabricaError: A value is none of its field's; it names the option.
        """
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            option = OTHER_OPTIONS.get(name, name.replace("_", "-"))
            raise FabricaError(
                f"{first['input']!r}: {first['msg']}",
                place=f"--{option}",
                remedy="see the command with --help",
                code=ExitCode.USAGE,
            ) from error

    def frozen(self) -> dict[str, object]:
        """The fields that decide results, as JSON values; a resumed run must have the same."""
        unfrozen = {"out", "jobs", "key_file", "tasks_dir", "max_cost", "cluster", "replay", "requests_per_minute"}
        return {**self.model_dump(mode="json", exclude=unfrozen), "replay_of": self._replayed()}

    def _replayed(self) -> str | None:
        """Run id of the run that is replayed: its folder may move."""
        from fabrica_bench.runs.store import RunStore

        return None if self.replay is None else RunStore.open(self.replay).manifest.run_id

    def order(self) -> list[tuple[str, int]]:
        """(task, attempt) of every job, in the order of work: the first attempts at all tasks come first."""
        jobs = [(task, attempt) for attempt in range(1, self.repeat + 1) for task in self.tasks]
        if self.shuffle:
            random.Random(self.seed).shuffle(jobs)
        return jobs

    def agent_seed(self, task: str, attempt: int) -> int:
        """The agent's seed for an attempt, below 2**32: repeats differ, and the same command gives the same."""
        text = f"fabrica-bench agent seed {self.seed} {task} {attempt}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
