"""A new task to start from: a copy of a shipped one under another name, which is valid as it is."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.tasks.canary import with_canary
from fabrica_bench.tasks.catalogue import load_catalogue
from fabrica_bench.tasks.selection import load_task, shipped_tasks_root
from fabrica_bench.tasks.spec import TaskName, load_spec
from fabrica_bench.tasks.task import SPEC_FILE, Task, slug_of

NOT_COPIED: Final = ("published", "reference_cycles", "sets")
"""Top-level fields of a spec that are about the shipped task alone."""

FIXED_FIELDS: Final = {"origin": "user", "split": "test", "task_version": "1"}


def new_task(name: str, folder: Path, like: str) -> Task:
    """Make a task's folder.

    Args:
        name: The new task's name; its folder has it in lower case.
        folder: The tasks folder; made if it doesn't exist.
        like: A task of the folder or a shipped one, whose files are copied.

    Returns:
        The new task.

    Raises:
        UnknownNameError: No such task.
        FabricaError: The name is none or a shipped task's, the task exists already, or the folder can't be written.
    """
    try:
        TypeAdapter(TaskName).validate_python(name)
    except ValidationError:
        raise FabricaError(
            f"{name!r} can't be a task's name",
            remedy="use letters, digits and single dashes, at most 64, e.g. My-Task-1PE",
            code=ExitCode.USAGE,
        ) from None
    if slug_of(name) in {slug_of(entry.name) for entry in load_catalogue()}:
        raise FabricaError(f"{name} is a shipped task", remedy="choose another name", code=ExitCode.USAGE)
    model = _model(like, folder)
    root = folder.absolute() / slug_of(name)
    if root.exists():
        raise FabricaError("there is something of this name already", place=str(root), remedy="choose another name")
    try:
        shutil.copytree(model.root, root, ignore=shutil.ignore_patterns("__pycache__"))
        for path in sorted(root.rglob("*")):
            if path.is_file():
                _rename(path, model, name)
    except OSError as error:
        raise from_os_error(error) from error
    return Task(load_spec(root / SPEC_FILE), root)


def _model(like: str, folder: Path) -> Task:
    """A task to copy: one of the folder's own, or a shipped one."""
    own = folder / slug_of(like) / SPEC_FILE
    return load_task(like, folder if own.is_file() else shipped_tasks_root())


def _rename(path: Path, model: Task, name: str) -> None:
    text = path.read_text(encoding="utf-8")
    changed = text.replace(model.name, name)
    if path.name == SPEC_FILE:
        changed = _own_spec(text, name)
    elif path.name in (model.spec.bundle.compute, model.spec.bundle.plain):
        changed = with_canary(changed, name, path.name)
    if changed != text:
        path.write_text(changed, encoding="utf-8")


def _own_spec(text: str, name: str) -> str:
    """The model's spec under the new name, without what is known of the model alone."""
    for field in NOT_COPIED:
        text = re.sub(rf"^{field}:.*?(?=^\S|\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
    for field, value in {"name": name, **FIXED_FIELDS}.items():
        text = re.sub(rf"^{field}: .*$", f"{field}: {value}", text, flags=re.MULTILINE)
    text = re.sub(r",\s*published_cycles: \d+", "", text)
    return re.sub(r"^ +published_cycles: \d+\n", "", text, flags=re.MULTILINE)
