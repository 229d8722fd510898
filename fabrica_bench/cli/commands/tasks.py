"""`fabrica-bench tasks`: for those who write tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import FilterCommand, FilterOption, JsonOption, app, checked_choice, examples
from fabrica_bench.cli.commands.catalogue import LIST_EXAMPLES, SHOW_EXAMPLES, list_command, show
from fabrica_bench.cli.console import Column, counted
from fabrica_bench.errors import ExitCode

if TYPE_CHECKING:
    from fabrica_bench.integrity.task_lint import Problem
    from fabrica_bench.scoring.verdict import Invalid, NotScored, Valid
    from fabrica_bench.tasks import Task

tasks_app = typer.Typer(
    help="Look at tasks and check them; a folder of your own is named with FABRICA_BENCH_TASKS.",
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
    epilog=examples("fabrica-bench tasks lint", "FABRICA_BENCH_TASKS=my_tasks fabrica-bench tasks lint --json"),
)
def lint(filters: FilterOption = None, json: JsonOption = False) -> None:
    """Check tasks without building them.

    Is the folder complete, is the oracle pure and does it agree with the spec, do the sources have what the spec says?
    Exits with 1 when something is wrong.
    """
    from fabrica_bench.integrity.task_lint import folders_without_spec, lint_task
    from fabrica_bench.tasks import list_tasks, tasks_root

    found = [(task.name, problem) for task in list_tasks(filters or ()) for problem in lint_task(task)]
    if not filters:
        found += [(Path(problem.place).name, problem) for problem in folders_without_spec(tasks_root())]
    checked = len(list_tasks(filters or ()))
    if json:
        console.write_json(
            {"ok": not found, "tasks": checked, "problems": [{"task": name, **p.to_json()} for name, p in found]}
        )
    else:
        for name, problem in found:
            _write_problem(name, problem)
        console.write(f"{counted(checked, 'task')}, {counted(len(found), 'problem')}")
    raise typer.Exit(ExitCode.FAILURE if found or not checked else ExitCode.OK)


def _write_problem(name: str, problem: Problem) -> None:
    console.write(f"{name}: {problem.message}")
    console.write(f"   at: {problem.place}")
    console.write(f"  fix: {problem.remedy}")


@tasks_app.command(
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench tasks validate --filter name=ReLU-1PE",
        "fabrica-bench tasks validate --filter level=1 --arch wse3 --size medium --json",
    ),
)
def validate(
    filters: FilterOption = None,
    arch: ArchFilter = None,
    size: Annotated[str, typer.Option("--size", metavar="NAME", help="Named size of the tasks.")] = "small",
    json: JsonOption = False,
) -> None:
    """Lint tasks, then score both of their reference programs as if they were candidates.

    Every reference must be valid on visible and held-out inputs. Exits with 1 when something is wrong.
    """
    from fabrica_bench.integrity.task_lint import lint_task
    from fabrica_bench.tasks import list_tasks

    chosen = checked_choice("--arch", arch, ARCHITECTURES) if arch is not None else None
    tasks = list_tasks(filters or ())
    for task in tasks:
        task.size(size)
    rows: list[dict[str, Any]] = []
    problems = 0
    for task in tasks:
        for problem in (found := lint_task(task)):
            console.note(f"{task.name}: {problem.place}: {problem.message} ({problem.remedy})")
        problems += len(found)
        if not found:
            rows += _score_references(task, chosen, size)
    good = sum(row["verdict"] == "valid" for row in rows)
    ok = bool(rows) and good == len(rows) and not problems
    if json:
        console.write_json({"ok": ok, "lint_problems": problems, "rows": rows})
    else:
        _write_references(rows)
        console.write()
        console.write(
            f"{good} of {counted(len(rows), 'reference')} valid, {counted(problems, 'problem')} found by lint"
        )
    raise typer.Exit(ExitCode.OK if ok else ExitCode.FAILURE)


@tasks_app.command(
    "check-runner",
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench tasks check-runner",
        "FABRICA_BENCH_TASKS=my_tasks fabrica-bench tasks check-runner --filter name=My-Task-1PE",
    ),
)
def check_runner_command(
    filters: FilterOption = None,
    size: Annotated[str, typer.Option("--size", metavar="NAME", help="Named size of the tasks.")] = "small",
    json: JsonOption = False,
) -> None:
    """Falsify what the runners read back from the device, and see whether they notice.

    Each runner must succeed on the true outputs of its reference and fail on every falsified ones; only exit statuses
    count. Exits with 1 when one doesn't.
    """
    from fabrica_bench.scoring.runner_check import check_runner
    from fabrica_bench.tasks import list_tasks

    found = [check_runner(task, task.spec.bundle.archs[-1], size) for task in list_tasks(filters or ())]
    good = sum(item.ok for item in found)
    if json:
        rows = [{"task": item.task, "ok": item.ok, "noticed": item.noticed, "missed": item.missed} for item in found]
        console.write_json({"ok": good == len(found) > 0, "rows": rows})
    else:
        console.write_table(
            [Column("task"), Column("noticed", True), Column("problem", prose=True)],
            [
                [
                    item.task,
                    f"{len(item.noticed)}/{len(item.noticed) + len(item.missed)}",
                    "refuses right outputs" if item.refused_right else ", ".join(item.missed) or "–",
                ]
                for item in found
            ],
        )
        console.write()
        console.write(f"{good} of {counted(len(found), 'runner')} notice every change")
    raise typer.Exit(ExitCode.OK if good == len(found) > 0 else ExitCode.FAILURE)


def _score_references(task: Task, chosen: str | None, size: str) -> Iterator[dict[str, Any]]:
    from fabrica_bench.firewall.bundle import bundle_texts
    from fabrica_bench.scoring.api import score

    bundle = task.spec.bundle
    texts = bundle_texts(task)
    for arch in bundle.archs:
        if chosen not in (None, arch):
            continue
        for label, name in (("expert", bundle.compute), ("plain", bundle.plain)):
            if name is None:
                continue
            console.note(f"{task.name}: {label} on {arch}")
            verdict = score(task, {bundle.compute: texts[name]}, arch=arch, size=size, trusted=True)
            yield {"task": task.name, "arch": arch, "reference": label, **_facts(verdict)}


def _facts(verdict: Valid | Invalid | NotScored) -> dict[str, Any]:
    from fabrica_bench.report.tables import short_outcome

    if verdict.kind == "valid":
        return {"verdict": "valid", "cycles": verdict.cycles, "reason": None}
    return {"verdict": short_outcome(verdict), "cycles": None, "reason": " ".join(verdict.reason.split())}


def _write_references(rows: list[dict[str, Any]]) -> None:
    from fabrica_bench.report.tables import number_text

    console.write_table(
        [
            Column("task"),
            Column("arch"),
            Column("reference"),
            Column("verdict"),
            Column("cycles", True),
            Column("reason", prose=True),
        ],
        [
            [
                row["task"],
                row["arch"],
                row["reference"],
                row["verdict"],
                number_text(row["cycles"]),
                row["reason"] or "",
            ]
            for row in rows
        ],
    )


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
) -> None:
    """Build the CUDA sources with nvcc, run them on a GPU, and compare them with their oracles."""
    from fabrica_bench.tasks import cuda_check

    words = [*_filter_words(filters), *(["--compile-only"] if compile_only else [])]
    words += [f"--out={out}"] if out is not None else []
    words += [f"--json={record}"] if record is not None else []
    raise typer.Exit(cuda_check.work(cuda_check.parser().parse_args(words)))


@tasks_app.command(
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench tasks measure --filter name=ReLU-1PE --arch wse3 --size small",
        "fabrica-bench tasks measure --filter name=ReLU-1PE --record",
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
    record: Annotated[bool, typer.Option("--record", help="Write the cycles into spec.yaml.")] = False,
) -> None:
    """Run the reference programs, compare them with their oracles, and show their cycles."""
    from fabrica_bench.tasks import measure as measuring

    words = _filter_words(filters)
    words += [f"--arch={checked_choice('--arch', arch, ARCHITECTURES)}"] if arch is not None else []
    words += [f"--size={size}"] if size is not None else []
    words += [f"--variant={checked_choice('--variant', variant, measuring.VARIANTS)}"] if variant is not None else []
    words += ["--quick"] if quick else []
    words += ["--record"] if record else []
    raise typer.Exit(measuring.work(measuring.parser().parse_args(words)))


@tasks_app.command(
    cls=FilterCommand,
    epilog=examples(
        "fabrica-bench tasks similarity --against csl-examples",
        "fabrica-bench tasks similarity --against csl-examples --filter level=2 --top 20",
    ),
)
def similarity(
    against: Annotated[Path, typer.Option("--against", metavar="DIR", help="Folder with other CSL programs.")],
    filters: FilterOption = None,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="How many pairs to show.")] = 10,
    json: JsonOption = False,
) -> None:
    """Compare the sources of the bundles with programs of another origin, and show the pairs that are most alike.

    A score is a share of common fingerprints, idioms of the language left out. Exits with 1 when a source is a copy.
    """
    from fabrica_bench.integrity.originality import read_collection, resemblances
    from fabrica_bench.tasks import list_tasks

    collection = read_collection(against)
    tasks = list_tasks(filters or ())
    found = resemblances(tasks, collection)
    copies = sum(pair.is_copy for pair in found)
    if json:
        rows = [{**asdict(pair), "copy": pair.is_copy} for pair in found[:top]]
        console.write_json({"ok": not copies, "sources": len(found), "copies": copies, "pairs": rows})
    else:
        console.write_table(
            [Column("score", True), Column("common", True), Column("task"), Column("file"), Column("most like")],
            [[f"{pair.score:.2f}", str(pair.common), pair.task, pair.ours, pair.theirs] for pair in found[:top]],
        )
        console.write()
        compared = f"{counted(len(found), 'source')} of {counted(len(tasks), 'task')}"
        console.write(f"{compared} compared with {counted(len(collection.prints), 'file')}: {copies or 'no'} copies")
    raise typer.Exit(ExitCode.FAILURE if copies else ExitCode.OK)


def _filter_words(filters: list[str] | None) -> list[str]:
    return ["--filter", *filters] if filters else []
