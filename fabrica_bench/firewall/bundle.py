"""The files of a task's bundle: which a candidate supplies, which surround it, and which nobody may see."""

from __future__ import annotations

from fabrica_bench.errors import FabricaError, from_os_error
from fabrica_bench.plugins import Workflow
from fabrica_bench.tasks import Task


def editable_files(task: Task, workflow: Workflow) -> tuple[str, ...]:
    """Names that a candidate must supply.

    Raises:
        FabricaError: The task doesn't offer this workflow.
    """
    files = task.spec.bundle.editable.get(workflow)
    if not files:
        raise FabricaError(
            f"task {task.name} doesn't offer workflow {workflow}",
            place=str(task.root / "spec.yaml"),
            remedy=f"use one of {', '.join(task.spec.bundle.editable)}",
        )
    return tuple(files)


def bundle_texts(task: Task) -> dict[str, str]:
    """Text of every file of the reference bundle by name.

    Raises:
        FabricaError: A file is missing or isn't UTF-8: the task is broken.
    """
    texts: dict[str, str] = {}
    for name in task.spec.bundle.files:
        path = task.bundle_dir / name
        try:
            texts[name] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise FabricaError(f"byte {error.start} is not UTF-8", place=str(path), remedy="save as UTF-8") from error
        except FileNotFoundError as error:
            raise FabricaError(
                "a file of the task is missing",
                place=str(path),
                remedy="write it; docs/adding-a-task.md says what belongs in it",
            ) from error
        except OSError as error:
            raise from_os_error(error) from error
    return texts


def reference_files(task: Task, workflow: Workflow) -> dict[str, str]:
    """The expert reference's version of the editable files."""
    texts = bundle_texts(task)
    return {name: texts[name] for name in editable_files(task, workflow)}


def frozen_texts(task: Task, workflow: Workflow) -> dict[str, str]:
    """What surrounds a candidate: the bundle without its editable files and without either reference kernel.

    A reference that lay beside the candidate could be imported by it.
    """
    left_out = {*editable_files(task, workflow), task.spec.bundle.compute, task.spec.bundle.plain}
    return {name: text for name, text in bundle_texts(task).items() if name not in left_out}
