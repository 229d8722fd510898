"""What the commands that make a run share: its configuration, its folder, its page, its exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fabrica_bench.cli.app import WORKFLOWS, checked_choice
from fabrica_bench.errors import ExitCode, FabricaError

if TYPE_CHECKING:
    from fabrica_bench.runs.config import RunConfig
    from fabrica_bench.runs.summary import RunSummary


def make_config(
    *,
    agent: str,
    tasks: Sequence[str],
    out: Path,
    toolchain: str,
    arch: str,
    size: str,
    workflow: str,
    key: Path | None,
    jobs: int,
    repeat: int = 1,
) -> RunConfig:
    """A configuration from the options' words.

    Raises:
        UnknownNameError: A word is none of its option's values, or there is no such agent.
    """
    from fabrica_bench.plugins import find_agent
    from fabrica_bench.runs.config import RunConfig

    return RunConfig(
        agent=find_agent(agent).name,
        tasks=tuple(tasks),
        out=out,
        toolchain=toolchain,
        arch=checked_choice("--arch", arch, ("wse2", "wse3")),
        size=size,
        workflow=checked_choice("--workflow", workflow, WORKFLOWS),
        repeat=repeat,
        jobs=jobs,
        key_file=key,
    )


def chosen_tasks(filters: Sequence[str]) -> list[str]:
    """Names of the tasks that meet every filter.

    Raises:
        FabricaError: A filter is wrong, or no task meets all of them.
    """
    from fabrica_bench.tasks import list_tasks

    names = [task.name for task in list_tasks(filters)]
    if not names:
        raise FabricaError(
            f"no task fulfils {' '.join(filters)}" if filters else "there is no task",
            place="--filter",
            remedy="drop one of the filters; `fabrica-bench list` shows every task",
            code=ExitCode.USAGE,
        )
    return names


def default_run_folder(agent: str) -> Path:
    """A new folder under `runs/`, named after the agent and the time in UTC."""
    safe = "".join(char if char.isalnum() or char in "-_." else "-" for char in agent)
    stem = Path("runs") / f"{safe}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder, number = stem, 1
    while folder.exists():
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def write_page(config: RunConfig) -> Path:
    """Write the HTML report of the run into its folder."""
    from fabrica_bench.report import write_report

    return write_report(config.out)


def exit_code(summary: RunSummary) -> ExitCode:
    """Success when every attempt has a verdict, whatever it says; a fault of the harness or the machine is none."""
    from fabrica_bench.scoring.verdict import Blame, NotScored

    ours = {Blame.HARNESS, Blame.MACHINE}
    at_fault = any(isinstance(row.verdict, NotScored) and row.verdict.blame in ours for row in summary.rows)
    return ExitCode.HARNESS if summary.partial or at_fault else ExitCode.OK
