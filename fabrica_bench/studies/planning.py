"""What a study would do and cost, before it does anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.models.selection import NO_MODEL
from fabrica_bench.plugins import Budget, find_agent, load_plugins, require_options
from fabrica_bench.runs.config import DEFAULT_BUDGET, RunConfig
from fabrica_bench.runs.execution import finished_jobs
from fabrica_bench.runs.opening import check_config
from fabrica_bench.runs.store import MANIFEST_NAME, RunStore
from fabrica_bench.studies.catalogue import catalogue_tasks
from fabrica_bench.studies.protocol import Arm, Study
from fabrica_bench.tasks import Task, list_tasks, parse_filters
from fabrica_bench.toolchains import get_toolchain
from fabrica_bench.toolchains.registry import TOOLCHAIN_NAMES

CONTROL_FOLDER: Final = "controls"
EVALUATION_S: Final = 2.0
"""Core-seconds of one compile or batch of visible runs: measured over the published sizes on one core, rounded up."""

SCORING_S: Final = 4.0
"""Core-seconds of scoring one candidate on held-out inputs, with its share of measuring the reference."""


@dataclass(frozen=True)
class Prices:
    """US dollars per million tokens; None when they aren't known."""

    input_usd: float | None = None
    output_usd: float | None = None


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study.

    Attributes:
        label: The arm's name, or where the control's run is.
        finished: Attempts that are done already.
        unwritten: Tasks of the arm that have no pair yet; they are missing from the denominator and said to be.
    """

    label: str
    arm: Arm
    control: bool
    config: RunConfig
    finished: int
    unwritten: tuple[str, ...]

    @property
    def attempts(self) -> int:
        return len(self.config.tasks) * self.config.repeat

    @property
    def owed(self) -> int:
        return self.attempts - self.finished


@dataclass(frozen=True)
class StudyPlan:
    """Every run of a study, in the order of work: the controls of an arm before its agent."""

    study: Study
    runs: tuple[PlannedRun, ...]
    prices: Prices

    def estimate(self) -> dict[str, Any]:
        """Upper bounds of what is still to be spent; `cost_usd_at_most` is None when the price isn't known."""
        agents = [run for run in self.runs if not run.control]
        # A replay scores what is there: its agent does nothing.
        working = [] if self.study.kind == "replay" else agents
        evaluations = sum(run.owed * run.config.budget.evaluations for run in working)
        tokens = sum(_tokens(run) for run in working)
        costs = [self._cost(run) for run in working]
        owed = sum(run.owed for run in self.runs)
        core_s = evaluations * EVALUATION_S + owed * SCORING_S
        return {
            "attempts": sum(run.owed for run in agents),
            "control_attempts": owed - sum(run.owed for run in agents),
            "evaluations_at_most": evaluations,
            "tokens_at_most": tokens,
            "core_hours_at_most": round(core_s / 3600, 2),
            "cost_usd_at_most": None if None in costs else round(sum(cost for cost in costs if cost is not None), 2),
        }

    def _cost(self, run: PlannedRun) -> float | None:
        """US dollars that a run may still cost: by its tokens, by its limit per attempt, and by its own limit."""
        tokens = _tokens(run)
        if tokens == 0:
            return 0.0
        prices, config = (self.prices.input_usd, self.prices.output_usd), run.config
        bounds = [config.max_cost, None if config.budget.cost_usd is None else run.owed * config.budget.cost_usd]
        if None not in prices:
            # Which tokens are output isn't known beforehand: the dearer price bounds the cost.
            bounds.append(tokens / 1e6 * max(price for price in prices if price is not None))
        return min((bound for bound in bounds if bound is not None), default=None)


def _tokens(run: PlannedRun) -> int:
    return 0 if run.config.model == NO_MODEL else run.owed * run.config.budget.tokens


def plan_study(
    study: Study,
    *,
    agent: str,
    out: Path,
    jobs: int = 2,
    seed: int = 0,
    limit: int | None = None,
    prices: Prices | None = None,
    replay: Path | None = None,
    model: str = NO_MODEL,
    only_shown: bool = False,
    overrides: Mapping[str, Any] | None = None,
) -> StudyPlan:
    """The runs of a study with an agent.

    Args:
        study: The protocol.
        agent: Who works in the arms.
        out: Folder of the study; what is finished in it is kept.
        jobs: Tasks in progress at the same time.
        seed: Of every run.
        limit: Only the first so many tasks of each arm; such a study is partial and says so.
        prices: For the estimate of the cost.
        replay: Finished run whose candidates a `replay` study scores.
        model: Of the agent in every arm, see `RunConfig`; controls have none.
        only_shown: The plan won't be run, so a `replay` study needs no run yet, nor an arm its toolchain.
        overrides: Further fields of every `RunConfig`, e.g. `cluster`.

    Raises:
        FabricaError: The agent or a control isn't installed, no task of an arm is written, a replay names no run, or
            an arm asks for what its tasks or this machine don't have: said before the first arm runs.
    """
    worker = find_agent(agent)
    agents, _ = load_plugins()
    for name in study.controls:
        if name not in agents:
            raise FabricaError(
                f"study {study.name} needs the agent {name}, which is not installed",
                remedy="see `fabrica-bench agents`; a published study is not run without its controls",
                code=ExitCode.USAGE,
            )
    if (study.kind == "replay") != (replay is not None) and not (only_shown and replay is None):
        raise FabricaError(
            f"study {study.name} {'replays a finished run: name it' if study.kind == 'replay' else 'replays nothing'}",
            place="--run",
            remedy="give --run RUN with a replay study, and with no other",
            code=ExitCode.USAGE,
        )
    common = {"jobs": jobs, "seed": seed, **(overrides or {})}
    runs: list[PlannedRun] = []
    written = list_tasks()
    for arm in study.arms:
        require_options(worker, arm.options)
        if not (only_shown and arm.toolchain in TOOLCHAIN_NAMES):
            get_toolchain(arm.toolchain)
        conditions = parse_filters(arm.filter)
        tasks = [task for task in written if all(condition.matches(task.spec) for condition in conditions)]
        if replay is not None:
            _check_replayed(replay, arm, tasks)
        for control in study.controls:
            folder = control_folder(out, arm, control)
            if all(run.config.out != folder for run in runs):  # arms under the same conditions share their controls
                runs.append(
                    _run(study, arm, control, folder, tasks, limit, {**common, "repeat": 1}, root=out, control=True)
                )
        more = {**common, "repeat": arm.repeat, "replay": replay, "model": model}
        runs.append(_run(study, arm, agent, out / arm.name / "run", tasks, limit, more, root=out))
    return StudyPlan(study, tuple(runs), prices or Prices())


def _check_replayed(run: Path, arm: Arm, tasks: Sequence[Task]) -> None:
    attempted = RunStore.open(run).manifest.tasks
    if tasks and not any(task.name in attempted for task in tasks):
        raise FabricaError(
            f"the run has none of the {len(tasks)} tasks of arm {arm.name} ({' '.join(arm.filter)})",
            place=str(run),
            remedy="name a run over these tasks with --run",
            code=ExitCode.USAGE,
        )


def control_folder(out: Path, arm: Arm, control: str) -> Path:
    """Where a control's run for an arm is: arms with the same tasks and conditions have the same one."""
    conditions = "-".join([*arm.filter, arm.workflow, arm.arch, arm.size, arm.toolchain])
    safe = "".join(char if char.isalnum() or char in "-_." else "-" for char in conditions)
    return out / CONTROL_FOLDER / safe.lower() / control


def _run(
    study: Study,
    arm: Arm,
    agent: str,
    out: Path,
    tasks: list[Task],
    limit: int | None,
    fields: Mapping[str, Any],
    *,
    root: Path,
    control: bool = False,
) -> PlannedRun:
    unwritten = tuple(entry.name for entry in catalogue_tasks(arm) if entry.name not in {task.name for task in tasks})
    if not tasks:
        raise FabricaError(
            f"arm {arm.name}: no task of {' '.join(arm.filter)} is written",
            remedy="`fabrica-bench list` shows the tasks that are",
        )
    config = RunConfig.checked(
        {
            "agent": agent,
            "tasks": tuple(task.name for task in tasks[:limit]),
            "out": out,
            "toolchain": arm.toolchain,
            "arch": arm.arch,
            "size": arm.size,
            "workflow": arm.workflow,
            "budget": DEFAULT_BUDGET if control else _budget(arm),
            "options": {} if control else dict(arm.options),
            "study": study.name if control else f"{study.name}/{arm.name}",
            **fields,
        }
    )
    check_config(config, tasks[:limit])
    label = str(out.relative_to(root)) if control else arm.name
    return PlannedRun(label, arm, control, config, _finished(config), unwritten)


def _budget(arm: Arm) -> Budget:
    given = {name: value for name, value in arm.budget.model_dump().items() if value is not None}
    return DEFAULT_BUDGET.model_copy(update=given)


def _finished(config: RunConfig) -> int:
    if not (config.out / MANIFEST_NAME).exists():
        return 0
    wanted = set(config.order())
    return len(finished_jobs(RunStore.open(config.out).records()) & wanted)
