"""Finding tasks by the name that a user typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabrica_bench.errors import UnknownNameError

if TYPE_CHECKING:
    from fabrica_bench.tasks import Task


def task_called(name: str) -> Task:
    """The task with this name or slug; letter case is ignored.

    Raises:
        UnknownNameError: No such task; near matches are named.
    """
    from fabrica_bench.tasks import list_tasks

    tasks = list_tasks()
    wanted = name.casefold()
    for task in tasks:
        if wanted in {task.name.casefold(), task.slug.casefold()}:
            return task
    raise UnknownNameError("task", name, [task.name for task in tasks], listing="fabrica-bench list")
