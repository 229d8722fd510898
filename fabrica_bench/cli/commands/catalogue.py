"""`fabrica-bench list`, `show` and `agents`: what there is to run."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import FilterCommand, FilterOption, JsonOption, TasksOption, app, examples, use_tasks
from fabrica_bench.cli.console import Column

if TYPE_CHECKING:
    from fabrica_bench.tasks import Task
    from fabrica_bench.tasks.spec import Tensor


LIST_EXAMPLES: Final = (
    "fabrica-bench list",
    "fabrica-bench list --filter level=1 set=core,w2",
    "fabrica-bench list --json",
)
SHOW_EXAMPLES: Final = ("fabrica-bench show ReLU-1PE", "fabrica-bench show relu-1pe --json")


@app.command(
    "list",
    cls=FilterCommand,
    epilog=examples(*LIST_EXAMPLES),
)
def list_command(filters: FilterOption = None, folder: TasksOption = None, json: JsonOption = False) -> None:
    """List the tasks.

    A folder whose spec is broken is named on standard error; the others are listed, and the exit code is 3.
    """
    from fabrica_bench.cli.main import report_error
    from fabrica_bench.tasks import survey_tasks, tasks_root

    use_tasks(folder)
    tasks, errors = survey_tasks(filters or ())
    if json:
        console.write_json([_summary(task) for task in tasks])
    elif tasks or not errors:
        _write_list(tasks, str(tasks_root()))
    for error in errors:
        report_error(error)
    if errors:
        raise typer.Exit(errors[0].code)


def _write_list(tasks: Sequence[Task], root: str) -> None:
    columns = [Column("task"), Column("level", True), Column("family"), Column("sets"), Column("what", prose=True)]
    rows = [
        [
            task.name,
            str(task.spec.level),
            task.spec.family,
            ", ".join(task.spec.sets),
            first_sentence(task.spec.description),
        ]
        for task in tasks
    ]
    console.write_table(columns, rows)
    console.write()
    more = "`fabrica-bench show TASK` tells more" if tasks else f"none in {root} meets this"
    console.write(f"{console.counted(len(tasks), 'task')}; {more}")


@app.command(epilog=examples(*SHOW_EXAMPLES))
def show(
    task: Annotated[str, typer.Argument(metavar="TASK", help="Name of a task, as `list` prints it.")],
    folder: TasksOption = None,
    json: JsonOption = False,
) -> None:
    """Show a task: inputs, outputs, sizes and files."""
    from fabrica_bench.tasks import load_task

    use_tasks(folder)
    found = load_task(task)
    if json:
        console.write_json({**_summary(found), "spec": found.spec.model_dump(mode="json")})
        return
    spec = found.spec
    console.write(f"{found.name}  (level {spec.level}, {spec.family})")
    console.write(spec.description)
    console.write()
    for title, arrays in (("inputs", spec.inputs), ("outputs", spec.outputs)):
        console.write(f"{title}:")
        for array in arrays:
            console.write(f"  {_tensor_line(array)}")
    console.write("sizes:")
    for size in spec.sizes:
        params = ", ".join(f"{name}={value}" for name, value in size.params.items())
        console.write(f"  {size.name}: {params}")
    for workflow, names in spec.bundle.editable.items():
        console.write(f"a candidate for {workflow} holds: {', '.join(names)}")
    console.write(f"sets: {', '.join(spec.sets) or 'none'}")
    console.write(f"files: {found.root}")


@app.command(epilog=examples("fabrica-bench agents", "fabrica-bench agents --json"))
def agents(json: JsonOption = False) -> None:
    """List the installed agents and their models."""
    from fabrica_bench.plugins import load_plugins

    found, errors = load_plugins()
    if json:
        console.write_json(
            [{"name": agent.name, "model": agent.model, "control": agent.control} for agent in found.values()]
        )
    else:
        rows = [[agent.name, agent.model, "control" if agent.control else "agent"] for agent in found.values()]
        console.write_table([Column("agent"), Column("model"), Column("kind")], rows)
    if errors:
        # The healthy plug-ins were listed; the first broken one is the answer of the command.
        raise errors[0]


def _summary(task: Task) -> dict[str, Any]:
    spec = task.spec
    return {
        "name": task.name,
        "slug": task.slug,
        "level": spec.level,
        "family": spec.family,
        "sets": sorted({*spec.sets, "full"}),
        "description": spec.description,
        "root": str(task.root),
    }


def first_sentence(text: str) -> str:
    """Up to the full stop that ends the first sentence (not one of an ellipsis), cut at a word where it is too long."""
    head = re.split(r"(?<!\.)\.\s+(?=[A-Z])", text.strip())[0]
    if not head.endswith("..."):
        head = head.rstrip(".")
    return head if len(head) <= 80 else textwrap.shorten(head, 80, placeholder=" ...")


def _tensor_line(array: Tensor) -> str:
    return f"{array.name} {array.dtype}{array.shape}: {array.text}"
