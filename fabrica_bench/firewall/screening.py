"""Screening of what an agent is shown: nothing of a hidden kernel may be in it."""

from __future__ import annotations

from collections.abc import Iterator

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.integrity.leakage import similarity
from fabrica_bench.plugins import TaskView
from fabrica_bench.tasks import Task


class LeakError(FabricaError):
    """A text that an agent would see holds the reference kernel."""

    def __init__(self, message: str, *, place: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message, place=place, remedy=remedy, code=ExitCode.HARNESS)


def hidden_kernels(task: Task, workflow: str) -> dict[str, str]:
    """Texts that an agent must not see: the expert kernel always, the plain one unless it is the input (W2)."""
    bundle = task.spec.bundle
    names = [bundle.compute]
    if bundle.plain is not None and workflow != "W2":
        names.append(bundle.plain)
    return {name: (task.bundle_dir / name).read_text(encoding="utf-8") for name in names}


def leaks(text: str, task: Task, workflow: str) -> Iterator[str]:
    """One sentence per hidden kernel of which `text` holds a copy, renamed or reformatted or not."""
    kernels = hidden_kernels(task, workflow)
    plain = task.spec.bundle.plain
    # In W2 the plain kernel is public, and what it shares with the expert's is no secret.
    public = [(task.bundle_dir / plain).read_text(encoding="utf-8")] if workflow == "W2" and plain is not None else []
    public.append((task.bundle_dir / task.spec.bundle.window).read_text(encoding="utf-8"))
    for name, kernel in kernels.items():
        found = similarity(text, kernel, public)
        if found.is_copy:
            yield f"holds {found.found} of {found.total} distinctive passages of {name}"


def require_clean(view: TaskView, task: Task) -> None:
    """Check every text of a view.

    Raises:
        LeakError: Naming the text and the kernel.
    """
    for name, text in {"kernel.cu": view.cuda, "task.md": view.task_md, **view.files}.items():
        for sentence in leaks(text, task, view.workflow):
            raise LeakError(
                f"{name} of {task.name} {sentence}", place=str(task.root), remedy="mend the task before it is used"
            )


__all__ = ["LeakError", "hidden_kernels", "leaks", "require_clean"]
