"""`fabrica-bench verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import (
    ClusterOption,
    EventsOption,
    JobsOption,
    JsonOption,
    ProgressOption,
    TasksOption,
    app,
    examples,
    use_tasks,
)
from fabrica_bench.cli.console import Column
from fabrica_bench.errors import ExitCode

if TYPE_CHECKING:
    from fabrica_bench.runs.verification import VerifyReport


@app.command(
    epilog=examples(
        "fabrica-bench verify runs/fabrica-20260101-120000",
        "fabrica-bench verify RUN --sample 5 --seed 3",
        "fabrica-bench verify RUN --key my.key --json",
    )
)
def verify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run; it is only read.")],
    jobs: JobsOption = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="The run's held-out key. [default: the one kept for the run]"),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--task", metavar="T", help="Only this task of the run; several may be given.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", metavar="N", min=1, help="Only N attempts, drawn with --seed.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="S", min=0, help="Which ones are drawn.")] = 0,
    tasks: TasksOption = None,
    cluster: ClusterOption = None,
    progress: ProgressOption = "auto",
    events: EventsOption = None,
    json: JsonOption = False,
) -> None:
    """Score the candidates of a run again.

    Uses the same inputs and compares the verdicts byte for byte; nothing is taken from a cache. The tasks are those of
    the folder that the run used, unless --tasks names another.

    Exits with 0 when every verdict came out the same, 1 when one differs or there was nothing to execute.
    """
    from fabrica_bench.cli.progress import progress_display
    from fabrica_bench.runs.verification import verify_run
    from fabrica_bench.toolchains.processes import available_cores

    use_tasks(tasks)
    with progress_display(progress, events) as display:
        report = verify_run(
            run,
            only=only,
            jobs=jobs or available_cores(),
            key_file=key,
            tasks_dir=tasks,
            sample=sample,
            sample_seed=seed,
            cluster=cluster,
            progress=display,
        )
    if json:
        console.write_json(report.to_json())
    else:
        _write(report)
    raise typer.Exit(ExitCode.OK if report.ok else ExitCode.FAILURE)


def _write(report: VerifyReport) -> None:
    words = {True: "same", False: "DIFFERENT", None: "not checked"}
    console.write_table(
        [Column("task"), Column("again"), Column("verdict", prose=True)],
        [
            [row.task if row.attempt == 1 else f"{row.task} #{row.attempt}", words[row.same], row.detail]
            for row in report.rows
        ],
    )
    console.write()
    console.write(f"{report.checked} of {len(report.rows)} executed again, {report.different} different")
    if report.partial:
        console.write("the run is partial: some of its attempts have no verdict")
    for line in report.conditions:
        console.write(f"not the conditions of the run: {line}")
