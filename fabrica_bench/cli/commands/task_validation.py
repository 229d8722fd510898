"""`fabrica-bench tasks validate`: both reference programs judged as if they were candidates."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import (
    FilterCommand,
    FilterOption,
    JobsOption,
    JsonOption,
    TasksOption,
    checked_choice,
    examples,
    use_tasks,
)
from fabrica_bench.cli.commands.tasks import ARCHITECTURES, ArchFilter, tasks_app
from fabrica_bench.cli.console import Column, counted
from fabrica_bench.errors import ExitCode, UnknownNameError

if TYPE_CHECKING:
    from fabrica_bench.scoring.references import Cell, CellResult, ReferenceRow
    from fabrica_bench.tasks import Task


@tasks_app.command(
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench tasks validate --filter name=ReLU-1PE",
        "fabrica-bench tasks validate --filter level=1 --arch wse3 --size medium --json",
        "fabrica-bench tasks validate --all --results validation.jsonl",
        "fabrica-bench tasks validate --all --record",
    ),
)
def validate(
    filters: FilterOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Every size that a task has.")] = False,
    arch: ArchFilter = None,
    size: Annotated[
        str | None, typer.Option("--size", metavar="NAME", help="Only tasks with this size. [default: small]")
    ] = None,
    folder: TasksOption = None,
    jobs: JobsOption = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="FILE", help="Keep results here; what it holds as valid isn't done again."),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Write the cycles, over inputs of a public key, into spec.yaml.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Lint tasks, then score both of their reference programs as if they were candidates.

    Every reference must be valid on 3 visible and 5 held-out inputs, whose key is fresh. Exits with 1 when something is
    wrong; one that fails takes nothing from the others.
    """
    from fabrica_bench.scoring.references import cells, record_cycles
    from fabrica_bench.tasks import require_tasks
    from fabrica_bench.toolchains.processes import available_cores

    use_tasks(folder)
    chosen = checked_choice("--arch", arch, ARCHITECTURES) if arch is not None else None
    tasks = require_tasks(filters or ())
    sound, problems = _lint(tasks)
    wanted_size = size or (None if everything else "small")
    _require_size(tasks, wanted_size)
    wanted = [cell for cell in cells(sound, size=wanted_size) if chosen in (None, cell.arch)]
    started = time.monotonic()
    found = list(_validated(wanted, jobs or available_cores(), results, recording=record))
    found.sort(key=lambda result: wanted.index(result.cell))
    seconds = time.monotonic() - started
    rows = [row for result in found for row in result.rows]
    good = sum(row.ok for row in rows)
    ok = bool(rows) and good == len(rows) and not problems
    written = record_cycles(found) if record else []
    if json:
        document = [{**asdict(row), "samples": list(row.samples)} for row in rows]
        console.write_json({"ok": ok, "lint_problems": problems, "seconds": round(seconds, 1), "rows": document})
    else:
        _write_rows(rows)
        console.write()
        for line in _summary(sound, found):
            console.write(line)
        if record:
            console.write(f"cycles written into the specs of {counted(len(written), 'task')}")
        checked = f"{good} of {counted(len(rows), 'reference')} valid on 8 inputs each"
        console.write(f"{checked}, {counted(problems, 'problem')} found by lint, {seconds:.0f} s")
    raise typer.Exit(ExitCode.OK if ok else ExitCode.FAILURE)


def _lint(tasks: Sequence[Task]) -> tuple[list[Task], int]:
    """The tasks without a problem, and how many problems the others have."""
    from fabrica_bench.integrity.task_lint import lint_task

    sound, problems = [], 0
    for task in tasks:
        for problem in (found := lint_task(task)):
            console.note(f"{task.name}: {problem.place}: {problem.message} ({problem.remedy})")
        problems += len(found)
        if not found:
            sound.append(task)
    return sound, problems


def _require_size(tasks: Sequence[Task], size: str | None) -> None:
    known = {name for task in tasks for name in task.spec.size_names}
    if size is not None and size not in known:
        raise UnknownNameError("size", size, known)


def _validated(wanted: list[Cell], jobs: int, results: Path | None, *, recording: bool) -> Iterator[CellResult]:
    """The results of all cells: kept ones first, then the others as they are ready, each with a line of progress."""
    from fabrica_bench.scoring.references import ResultsFile, cell_keys, validate_cells

    kept = ResultsFile(results) if results is not None else None
    keys = cell_keys(wanted, recording=recording) if kept is not None else {}
    done = {cell: result for cell in wanted if kept is not None and (result := kept.valid(keys[cell])) is not None}
    if done:
        console.note(f"{len(done)} of {len(wanted)} are known from {results}")
    yield from done.values()
    rest = [cell for cell in wanted if cell not in done]
    for number, result in enumerate(validate_cells(rest, jobs=jobs, recording=recording), len(done) + 1):
        if kept is not None:
            kept.keep(keys[result.cell], result)
        console.note(f"[{number:>{len(str(len(wanted)))}}/{len(wanted)}] {_progress(result)}")
        yield result


def _progress(result: CellResult) -> str:
    from fabrica_bench.report.tables import number_text

    parts = [
        f"{row.reference} {number_text(row.cycles)}" if row.ok else f"{row.reference} {row.verdict}: {row.reason}"
        for row in result.rows
    ]
    name = result.rows[0].task if result.rows else result.cell.root
    return f"{name} {result.cell.arch} {result.cell.size}: {', '.join(parts)} ({result.seconds:.1f} s)"


def _summary(tasks: Sequence[Task], found: Sequence[CellResult]) -> Iterator[str]:
    """For each target: how many tasks are valid at every size that was asked for."""
    for arch in ARCHITECTURES:
        results = [result for result in found if result.cell.arch == arch]
        if results:
            roots = {result.cell.root for result in results}
            bad = {result.cell.root for result in results if not result.ok}
            yield (
                f"{arch}: {len(roots) - len(bad)} of {counted(len(tasks), 'task')} valid, "
                f"at {counted(len(results), 'size')} in all"
            )


def _write_rows(rows: Sequence[ReferenceRow]) -> None:
    from fabrica_bench.report.tables import number_text

    console.write_table(
        [
            Column("task"),
            Column("arch"),
            Column("size"),
            Column("reference"),
            Column("verdict"),
            Column("cycles", True),
            Column("reason", prose=True),
        ],
        [
            [row.task, row.arch, row.size, row.reference, row.verdict, number_text(row.cycles), row.reason or ""]
            for row in rows
        ],
    )
