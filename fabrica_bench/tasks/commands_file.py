"""The commands files of a bundle: how the reference is built and run for one target, at each size of the spec."""

from __future__ import annotations

from typing import Final

from fabrica_bench.tasks.spec import FABRIC_OFFSETS, Arch
from fabrica_bench.tasks.task import Task

TARGETS: Final[dict[Arch, str]] = {"wse2": "WSE-2", "wse3": "WSE-3"}


def commands_text(task: Task, arch: Arch) -> str:
    """Content of a task's commands file for a target."""
    bundle, names = task.spec.bundle, task.spec.size_names
    x, y = FABRIC_OFFSETS
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            f"# Build and run on {TARGETS[arch]}: ./{bundle.commands[arch]} [{'|'.join(names)}]",
            "",
            "set -e",
            "",
            f'size="${{1:-{names[0]}}}"',
            'case "$size" in',
            *(_case(task, name) for name in names),
            f"  *) echo \"unknown size '$size'; known: {', '.join(names)}\" >&2 && exit 2 ;;",
            "esac",
            "",
            f'cslc {bundle.layout} --arch={arch} --fabric-dims="$dims" --fabric-offsets={x},{y} --params="$params" \\',
            "  --memcpy --channels=1 -o out",
            f"cs_python {bundle.runner} --name out",
            "",
        ]
    )


def _case(task: Task, name: str) -> str:
    size = task.size(name)
    columns, rows = task.fabric_dims(size)
    params = ",".join(f"{key}:{value}" for key, value in task.compile_params(size).items())
    return f"  {name}) dims={columns},{rows} params={params} ;;"
