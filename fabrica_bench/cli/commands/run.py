"""`fabrica-bench run` and `verify`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import (
    ArchOption,
    FilterCommand,
    FilterOption,
    JsonOption,
    KeyOption,
    SizeOption,
    ToolchainOption,
    app,
    checked_choice,
    examples,
)
from fabrica_bench.errors import ExitCode, FabricaError

if TYPE_CHECKING:
    from fabrica_bench.runs.config import RunConfig
    from fabrica_bench.runs.summary import RunSummary


@app.command(
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench run --agent fabrica",
        "fabrica-bench run --agent reference --filter set=core level=1 --jobs 4",
        "fabrica-bench run --agent fabrica --out runs/mine      (again: continues where it stopped)",
        "fabrica-bench run --agent fabrica --json > result.json",
    ),
)
def run(
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="The agent; see `fabrica-bench agents`.")],
    filters: FilterOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Run folder; a run found in it is continued. [default: runs/...]"),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Tasks at a time. [default: one per core]")
    ] = None,
    toolchain: ToolchainOption = "embedded",
    arch: ArchOption = "wse3",
    size: SizeOption = "small",
    workflow: Annotated[
        str, typer.Option("--workflow", metavar="NAME", help="What may change: W1 (compute file), W1-C, W2.")
    ] = "W1",
    repeat: Annotated[int, typer.Option("--repeat", metavar="K", min=1, help="Attempts per task.")] = 1,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Let an agent translate tasks, and score what it hands in.

    Without --filter it takes every task (set=full). Progress goes to standard error. Whatever is finished is kept at
    once: after an interruption, the same command with the same --out continues.
    """
    from fabrica_bench.cli.progress import progress_display
    from fabrica_bench.runs.config import RunConfig
    from fabrica_bench.runs.orchestration import execute_run

    chosen = chosen_tasks(filters or [])
    config = RunConfig(
        agent=agent,
        tasks=tuple(chosen),
        out=out if out is not None else default_run_folder(agent),
        toolchain=toolchain,
        arch=checked_choice("--arch", arch, ("wse2", "wse3")),
        size=size,
        workflow=checked_choice("--workflow", workflow, ("W1", "W1-C", "W2")),
        repeat=repeat,
        jobs=jobs or available_cores(),
        key_file=key,
    )
    with progress_display() as progress:
        summary = execute_run(config, progress)
    page = _report_page(config)
    if json:
        console.write_json({**summary.to_json(), "report": str(page)})
    else:
        _write_results(summary, page)
    raise typer.Exit(exit_code(summary))


def chosen_tasks(filters: list[str]) -> list[str]:
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


def exit_code(summary: RunSummary) -> ExitCode:
    """Success when every attempt has a verdict, whatever it says; a failure of harness or machine is one here too."""
    from fabrica_bench.scoring.verdict import Blame, NotScored

    ours = {Blame.HARNESS, Blame.MACHINE}
    if summary.partial or any(
        isinstance(row.verdict, NotScored) and row.verdict.blame in ours for row in summary.rows
    ):
        return ExitCode.HARNESS
    return ExitCode.OK


def _report_page(config: RunConfig) -> Path:
    from fabrica_bench.report import write_report

    return write_report(config.out)


def _write_results(summary: RunSummary, page: Path) -> None:
    from fabrica_bench.cli.results import write_run

    write_run(summary)
    console.write(f"run folder {summary.run_dir}")
    console.write(f"report     {page}")
