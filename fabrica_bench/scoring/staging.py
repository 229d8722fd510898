"""A fresh clone of a task's bundle with a candidate's files in it: the only tree that is ever built and run."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from fabrica_bench.errors import from_os_error, require_readable
from fabrica_bench.tasks import Task

PREFIX: Final = "fabrica-stage-"


def task_digest(task: Task) -> str:
    """SHA-256 over everything that decides a task's results: spec, oracle and bundle."""
    digest = hashlib.sha256()
    names = ["spec.yaml", "oracle.py", *(f"csl/{name}" for name in sorted(task.spec.bundle.files))]
    for name in names:
        try:
            data = (task.root / name).read_bytes()
        except OSError as error:
            raise from_os_error(error) from error
        digest.update(len(name).to_bytes(8, "big") + name.encode() + len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


class Stage:
    """A temporary folder with `bundle/`, and `runs/` for a private folder per run; removed on leaving the `with` block.

    Args:
        files: The candidate's editable files, already checked by `read_candidate`.
        frozen: The other files of the bundle; written last and read-only, so that they win over everything.
        parent: Where to make the folder instead of the system's place for temporary files.
    """

    def __init__(self, files: Mapping[str, str], frozen: Mapping[str, str], *, parent: Path | None = None) -> None:
        self._files = dict(files)
        self._frozen = dict(frozen)
        self._parent = parent
        self._root: Path | None = None

    @property
    def root(self) -> Path:
        if self._root is None:
            raise ValueError("the stage is not open")
        return self._root

    @property
    def bundle(self) -> Path:
        return self.root / "bundle"

    def run_folder(self, label: str) -> Path:
        """Private folder of one run, not yet made."""
        return self.root / "runs" / label

    def __enter__(self) -> Stage:
        try:
            # The real path: messages of the tools are searched for it, and a temporary folder may be behind a link.
            self._root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self._parent)).resolve()
            self.bundle.mkdir()
            for name, text in self._files.items():
                _write(self.bundle / name, text, read_only=False)
            for name, text in self._frozen.items():
                _write(self.bundle / name, text, read_only=True)
        except OSError as error:
            self._remove()
            raise from_os_error(error) from error
        except BaseException:
            self._remove()  # an interrupt: nobody will leave the `with` block that wasn't entered
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def altered(self) -> list[str]:
        """Names of staged files whose content is no longer what was written."""
        expected = {**self._files, **self._frozen}
        return sorted(name for name, text in expected.items() if not _holds(self.bundle / name, text))

    def scrub(self, text: str) -> str:
        """The text without the temporary path, so that records don't depend on it."""
        return text.replace(f"{self.root}/bundle/", "").replace(str(self.root), "<stage>")

    def _remove(self) -> None:
        root, self._root = self._root, None
        if root is None:
            return
        # Only ever our own folder: the name is checked because a wrong one would be unforgivable.
        if not root.name.startswith(PREFIX):
            raise ValueError(f"refusing to remove {root}")
        shutil.rmtree(root, ignore_errors=True)


def _write(path: Path, text: str, *, read_only: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A frozen name may be taken by a candidate's file of another kind; it must not be followed or kept.
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    if read_only:
        path.chmod(0o444)


def _holds(path: Path, text: str) -> bool:
    try:
        return not path.is_symlink() and path.read_bytes() == text.encode("utf-8")
    except OSError as error:
        require_readable(error)
        return False
