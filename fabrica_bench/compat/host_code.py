"""Compiled code of host scripts, kept for the forks of one process.

The runs of a batch execute equal copies of one runner and of the modules it imports, and compiling these took longer
than anything else in a short run. Nothing of them is executed here; equal bytes under an equal name give the kept code.
"""

from __future__ import annotations

import contextlib
import sys
from importlib.machinery import FileFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

_kept: dict[tuple[str, bytes], CodeType] = {}


def keep_compiled(folder: Path) -> None:
    """Compile the modules that lie in a folder; what is wrong with one is left to its import to say."""
    for path in sorted(folder.glob("*.py")):
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            source = path.read_bytes()
            if (path.name, source) not in _kept:
                _kept[path.name, source] = compile(source, path.name, "exec", dont_inherit=True)


def compiled(source: bytes, path: str) -> CodeType:
    """The code of a file's text.

    Raises:
        SyntaxError, ValueError: The text is no Python.
    """
    found = _kept.get((Path(path).name, source))
    return compile(source, path, "exec", dont_inherit=True) if found is None else _at(found, path)


def import_from(folder: Path) -> None:
    """Add a folder to the end of the import path, so that its modules can't stand in for any other."""
    name = str(folder)
    sys.path_importer_cache[name] = FileFinder(name, (_Loader, [".py"]))
    sys.path.append(name)


class _Loader(SourceFileLoader):
    """Imports a module by its kept code."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return compiled(self.get_data(path), path)


def _at(code: CodeType, path: str) -> CodeType:
    """The code as compiled under this path."""
    if code.co_filename == path:
        return code
    constants: tuple[Any, ...] = tuple(
        _at(item, path) if isinstance(item, CodeType) else item for item in code.co_consts
    )
    return code.replace(co_filename=path, co_consts=constants)
