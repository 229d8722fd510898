"""`fabrica-bench adequacy`."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import (
    FilterCommand,
    FilterOption,
    JsonOption,
    SizeOption,
    TasksOption,
    app,
    checked_choice,
    examples,
    require_place,
    use_tasks,
)
from fabrica_bench.cli.console import Column, counted
from fabrica_bench.errors import ExitCode

if TYPE_CHECKING:
    from fabrica_bench.scoring.adequacy import Adequacy
    from fabrica_bench.scoring.program_adequacy import ProgramAdequacy, Tier

TIERS: Final = ("results", "programs", "mutations")


@app.command(
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench adequacy",
        "fabrica-bench adequacy --filter level=1 --tier results --json",
        "fabrica-bench adequacy --tier results --tier programs --state adequacy.jsonl --out docs/adequacy.md",
    ),
)
def adequacy(
    filters: FilterOption = None,
    size: SizeOption = "small",
    tiers: Annotated[
        list[str] | None,
        typer.Option("--tier", metavar="NAME", help="results, programs or mutations; may be repeated."),
    ] = None,
    arch: Annotated[str, typer.Option("--arch", metavar="NAME", help="Target of the programs: wse2 or wse3.")] = "wse3",
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Tasks measured at a time.")] = os.cpu_count() or 1,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="Keep finished tasks here, and continue from it.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write Markdown tables here.")] = None,
    folder: TasksOption = None,
    json: JsonOption = False,
) -> None:
    """Measure whether wrong programs would be rejected, and honest variants pass.

    `programs`, the default: a fixed family of wrong programs made from each expert kernel, and honest variants of both
    kernels, are built, run and judged like candidates. `mutations`: single changes of the kernels themselves.
    `results`, quick: the outputs that wrong programs would leave are compared, without running any. All on visible and
    fresh held-out inputs. Exits with 1 when something wrong survives, or something honest is rejected.
    """
    from fabrica_bench.tasks import require_tasks

    use_tasks(folder)
    require_place(out)
    chosen = _tiers(tiers)
    target = checked_choice("--arch", arch, ("wse2", "wse3"))
    tasks = require_tasks(filters or ())
    parts: list[_Part] = []
    for tier in chosen:
        if tier == "results":
            from fabrica_bench.scoring.adequacy import measure_all

            parts.append(_of_results(list(measure_all(tasks, size))))
            continue
        parts.append(_measured(tasks, tier, size, target, jobs, state))
    ok = bool(tasks) and all(part.ok for part in parts)
    if out is not None:
        out.write_text(_page(parts, chosen, size, target), encoding="utf-8")
    if json:
        console.write_json({"ok": ok, "size": size, "tiers": {part.tier: part.facts for part in parts}})
    else:
        for part in parts:
            console.write_table(
                [Column("task"), Column("killed/total", True), Column("survived or rejected", prose=True)], part.rows
            )
            console.write()
            console.write(part.summary)
    raise typer.Exit(ExitCode.OK if ok else ExitCode.FAILURE)


def _tiers(given: list[str] | None) -> list[Tier | str]:
    chosen = [checked_choice("--tier", name, TIERS) for name in given or ("programs",)]
    return [name for name in TIERS if name in chosen]


@dataclass(frozen=True)
class _Part:
    """What one tier found, ready to be shown.

    Attributes:
        tier: Its name.
        ok: Everything wrong was killed, everything honest passed.
        summary: One line with the totals.
        rows: Task, killed/total, problems.
        table: The same as Markdown, with more columns.
        facts: The same for scripts.
    """

    tier: str
    ok: bool
    summary: str
    rows: list[list[str]]
    table: list[str]
    facts: list[dict[str, Any]]


# ------------------------------------------------------------------------------------------------- results


def _of_results(found: list[Adequacy]) -> _Part:
    killed, total = sum(len(item.killed) for item in found), sum(item.total for item in found)
    rejected = sum(len(item.honest_rejected) for item in found)
    table = ["| task | killed/total | survived | not counted |", "|---|---:|---|---|"]
    rows = []
    for item in found:
        counts = f"{len(item.killed)}/{item.total}"
        problems = ", ".join([*item.survived, *(f"rejects {name}" for name in item.honest_rejected)]) or "–"
        rows.append([item.task, counts, problems])
        table.append(f"| {item.task} | {counts} | {problems} | {', '.join(item.equivalent) or '–'} |")
    facts = [
        {
            "task": item.task,
            "ok": item.ok,
            "killed": list(item.killed),
            "survived": list(item.survived),
            "equivalent": list(item.equivalent),
            "honest_rejected": list(item.honest_rejected),
        }
        for item in found
    ]
    summary = f"{killed}/{total} wrong results killed, {rejected} right ones rejected, {counted(len(found), 'task')}"
    return _Part("results", all(item.ok for item in found), summary, rows, table, facts)


# ------------------------------------------------------------------------------------------------ programs


def _measured(tasks: list[Any], tier: Any, size: str, arch: Any, jobs: int, state: Path | None) -> _Part:
    from fabrica_bench.scoring.adequacy_run import measure_tasks

    def report(item: ProgramAdequacy, left: int) -> None:
        console.note(f"{item.task}: {len(item.of('killed'))}/{item.total} killed; {counted(left, 'task')} to go")

    found = measure_tasks(tasks, tier, size=size, arch=arch, jobs=jobs, state=state, report=report)
    return _of_programs(tier, found)


def _of_programs(tier: str, found: list[ProgramAdequacy]) -> _Part:
    killed, total = sum(len(item.of("killed")) for item in found), sum(item.total for item in found)
    honest, rejected = sum(item.honest for item in found), sum(len(item.honest_rejected) for item in found)
    by = Counter(tried.by for item in found for tried in item.of("killed"))
    checks = ", ".join(f"{count} by {name}" for name, count in by.most_common())
    summary = (
        f"{killed}/{total} wrong programs killed ({checks}), {rejected} of {honest} honest variants rejected, "
        f"{counted(len(found), 'task')}"
    )
    table = [
        "| task | killed/total | killed by | survived | not applicable, or the same outputs |",
        "|---|---:|---|---|---|",
    ]
    rows = []
    for item in found:
        counts = f"{len(item.of('killed'))}/{item.total}"
        problems = ", ".join(
            [*(tried.name for tried in item.of("survived")), *(f"rejects {why}" for why in item.honest_rejected)]
        )
        killers = Counter(tried.by for tried in item.of("killed"))
        by_text = ", ".join(f"{name} {count}" for name, count in killers.most_common())
        left_out = [_left_out(tried) for tried in (*item.of("not applicable"), *item.of("same outputs"))]
        rows.append([item.task, counts, problems or "–"])
        table.append(f"| {item.task} | {counts} | {by_text} | {problems or '–'} | {'; '.join(left_out) or '–'} |")
    facts = [{"ok": item.ok, **item.to_json()} for item in found]
    return _Part(tier, all(item.ok for item in found), summary, rows, table, facts)


def _left_out(tried: Any) -> str:
    if tried.outcome == "not applicable":
        return f"{tried.name}: {tried.reason}"
    return f"{tried.kernel} {tried.name}: the same outputs".replace("|", "\\|")


# ---------------------------------------------------------------------------------------------------- page

_TITLES: Final = {"programs": "Wrong programs", "mutations": "Mutations of the kernels", "results": "Wrong results"}
_TEXTS: Final = {
    "programs": """\
A fixed family of wrong programs, made from each task's expert kernel, as candidates: device code between its stamps
stores zeros, ones, an input, what was there before, or the first visible input's results over its outputs; leaves out
one PE or everything but the last element; shifts, reverses or rounds them; or falsifies the inputs while the program
works. Honest variants of both kernels (other names, order, format, loops and an idle task, all at once) must pass. A
kind that can't be wrong for a task isn't counted: the rule is given, or its outputs equal the unchanged kernel's bit
for bit on every input.""",
    "mutations": """\
One change each at a place of a kernel's syntax tree: a loop or vector one short, an access shifted, a statement left
out, an operator changed, an accumulation in half precision. Of each kind the first of up to four places that makes
another program counts; places whose outputs equal the unchanged kernel's bit for bit on all inputs are listed.""",
    "results": """\
The same family as arrays that such a program would leave, compared without running one. What is right for a task, or
has nothing to change at, isn't counted.""",
}


def _page(parts: list[_Part], chosen: list[Any], size: str, arch: str) -> str:
    options = " ".join(f"--tier {tier}" for tier in chosen)
    lines = [
        "# Adequacy of the tasks",
        "",
        "Would the scorer notice a wrong program? Written by",
        "",
        "```bash",
        f"fabrica-bench adequacy {options} --size {size} --arch {arch} --out docs/adequacy.md",
        "```",
    ]
    for part in sorted(parts, key=lambda part: list(_TITLES).index(part.tier)):
        lines += ["", f"## {_TITLES[part.tier]}", "", _TEXTS[part.tier], "", f"{part.summary}.", "", *part.table]
    return "\n".join(lines) + "\n"
