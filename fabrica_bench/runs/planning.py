"""What a run would do, without doing it: which attempts are owed, and what is known already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fabrica_bench.runs.cache import EvaluationCache, shared_folder
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import finished_jobs
from fabrica_bench.runs.keys import find_key
from fabrica_bench.runs.opening import check_config, load_tasks, require_same
from fabrica_bench.runs.records import AnyRecord, Measured
from fabrica_bench.runs.store import MANIFEST_NAME, RunStore
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import held_out_cases, held_out_seeds, visible_cases
from fabrica_bench.scoring.scorer import Scorer
from fabrica_bench.tasks import Task
from fabrica_bench.tasks.seeds import HeldOutKey
from fabrica_bench.toolchains import get_toolchain


@dataclass(frozen=True)
class PlannedAttempt:
    """One attempt. `state` is `finished` or `owed`; `reference` says which of its inputs are measured already."""

    task: str
    attempt: int
    state: str
    reference: str


@dataclass(frozen=True)
class RunPlan:
    """Every attempt in the order of work; `exists` tells whether the folder holds the run already."""

    rows: tuple[PlannedAttempt, ...]
    exists: bool

    @property
    def owed(self) -> int:
        return sum(row.state == "owed" for row in self.rows)

    @property
    def finished(self) -> int:
        return len(self.rows) - self.owed

    def to_json(self) -> dict[str, Any]:
        """JSON values for `--json` output."""
        rows = [vars(row) for row in self.rows]
        return {"exists": self.exists, "owed": self.owed, "finished": self.finished, "rows": rows}


def plan_run(config: RunConfig) -> RunPlan:
    """What `execute_run` would do with this configuration; only reads.

    Raises:
        FabricaError: As `execute_run` before it starts: an unknown name, another run in the folder, ...
    """
    tasks = load_tasks(config)
    config = config.model_copy(update={"tasks": tuple(task.name for task in tasks)})
    check_config(config, tasks)
    exists = (config.out / MANIFEST_NAME).exists()
    records: list[AnyRecord] = []
    key: HeldOutKey | None = None
    if exists:
        store = RunStore.open(config.out)
        require_same(store, config, tasks)
        records = store.records()
        key = find_key(store.manifest.key_fingerprint, config.key_file)
    elif config.key_file is not None:
        key = HeldOutKey.from_file(config.key_file)
    cache = EvaluationCache(shared_folder())
    for record in records:
        if isinstance(record, Measured):
            cache.learn(record.key, record.evaluation)
    known = {task.name: _known_of_reference(config, task, cache, key) for task in tasks}
    done = finished_jobs(records)
    return RunPlan(
        tuple(
            PlannedAttempt(task, attempt, "finished" if (task, attempt) in done else "owed", known[task])
            for task, attempt in config.order()
        ),
        exists,
    )


def _known_of_reference(config: RunConfig, task: Task, cache: EvaluationCache, key: HeldOutKey | None) -> str:
    scorer = Scorer(Conditions(task, get_toolchain(config.toolchain), config.arch, config.size, config.workflow))
    groups = {"visible": visible_cases(task)}
    if key is not None:
        groups["held-out"] = held_out_cases(task, held_out_seeds(task, key))
    files = scorer.reference_files()
    found = [kind for kind, cases in groups.items() if cache.find(scorer.key(files, cases)) is not None]
    return f"cached: {', '.join(found)}" if found else "to be measured"
