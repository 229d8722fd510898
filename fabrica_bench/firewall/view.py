"""The task as an agent sees it."""

from __future__ import annotations

from fabrica_bench.errors import from_os_error
from fabrica_bench.firewall.bundle import bundle_texts, editable_files, frozen_texts
from fabrica_bench.firewall.screening import require_clean
from fabrica_bench.plugins import TaskView, Workflow
from fabrica_bench.tasks import Task
from fabrica_bench.tasks.canary import without_canary
from fabrica_bench.tasks.spec import Arch


def task_view(task: Task, *, arch: Arch, size: str, workflow: Workflow, toolchain: str) -> TaskView:
    """Everything that an agent may know of a task, screened before it leaves.

    There is no reference kernel, oracle, tolerance derivation, published cycle count or seed in it. In W2 the plain
    kernel, which is the program to improve, stands under the name of the compute file; in W1-C the reference's layout
    may be replaced but is shown.

    Raises:
        FabricaError: A file can't be read, the size or workflow doesn't exist, or a visible text holds the reference.
    """
    editable = editable_files(task, workflow)
    visible = frozen_texts(task, workflow)
    texts = bundle_texts(task)
    bundle = task.spec.bundle
    visible[bundle.layout] = texts[bundle.layout]
    if workflow == "W2" and bundle.plain is not None:
        visible[bundle.compute] = without_canary(texts[bundle.plain])
    try:
        cuda = task.cuda_path.read_text(encoding="utf-8")
        text = task.text_path.read_text(encoding="utf-8")
    except OSError as error:
        raise from_os_error(error) from error
    view = TaskView(
        name=task.name,
        workflow=workflow,
        arch=arch,
        cuda=cuda,
        task_md=text,
        files=dict(sorted(visible.items())),
        editable=editable,
        size=task.size(size),
        toolchain=toolchain,
    )
    require_clean(view, task)
    return view
