"""`fabrica-bench run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import (
    ArchOption,
    ClusterOption,
    EventsOption,
    FilterCommand,
    FilterOption,
    JobsOption,
    JsonOption,
    KeyOption,
    ProgressOption,
    SizeOption,
    TasksOption,
    ToolchainOption,
    WorkflowOption,
    app,
    examples,
    use_tasks,
)
from fabrica_bench.cli.console import Column
from fabrica_bench.errors import ExitCode

if TYPE_CHECKING:
    from fabrica_bench.runs.config import RunConfig


@app.command(
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench run --agent fabrica",
        "fabrica-bench run --agent reference --filter set=core level=1 --jobs 4",
        "fabrica-bench run --agent fabrica --out runs/mine      (again: continues where it stopped)",
        "fabrica-bench run --agent fabrica --repeat 5 --seed 7 --shuffle --max-cost 20",
        "fabrica-bench run --agent fabrica --out runs/mine --dry-run",
        "fabrica-bench run --agent fabrica --json > result.json",
        "fabrica-bench run --agent fabrica --model anthropic:claude-sonnet-4-5 --budget cost_usd=5",
        "fabrica-bench run --agent fabrica --model compatible:qwen@http://localhost:8000/v1",
        "fabrica-bench run --agent fabrica --model exchange:DIR        (you, or another program, answer)",
        "fabrica-bench run --agent fabrica --model replay:runs/mine    (the answers of an earlier run)",
    ),
)
def run(
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="The agent; see `fabrica-bench agents`.")],
    filters: FilterOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Run folder; a run found in it is continued. [default: runs/...]"),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N of the chosen tasks.")
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", metavar="K", min=1, help="Attempts per task.")] = 1,
    seed: Annotated[
        int, typer.Option("--seed", metavar="S", min=0, help="Gives the agent's seeds and the shuffled order.")
    ] = 0,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Work in an order drawn from the seed.")] = False,
    jobs: JobsOption = None,
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", metavar="USD", help="Start no further job once the agent's calls cost this much."),
    ] = None,
    toolchain: ToolchainOption = "embedded",
    arch: ArchOption = "wse3",
    size: SizeOption = "small",
    workflow: WorkflowOption = "W1",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="An option of the agent, e.g. mode=B; may be repeated."),
    ] = None,
    tasks: TasksOption = None,
    key: KeyOption = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="lowering (none), PROVIDER:NAME[@URL], exchange:DIR or replay:PATH. [default: $FABRICA_AGENT_MODEL]",
        ),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            metavar="NAME=VALUE",
            help="evaluations, attempts, optimizations, tokens, cost_usd or wall_s per task; may be repeated.",
        ),
    ] = None,
    requests_per_minute: Annotated[
        float | None, typer.Option("--rpm", metavar="N", min=0.01, help="Model calls per minute at most.")
    ] = None,
    cluster: ClusterOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done and what is there already; do nothing.")
    ] = False,
    progress: ProgressOption = "auto",
    events: EventsOption = None,
    json: JsonOption = False,
) -> None:
    """Let an agent translate tasks, and score what it hands in.

    Without --filter it takes every task (set=full). Progress goes to standard error. Whatever is finished is kept at
    once: after an interruption, the same command with the same --out continues.
    """
    from fabrica_bench.cli.progress import progress_display
    from fabrica_bench.cli.runs import (
        chosen_tasks,
        default_run_folder,
        exit_code,
        make_config,
        parse_options,
        write_page,
    )
    from fabrica_bench.runs.execution import execute_run
    from fabrica_bench.toolchains.processes import available_cores

    use_tasks(tasks)
    names, broken = chosen_tasks(filters or [], limit)
    config = make_config(
        agent=agent,
        tasks=names,
        out=out if out is not None else default_run_folder(agent),
        toolchain=toolchain,
        arch=arch,
        size=size,
        workflow=workflow,
        key=key,
        jobs=jobs or available_cores(),
        repeat=repeat,
        seed=seed,
        shuffle=shuffle,
        options=parse_options(option or []),
        max_cost=max_cost,
        cluster=cluster,
        model=model,
        limits=budget or (),
        requests_per_minute=requests_per_minute,
    )
    if dry_run:
        _show_plan(config, json)
        raise typer.Exit(ExitCode.BAD_INPUT if broken else ExitCode.OK)
    with progress_display(progress, events) as display:
        summary = execute_run(config, display)
    page = write_page(config)
    if json:
        console.write_json({**summary.to_json(), "report": str(page), "broken_tasks": broken})
    else:
        from fabrica_bench.cli.results import write_run

        write_run(summary)
        console.write(f"run folder {summary.run_dir}")
        console.write(f"report     {page}")
    if broken:
        console.note(f"{console.counted(broken, 'task folder')} could not be read and took no part: see above")
    code = exit_code(summary)
    raise typer.Exit(ExitCode.BAD_INPUT if broken and code == ExitCode.OK else code)


def _show_plan(config: RunConfig, json: bool) -> None:
    from fabrica_bench.runs.planning import plan_run

    plan = plan_run(config)
    if json:
        console.write_json(plan.to_json())
        return
    console.write_table(
        [Column("task"), Column("attempt", True), Column("state"), Column("reference")],
        [[row.task, str(row.attempt), row.state, row.reference] for row in plan.rows],
    )
    console.write()
    console.write(f"{plan.owed} of {len(plan.rows)} attempts would be made, {plan.finished} are finished")
    console.write(f"run folder {config.out} ({'continued' if plan.exists else 'new'}); nothing was done")
