"""Private folders of children, and how they are removed whatever the child has put there."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    """A temporary folder for one child; once the child is gone, so is the folder."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder in which nobody works any more. What can't be removed stays: it is no reason to fail.

    `shutil.rmtree` needs stack for each level and spells out each path, so a chain of some ten thousand folders, made
    in a second, would keep it for minutes. Here each folder is first moved up to the top: no path ever gets long.
    """
    numbers = itertools.count()
    while True:
        found = [entry for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)]
        moved = False
        for entry in found:
            for inner in _entries(Path(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    moved = _moved_up(Path(inner.path), folder, numbers) or moved
        if not moved:
            break
        for entry in found:
            shutil.rmtree(entry.path, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _moved_up(inner: Path, folder: Path, numbers: Iterator[int]) -> bool:
    for number in numbers:
        name = folder / f".{number}"
        if not os.path.lexists(name):
            with contextlib.suppress(OSError):
                os.chmod(inner, 0o700)  # a folder that may not be written to can't be given another parent
                inner.rename(name)
                return True
            return False
    return False


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder, whatever mode it was given."""
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
        with os.scandir(folder) as entries:
            return list(entries)
    return []
