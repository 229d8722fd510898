"""Reading CSL files: bytes on disk to `SourceFile`, with every way this can fail said clearly."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fabrica_bench.csl.ast import SourceFile, Span
from fabrica_bench.csl.diagnostics import CslError, Diagnostic, Severity, error

#: Largest file that is read, in bytes. The largest public CSL program has 80 KB; the limit bounds memory and time.
MAX_SOURCE_BYTES = 1024 * 1024


def load_source(path: str | os.PathLike[str], *, display: str | None = None, is_system: bool = False) -> SourceFile:
    """Read a CSL file.

    Args:
        path: The file to read.
        display: The path shown in diagnostics; `path` as given when None.
        is_system: Whether it is a library file of this package.

    Raises:
        CslError: The file is missing, unreadable, not a regular file, too large, or not UTF-8 text.
    """
    name = display if display is not None else os.fspath(path)
    data = _read_bytes(Path(path), name)
    absolute = os.path.abspath(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise CslError([_encoding_diagnostic(data, problem, name, absolute)]) from None
    return SourceFile(name, text, absolute, is_system)


def virtual_source(name: str, text: str, *, is_system: bool = False) -> SourceFile:
    """A source that isn't a file on disk, such as `<empty>` or text from standard input."""
    return SourceFile(name, text, name, is_system)


def _read_bytes(path: Path, name: str) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise error(f"unable to open '{name}': it is a folder", hint="name a .csl file in it")
        if not stat.S_ISREG(mode):
            # a pipe or a device could block for ever
            raise error(f"unable to open '{name}': it is not a regular file", hint="name a .csl file")
        with path.open("rb") as stream:
            data = stream.read(MAX_SOURCE_BYTES + 1)
    except FileNotFoundError:
        raise error(f"unable to open '{name}': no such file", hint="check the path") from None
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise error(f"unable to open '{name}': {(reason or 'unreadable').lower()}", hint="check the path") from None
    if len(data) > MAX_SOURCE_BYTES:
        limit = MAX_SOURCE_BYTES // (1024 * 1024)
        raise error(f"'{name}' is larger than {limit} MiB", hint="split the program into several files")
    return data


def _encoding_diagnostic(data: bytes, problem: UnicodeDecodeError, name: str, absolute: str) -> Diagnostic:
    """Point at the first undecodable byte, in the text with such bytes replaced one by one."""
    text = data.decode("utf-8", errors="surrogateescape").encode("utf-8", "replace").decode("utf-8")
    start = len(data[: problem.start].decode("utf-8", errors="replace"))
    span = Span(SourceFile(name, text, absolute), start, start + 1)
    message = f"the file is not UTF-8 text: byte 0x{data[problem.start]:02x}"
    return Diagnostic(Severity.ERROR, message, span, "save the file as UTF-8")
