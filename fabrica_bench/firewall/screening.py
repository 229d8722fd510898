"""Screening of what an agent is shown: nothing of a hidden kernel may be in it."""

from __future__ import annotations

import os
import re
import stat
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.integrity.findings import Finding
from fabrica_bench.integrity.leakage import MIN_TEXT, check_leakage, similarity
from fabrica_bench.plugins import TaskView
from fabrica_bench.tasks import Task

_FENCED_CSL: Final = re.compile(r"^[ ]*```csl\n(.*?)^[ ]*```", re.DOTALL | re.MULTILINE)

MAX_FILE_BYTES: Final = 1 << 20
"""What is read of one file of an agent's folder."""

MAX_SCREENED_BYTES: Final = 32 << 20
"""Characters that are looked through per attempt."""


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


def public_texts(task: Task, workflow: str) -> tuple[str, ...]:
    """CSL texts that everyone is shown: what they share with a hidden kernel is no secret."""
    bundle = task.spec.bundle
    names = [bundle.window, bundle.layout]
    if workflow == "W2" and bundle.plain is not None:
        names.append(bundle.plain)
    texts = [(task.bundle_dir / name).read_text(encoding="utf-8") for name in names]
    # The blocks of the description that show what must be kept.
    description = task.text_path.read_text(encoding="utf-8")
    return (*texts, *(textwrap.dedent(block) for block in _FENCED_CSL.findall(description)))


def leaks(text: str, task: Task, workflow: str, place: str = "", known: Iterable[str] = ()) -> list[Finding]:
    """Hidden kernels of which `text` holds a copy, in whatever dress.

    The plain kernel is the obvious way to write the task down, so an honest program may look the same: only its canary
    counts. What a kernel shares with `known`, texts that the agent has by right, is no secret.
    """
    bundle, found = task.spec.bundle, list[Finding]()
    for name, kernel in hidden_kernels(task, workflow).items():
        public = (*public_texts(task, workflow), *known)
        findings = check_leakage(text, kernel, task=task.name, file=name, public=public, place=place)
        found += [item for item in findings if name == bundle.compute or "canary" in item.message]
    return found


def candidate_leaks(files: Mapping[str, str], task: Task, workflow: str) -> list[Finding]:
    """`leaks` of every file of a candidate, layouts left out: the reference's layout is public."""
    names = (name for name in files if name != task.spec.bundle.layout)
    return [finding for name in names for finding in leaks(files[name], task, workflow, name)]


def reference_share(files: Mapping[str, str], task: Task, workflow: str) -> float:
    """Largest share of the expert kernel's distinctive fingerprints that a candidate's file holds, 0 to 1."""
    kernel, public = hidden_kernels(task, workflow)[task.spec.bundle.compute], public_texts(task, workflow)
    return max((similarity(text, kernel, public).share for text in files.values()), default=0.0)


def require_clean(view: TaskView, task: Task) -> None:
    """Check every text of a view.

    Raises:
        LeakError: Naming the text and the kernel.
    """
    for name, text in {"kernel.cu": view.cuda, "task.md": view.task_md, **view.files}.items():
        for finding in leaks(text, task, view.workflow):
            message = f"{name} of {task.name} {finding.message}"
            raise LeakError(message, place=str(task.root), remedy="mend the task before it is used")


class Screen:
    """Looks through what an agent sees, says and keeps while it works on a task.

    Args:
        task: The task.
        workflow: Decides what is hidden.

    Attributes:
        findings: What was found, one per place and kernel.
    """

    def __init__(self, task: Task, workflow: str) -> None:
        self._task = task
        self._workflow = workflow
        self._seen: set[int] = set()
        self._read = 0
        self.findings: list[Finding] = []

    def data(self, value: Any, place: str) -> None:
        """Look through all texts of a JSON value."""
        if isinstance(value, str):
            self._text(value, place)
        elif isinstance(value, Mapping):
            for item in value.values():
                self.data(item, place)
        elif isinstance(value, list | tuple):
            for item in value:
                self.data(item, place)

    def folder(self, folder: Path) -> None:
        """Look through the files of an agent's private folder; links are not followed."""
        waiting = [folder]
        while waiting:  # no recursion: an agent may nest folders deeper than the stack is
            try:
                with os.scandir(waiting.pop()) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                continue  # also a path that is too long
            for entry in found:
                if not entry.is_dir(follow_symlinks=False):
                    self._file(Path(entry.path), Path(entry.path).relative_to(folder).as_posix())
            waiting += [Path(entry.path) for entry in reversed(found) if entry.is_dir(follow_symlinks=False)]

    def _file(self, path: Path, name: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return
        with open(descriptor, "rb") as stream:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                self._text(stream.read(MAX_FILE_BYTES).decode("utf-8", errors="replace"), f"file {name} of the agent")

    def _text(self, text: str, place: str) -> None:
        if len(text) < MIN_TEXT or hash(text) in self._seen or self._read > MAX_SCREENED_BYTES:
            return
        self._seen.add(hash(text))
        self._read += len(text)
        self.findings += leaks(text, self._task, self._workflow, place)


__all__ = [
    "LeakError",
    "Screen",
    "candidate_leaks",
    "hidden_kernels",
    "leaks",
    "public_texts",
    "reference_share",
    "require_clean",
]
