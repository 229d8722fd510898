"""`fabrica-bench run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import (
    ArchOption,
    FilterCommand,
    FilterOption,
    JobsOption,
    JsonOption,
    KeyOption,
    SizeOption,
    ToolchainOption,
    WorkflowOption,
    app,
    examples,
)


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
    jobs: JobsOption = None,
    toolchain: ToolchainOption = "embedded",
    arch: ArchOption = "wse3",
    size: SizeOption = "small",
    workflow: WorkflowOption = "W1",
    repeat: Annotated[int, typer.Option("--repeat", metavar="K", min=1, help="Attempts per task.")] = 1,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Let an agent translate tasks, and score what it hands in.

    Without --filter it takes every task (set=full). Progress goes to standard error. Whatever is finished is kept at
    once: after an interruption, the same command with the same --out continues.
    """
    from fabrica_bench.cli.progress import progress_display
    from fabrica_bench.cli.runs import (
        available_cores,
        chosen_tasks,
        default_run_folder,
        exit_code,
        make_config,
        write_page,
    )
    from fabrica_bench.runs.execution import execute_run

    config = make_config(
        agent=agent,
        tasks=chosen_tasks(filters or []),
        out=out if out is not None else default_run_folder(agent),
        toolchain=toolchain,
        arch=arch,
        size=size,
        workflow=workflow,
        key=key,
        jobs=jobs or available_cores(),
        repeat=repeat,
    )
    with progress_display() as progress:
        summary = execute_run(config, progress)
    page = write_page(config)
    if json:
        console.write_json({**summary.to_json(), "report": str(page)})
    else:
        from fabrica_bench.cli.results import write_run

        write_run(summary)
        console.write(f"run folder {summary.run_dir}")
        console.write(f"report     {page}")
    raise typer.Exit(exit_code(summary))
