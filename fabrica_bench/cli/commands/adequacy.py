"""`fabrica-bench adequacy`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import FilterCommand, FilterOption, JsonOption, SizeOption, app, examples
from fabrica_bench.cli.console import Column, counted
from fabrica_bench.errors import ExitCode

if TYPE_CHECKING:
    from fabrica_bench.scoring.adequacy import Adequacy


@app.command(
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench adequacy",
        "fabrica-bench adequacy --filter level=1 --json",
        "fabrica-bench adequacy --out docs/adequacy.md",
    ),
)
def adequacy(
    filters: FilterOption = None,
    size: SizeOption = "small",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write a Markdown table here.")] = None,
    json: JsonOption = False,
) -> None:
    """Measure whether the tasks' comparisons would notice wrong programs.

    For each task: how many of a fixed family of wrong results are rejected, on visible and fresh held-out inputs. Exits
    with 1 when one survives, or a right result is rejected.
    """
    from fabrica_bench.scoring.adequacy import measure_all
    from fabrica_bench.tasks import list_tasks

    found = list(measure_all(list_tasks(filters or ()), size))
    good = sum(item.ok for item in found)
    if out is not None:
        out.write_text(_page(found, size), encoding="utf-8")
    if json:
        console.write_json({"ok": good == len(found) > 0, "size": size, "tasks": [_facts(item) for item in found]})
    else:
        console.write_table(
            [Column("task"), Column("killed/total", True), Column("survived", prose=True)],
            [[item.task, f"{len(item.killed)}/{item.total}", _problems(item)] for item in found],
        )
        console.write()
        killed, total = sum(len(item.killed) for item in found), sum(item.total for item in found)
        rejected = sum(len(item.honest_rejected) for item in found)
        tasks = counted(len(found), "task")
        console.write(f"{killed}/{total} wrong results killed, {rejected} right ones rejected, {tasks}")
    raise typer.Exit(ExitCode.OK if good == len(found) > 0 else ExitCode.FAILURE)


def _problems(item: Adequacy) -> str:
    honest = [f"rejects {name}" for name in item.honest_rejected]
    return ", ".join([*item.survived, *honest]) or "–"


def _facts(item: Adequacy) -> dict[str, Any]:
    return {
        "task": item.task,
        "ok": item.ok,
        "killed": list(item.killed),
        "survived": list(item.survived),
        "equivalent": list(item.equivalent),
        "honest_rejected": list(item.honest_rejected),
    }


def _page(found: list[Adequacy], size: str) -> str:
    killed, total = sum(len(item.killed) for item in found), sum(item.total for item in found)
    lines = [
        "# Adequacy of the tasks",
        "",
        f"Written by `fabrica-bench adequacy --size {size} --out docs/adequacy.md`: {killed} of {total} wrong results",
        f"are killed over {len(found)} tasks. What is right for a task, or has nothing to change at, isn't counted.",
        "",
        "| task | killed/total | survived | not counted |",
        "|---|---:|---|---|",
    ]
    for item in found:
        counts = f"{len(item.killed)}/{item.total}"
        lines.append(f"| {item.task} | {counts} | {_problems(item)} | {', '.join(item.equivalent) or '–'} |")
    return "\n".join(lines) + "\n"
