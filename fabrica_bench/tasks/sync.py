"""What follows from elsewhere in a bundle: write it, or tell what differs.

    fabrica-bench tasks sync [--check] [--tasks DIR]

A bundle must stand alone, so each has its own copy of what it shares with others, the same byte for byte:

* whole files, the timing window and the host scripts' common part: those of `tasks/saxpy-1pe/csl` are the ones to edit;
* passages between a line `shared: NAME` and a line `end of shared: NAME`, both in comments, in any file of a task: the
  first one is the one to edit, by folder, and within a task in the order layout, compute, plain, the other files.

The last line of either reference kernel is its canary, and the commands files follow from the sizes in spec.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from fabrica_bench.errors import from_os_error
from fabrica_bench.tasks.canary import with_canary
from fabrica_bench.tasks.commands_file import commands_text
from fabrica_bench.tasks.selection import list_tasks, load_task, shipped_tasks_root
from fabrica_bench.tasks.task import Task

MODEL_TASK: Final = "SAXPY-1PE"

PASSAGE: Final = re.compile(
    r"^(?P<head>[ \t]*(?://|#) shared: (?P<name>[^\n]+)\n)(?P<body>.*?)(?=^[ \t]*(?://|#) end of shared: (?P=name)$)",
    re.MULTILINE | re.DOTALL,
)


def common_files(model: Task) -> tuple[str, ...]:
    """Names of the common files in the model task's bundle."""
    bundle = model.spec.bundle
    return (bundle.window,) if bundle.host is None else (bundle.window, bundle.host)


def differing(tasks: Sequence[Task], model: Task) -> Iterator[tuple[Path, bytes]]:
    """Files of bundles that are missing or not the model's, with the content they should have.

    Raises:
        FabricaError: A file can't be read.
    """
    try:
        for name in common_files(model):
            content = (model.bundle_dir / name).read_bytes()
            for task in tasks:
                path = task.bundle_dir / name
                if name in task.spec.bundle.files and not (path.is_file() and path.read_bytes() == content):
                    yield path, content
    except OSError as error:
        raise from_os_error(error) from error


def unlike_their_models(tasks: Sequence[Task], model: Task) -> Iterator[tuple[Path, bytes]]:
    """Files with a shared passage that isn't its model's, and reference kernels that don't end with their canary, with
    the content they should have.

    Raises:
        FabricaError: A file can't be read.
    """
    models: dict[str, str] = {}
    try:
        for task in sorted(tasks, key=lambda task: task.slug):
            bundle = task.spec.bundle
            kernels = [task.bundle_dir / name for name in (bundle.compute, bundle.plain) if name is not None]
            own = [task.bundle_dir / name for name in bundle.files if name not in common_files(model)]
            for path in [*own, task.root / "oracle.py", task.cuda_path]:
                if not path.is_file():
                    continue  # the lint names it
                text = path.read_bytes().decode("utf-8", errors="surrogateescape")
                for match in PASSAGE.finditer(text):
                    models.setdefault(match["name"], match["body"])
                wanted = PASSAGE.sub(lambda match: match["head"] + models[match["name"]], text)
                if path in kernels:
                    wanted = with_canary(wanted, task.name, path.name)
                if text != wanted:
                    yield path, wanted.encode("utf-8", errors="surrogateescape")
    except OSError as error:
        raise from_os_error(error) from error


def unlike_their_specs(tasks: Sequence[Task]) -> Iterator[tuple[Path, bytes]]:
    """Commands files that are missing or don't have the spec's sizes, with the content they should have.

    Raises:
        FabricaError: A file can't be read.
    """
    try:
        for task in tasks:
            for arch, name in task.spec.bundle.commands.items():
                path, wanted = task.bundle_dir / name, commands_text(task, arch).encode()
                if not (path.is_file() and path.read_bytes() == wanted):
                    yield path, wanted
    except OSError as error:
        raise from_os_error(error) from error


def synchronise(folder: Path | None, *, check: bool) -> list[Path]:
    """Write what differs, in all tasks of a folder; with `check` only find it.

    Returns:
        The files that differed.

    Raises:
        FabricaError: A task is broken, or a file can't be read or written.
    """
    tasks, model = list_tasks((), folder), load_task(MODEL_TASK, shipped_tasks_root())
    found = [*differing(tasks, model), *unlike_their_models(tasks, model), *unlike_their_specs(tasks)]
    try:
        for path, content in found if not check else ():
            path.write_bytes(content)
            if path.suffix == ".sh":
                path.chmod(0o755)
    except OSError as error:
        raise from_os_error(error) from error
    return [path for path, _ in found]
