"""`fabrica-bench tasks`: for those who write tasks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import (
    Application,
    FilterCommand,
    FilterOption,
    JsonOption,
    TasksOption,
    app,
    checked_choice,
    examples,
    require_place,
    use_tasks,
)
from fabrica_bench.cli.commands.catalogue import LIST_EXAMPLES, SHOW_EXAMPLES, list_command, show
from fabrica_bench.cli.console import Column, counted
from fabrica_bench.errors import ExitCode

if TYPE_CHECKING:
    from fabrica_bench.integrity.originality import Screen
    from fabrica_bench.integrity.task_lint import Problem

tasks_app = Application(
    help="Look at tasks, check them and make new ones; a folder of your own is named with --tasks.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(tasks_app, name="tasks")

tasks_app.command("list", cls=FilterCommand, epilog=examples(*LIST_EXAMPLES))(list_command)
tasks_app.command("show", epilog=examples(*SHOW_EXAMPLES))(show)

ARCHITECTURES = ("wse2", "wse3")

ArchFilter = Annotated[str | None, typer.Option("--arch", metavar="ARCH", help="wse2 or wse3. [default: both]")]


@tasks_app.command(
    cls=FilterCommand,
    epilog=examples("fabrica-bench tasks lint", "fabrica-bench tasks lint --tasks my_tasks --json"),
)
def lint(filters: FilterOption = None, folder: TasksOption = None, json: JsonOption = False) -> None:
    """Check tasks without building them.

    Is the folder complete, is the oracle pure and does it agree with the spec, do the sources have what the spec says,
    does every input matter, and are recorded cycles near the published ones or explained? Exits with 1 when something
    is wrong.
    """
    from fabrica_bench.integrity.task_lint import folders_without_spec, lint_record, lint_task
    from fabrica_bench.tasks import list_tasks, require_tasks, tasks_root

    use_tasks(folder)
    tasks = require_tasks(filters) if filters else list_tasks()  # folders without a spec are a finding, not an error
    found = [(task.name, problem) for task in tasks for problem in (*lint_task(task), *lint_record(task))]
    if not filters:
        found += [(Path(problem.place).name, problem) for problem in folders_without_spec(tasks_root())]
    checked = len(tasks)
    if json:
        console.write_json(
            {"ok": not found, "tasks": checked, "problems": [{"task": name, **p.to_json()} for name, p in found]}
        )
    else:
        for name, problem in found:
            _write_problem(name, problem)
        clean = checked - len({name for name, problem in found if problem.about_inputs})
        console.write(f"{clean} of {counted(checked, 'task')}: an output moves when any input does")
        console.write(f"{counted(checked, 'task')}, {counted(len(found), 'problem')}")
    raise typer.Exit(ExitCode.FAILURE if found or not checked else ExitCode.OK)


def _write_problem(name: str, problem: Problem) -> None:
    console.write(f"{name}: {problem.message}")
    console.write(f"   at: {problem.place}")
    console.write(f"  fix: {problem.remedy}")


@tasks_app.command(
    "check-runner",
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench tasks check-runner",
        "fabrica-bench tasks check-runner --tasks my_tasks --filter name=My-Task-1PE",
    ),
)
def check_runner_command(
    filters: FilterOption = None,
    size: Annotated[str, typer.Option("--size", metavar="NAME", help="Named size of the tasks.")] = "small",
    folder: TasksOption = None,
    json: JsonOption = False,
) -> None:
    """Falsify what the runners read back from the device, and see whether they notice.

    Each runner must succeed on the true outputs of its reference and fail on every falsified ones; only exit statuses
    count. Exits with 1 when one doesn't.
    """
    from fabrica_bench.scoring.runner_check import check_runner
    from fabrica_bench.tasks import require_tasks

    use_tasks(folder)
    found = []
    for task in require_tasks(filters or ()):
        found.append(check_runner(task, task.spec.bundle.archs[-1], size))
        console.note(f"{task.name}: {len(found[-1].noticed)} noticed, {len(found[-1].missed)} missed")
    good = sum(item.ok for item in found)
    if json:
        rows = [asdict(item) | {"ok": item.ok} for item in found]
        console.write_json({"ok": good == len(found) > 0, "rows": rows})
    else:
        console.write_table(
            [Column("task"), Column("noticed", True), Column("problem", prose=True)],
            [
                [
                    item.task,
                    f"{len(item.noticed)}/{len(item.noticed) + len(item.missed)}",
                    f"refuses right outputs: {item.why}" if item.refused_right else ", ".join(item.missed) or "–",
                ]
                for item in found
            ],
        )
        console.write()
        console.write(f"every change noticed: by {good} of {counted(len(found), 'runner')}")
    raise typer.Exit(ExitCode.OK if good == len(found) > 0 else ExitCode.FAILURE)


@tasks_app.command(
    "check-cuda",
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench tasks check-cuda --compile-only",
        "fabrica-bench tasks check-cuda --filter level=1 --out page.md",
    ),
)
def check_cuda(
    filters: FilterOption = None,
    compile_only: Annotated[bool, typer.Option("--compile-only", help="Don't run them; needs no GPU.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write a Markdown page here.")] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Write the results as JSON here.")
    ] = None,
    folder: TasksOption = None,
) -> None:
    """Build the CUDA sources with nvcc, run them on a GPU, and compare them with their oracles."""
    from fabrica_bench.tasks import cuda_check

    use_tasks(folder)
    words = [*_filter_words(filters), *(["--compile-only"] if compile_only else [])]
    words += [f"--out={out}"] if out is not None else []
    words += [f"--json={record}"] if record is not None else []
    raise typer.Exit(cuda_check.work(cuda_check.parser().parse_args(words)))


@tasks_app.command(
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench tasks measure --filter name=ReLU-1PE --arch wse3 --size small",
        "fabrica-bench tasks measure --filter name=ReLU-1PE --cslc /sdk/cslc --cs-python /sdk/cs_python",
    ),
)
def measure(
    filters: FilterOption = None,
    arch: ArchFilter = None,
    size: Annotated[str | None, typer.Option("--size", metavar="NAME", help="One size. [default: all]")] = None,
    variant: Annotated[
        str | None, typer.Option("--variant", metavar="NAME", help="expert or plain. [default: both]")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only the first distribution of inputs.")] = False,
    cslc: Annotated[str | None, typer.Option("--cslc", metavar="COMMAND", help="Another compiler.")] = None,
    cs_python: Annotated[str | None, typer.Option("--cs-python", metavar="COMMAND", help="Its runner.")] = None,
    folder: TasksOption = None,
) -> None:
    """Run the reference programs with any tools, compare them with their oracles, and show their cycles.

    Cycles are the median over one visible input of every distribution. `validate` is what gives a verdict.
    """
    from fabrica_bench.tasks import measure as measuring
    from fabrica_bench.tasks.recording import VARIANTS

    use_tasks(folder)
    words = _filter_words(filters)
    words += [f"--arch={checked_choice('--arch', arch, ARCHITECTURES)}"] if arch is not None else []
    words += [f"--size={size}"] if size is not None else []
    words += [f"--variant={checked_choice('--variant', variant, VARIANTS)}"] if variant is not None else []
    words += ["--quick"] if quick else []
    words += [f"--cslc={cslc}"] if cslc is not None else []
    words += [f"--cs-python={cs_python}"] if cs_python is not None else []
    raise typer.Exit(measuring.work(measuring.parser().parse_args(words)))


@tasks_app.command(
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench tasks similarity --against csl-examples",
        "fabrica-bench tasks similarity --against csl-examples --filter level=2 --top 20",
        "fabrica-bench tasks similarity --against csl-examples --against stream --out page.md",
    ),
)
def similarity(
    against: Annotated[
        list[Path], typer.Option("--against", metavar="DIR", help="Folder with other CSL programs; may be repeated.")
    ],
    filters: FilterOption = None,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="How many pairs to show.")] = 10,
    folder: TasksOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write a Markdown page here.")] = None,
    json: JsonOption = False,
) -> None:
    """Compare the sources of the bundles with programs of another origin, and show the pairs that are most alike.

    A score is a share of common fingerprints, idioms of the language left out. Exits with 1 when a source is a copy.
    """
    from fabrica_bench.integrity.originality import Screen, page, read_collection, resemblances
    from fabrica_bench.tasks import require_tasks

    use_tasks(folder)
    require_place(out)
    tasks = require_tasks(filters or ())
    screens = []
    for place in against:
        collection = read_collection(place)
        screens.append(Screen(place, len(collection.prints), tuple(resemblances(tasks, collection))))
    if out is not None:
        out.write_text(page(screens, len(tasks), top), encoding="utf-8", errors="replace")
    if json:
        console.write_json(_screens_json(screens, top))
    else:
        _write_screens(screens, len(tasks), top)
    raise typer.Exit(ExitCode.FAILURE if any(screen.copies for screen in screens) else ExitCode.OK)


def _screens_json(screens: list[Screen], top: int) -> dict[str, Any]:
    found = [(screen, pair) for screen in screens for pair in screen.pairs[:top]]
    copies = sum(screen.copies for screen in screens)
    return {
        "ok": not copies,
        "sources": max(len(screen.pairs) for screen in screens),
        "copies": copies,
        "pairs": [{"against": str(screen.folder), **asdict(pair), "copy": pair.is_copy} for screen, pair in found],
    }


def _write_screens(screens: list[Screen], tasks: int, top: int) -> None:
    for screen in screens:
        if len(screens) > 1:
            console.write(f"{screen.folder}:")
        console.write_table(
            [Column("score", True), Column("common", True), Column("task"), Column("file"), Column("most like")],
            [[f"{pair.score:.2f}", str(pair.common), pair.task, pair.ours, pair.theirs] for pair in screen.pairs[:top]],
        )
        console.write()
        compared = f"{counted(len(screen.pairs), 'source')} of {counted(tasks, 'task')}"
        copies = counted(screen.copies, "copy", "copies") if screen.copies else "no copies"
        console.write(f"{compared} compared with {counted(screen.files, 'file')}: {copies}")


def _filter_words(filters: list[str] | None) -> list[str]:
    return ["--filter", *filters] if filters else []
