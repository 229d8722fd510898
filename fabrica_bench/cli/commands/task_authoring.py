"""`fabrica-bench tasks new`, `schema` and `cycles`: what goes with writing tasks beside checking them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import FilterCommand, FilterOption, TasksOption, examples, use_tasks
from fabrica_bench.cli.commands.tasks import tasks_app
from fabrica_bench.errors import ExitCode, FabricaError, from_os_error

OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write it here instead of standard output.")
]

NEXT_STEPS = """Made {root}: a copy of {like} under the name {name}, which is valid as it is. Now change, in this order:
  spec.yaml       sizes, arrays, tolerances, limits
  oracle.py       inputs and expected results
  cuda/kernel.cu  the kernel and its launcher
  csl/            layout.csl, pe.csl, plain.csl, run.py; `tasks sync` writes the commands files
  task.md         what an agent is told
docs/adding-a-task.md explains each. Check it again and again:
  fabrica-bench tasks lint --tasks {folder} --filter name={name}
  fabrica-bench tasks validate --all --tasks {folder} --filter name={name}"""


@tasks_app.command(
    epilog=examples(
        "fabrica-bench tasks new My-Task-1PE --tasks my_tasks",
        "fabrica-bench tasks new My-Halo --tasks my_tasks --like Laplacian2D-Halo",
    )
)
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new task's name, e.g. My-Task-1PE.")],
    folder: Annotated[
        Path | None,
        typer.Option("--tasks", metavar="DIR", help="Tasks folder to put it in; made if it isn't there."),
    ] = None,
    like: Annotated[
        str,
        typer.Option("--like", metavar="TASK", help="A similar task, yours or a shipped one, to copy."),
    ] = "SAXPY-1PE",
) -> None:
    """Make a new task from a shipped one.

    It has every file that a task needs and is valid at once, so that each of your changes can be checked.
    """
    from fabrica_bench.tasks.selection import tasks_root
    from fabrica_bench.tasks.skeleton import new_task

    place = folder if folder is not None else tasks_root()
    if folder is None and place.name == "_tasks":
        raise FabricaError(
            "the installed package is no place for a task of yours",
            remedy="name a folder with --tasks",
            code=ExitCode.USAGE,
        )
    made = new_task(name, place, like)
    console.write(NEXT_STEPS.format(root=made.root, like=like, name=name, folder=place))


@tasks_app.command(epilog=examples("fabrica-bench tasks sync --tasks my_tasks", "fabrica-bench tasks sync --check"))
def sync(
    folder: TasksOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only tell what differs; exit code 1 if anything does.")
    ] = False,
) -> None:
    """Write what follows from elsewhere: commands files, canaries, and the files and passages that bundles share."""
    from fabrica_bench.tasks.sync import synchronise

    use_tasks(folder)
    found = synchronise(None, check=check)
    for path in found:
        console.write(f"{'differs' if check else 'written'}: {path}")
    raise typer.Exit(ExitCode.FAILURE if check and found else ExitCode.OK)


@tasks_app.command(epilog=examples("fabrica-bench tasks schema", "fabrica-bench tasks schema --out spec.schema.json"))
def schema(out: OutOption = None) -> None:
    """Print the JSON Schema of spec.yaml, for editors and other tools."""
    from fabrica_bench.tasks.spec import spec_json_schema

    _give(json.dumps(spec_json_schema(), indent=2), out)


@tasks_app.command(
    cls=FilterCommand,
    epilog=examples("fabrica-bench tasks cycles", "fabrica-bench tasks cycles --filter level=1 --out page.md"),
)
def cycles(filters: FilterOption = None, folder: TasksOption = None, out: OutOption = None) -> None:
    """Print the recorded cycles of all references beside the published ones, as Markdown. Nothing is run."""
    from fabrica_bench.tasks import require_tasks
    from fabrica_bench.tasks.cycles_page import cycles_page

    use_tasks(folder)
    _give(cycles_page(require_tasks(filters or ())).rstrip("\n"), out)


def _give(text: str, out: Path | None) -> None:
    if out is None:
        console.write(text)
        return
    try:
        out.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise from_os_error(error) from error
