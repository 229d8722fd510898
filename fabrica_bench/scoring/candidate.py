"""Reading a candidate's files: a few small text files with expected names, and nothing else.

A candidate comes as a folder or as a mapping from name to text. Everything about it is suspect: names that escape,
links to other files, binary content, files that a task doesn't ask for. Each problem is one message that names the
file and what to do.
"""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from fabrica_bench.errors import FabricaError, from_os_error

MAX_FILE_BYTES: Final = 256 * 1024
"""A PE holds 48 KiB of code and data; five times that in source text is generous."""

MAX_FILES: Final = 64


class CandidateError(FabricaError):
    """The candidate's files can't be used; it is the candidate's fault."""


def read_candidate(source: Path | Mapping[str, str], editable: Iterable[str]) -> dict[str, str]:
    """Check a candidate and return its files by name, in the order of `editable`.

    Args:
        source: A folder, or the texts by name.
        editable: Exactly the names that the task wants.

    Raises:
        CandidateError: A file is missing, extra, too big, binary, not UTF-8, a link, or its name escapes.
        FabricaError: The folder doesn't exist or can't be read.
    """
    wanted = tuple(editable)
    files = _read_mapping(source) if isinstance(source, Mapping) else _read_folder(source, wanted)
    place = "candidate" if isinstance(source, Mapping) else str(source)
    for name in wanted:
        if name not in files:
            raise CandidateError(f"file {name} is missing", place=place, remedy=f"supply {_listing(wanted)}")
    for name in files:
        if name not in wanted:
            raise CandidateError(
                f"unexpected file {_shown(name)}",
                place=place,
                remedy=f"only {_listing(wanted)} may be supplied; remove it",
            )
    return {name: files[name] for name in wanted}


def candidate_digest(files: Mapping[str, str]) -> str:
    """SHA-256 over names and contents; independent of the order."""
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode("utf-8"), files[name].encode("utf-8")):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def check_name(name: str) -> str:
    """Return a relative POSIX name in normal form.

    Raises:
        CandidateError: The name is absolute, leaves the folder, or has odd characters.
    """
    remedy = "use plain relative names such as pe.csl"
    if not name or name != name.strip() or len(name) > 200:
        raise CandidateError(f"bad file name {_shown(name)}", place="candidate", remedy=remedy)
    if "\\" in name or any(unicodedata.category(char).startswith("C") for char in name):
        raise CandidateError(
            f"file name {_shown(name)} has a backslash or a control character", place="candidate", remedy=remedy
        )
    path = PurePosixPath(name)
    if not path.parts:
        raise CandidateError(f"path {_shown(name)} is the candidate folder itself", place="candidate", remedy=remedy)
    if path.is_absolute() or ".." in path.parts:
        raise CandidateError(f"path {_shown(name)} leaves the candidate folder", place="candidate", remedy=remedy)
    if str(path) != name:
        raise CandidateError(
            f"path {_shown(name)} is not in normal form", place="candidate", remedy=f"write it as {path}"
        )
    return name


def _read_mapping(source: Mapping[str, str]) -> dict[str, str]:
    if len(source) > MAX_FILES:
        raise CandidateError(
            f"{len(source)} files, more than {MAX_FILES}", place="candidate", remedy="supply only the editable files"
        )
    files: dict[str, str] = {}
    for name, text in source.items():
        check_name(name)
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _not_text(name, f"lone surrogate at character {error.start}") from error
        files[name] = _decode(name, data)
    return files


def _read_folder(folder: Path, wanted: tuple[str, ...]) -> dict[str, str]:
    try:
        if not folder.is_dir():
            raise FabricaError(
                "no such folder" if not folder.exists() else "not a folder",
                place=str(folder),
                remedy=f"name a folder that holds {_listing(wanted)}",
            )
        files: dict[str, str] = {}
        for path in _walk(folder, folder):
            name = path.relative_to(folder).as_posix()
            check_name(name)
            if len(files) == MAX_FILES:
                raise CandidateError(
                    f"more than {MAX_FILES} files", place=str(folder), remedy=f"supply only {_listing(wanted)}"
                )
            files[name] = _decode(str(path), _read_regular(path))
    except OSError as error:
        raise from_os_error(error) from error
    return files


def _walk(folder: Path, root: Path) -> Iterable[Path]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = Path(entry.path)
            if entry.is_symlink():
                raise CandidateError("is a symbolic link", place=entry.path, remedy="replace it by a copy of the file")
            if entry.is_dir(follow_symlinks=False):
                if len(path.relative_to(root).parts) > 4:
                    raise CandidateError("is nested too deeply", place=entry.path, remedy="remove it")
                yield from _walk(path, root)
            else:
                yield path


def _read_regular(path: Path) -> bytes:
    """Content of a regular file that is no link; checked on the open file, so that it can't be swapped in between."""
    # O_NONBLOCK: opening a named pipe must not wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(stream.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise CandidateError("is not a regular file", place=str(path), remedy="remove it")
        if facts.st_nlink > 1:
            raise CandidateError(
                f"is a hard link ({facts.st_nlink} names for one file)",
                place=str(path),
                remedy="replace it by a copy of the file",
            )
        if facts.st_size > MAX_FILE_BYTES:
            raise _too_big(str(path), facts.st_size)
        return stream.read(MAX_FILE_BYTES + 1)


def _decode(place: str, data: bytes) -> str:
    if len(data) > MAX_FILE_BYTES:
        raise _too_big(place, len(data))
    if b"\0" in data:
        raise _not_text(place, f"NUL byte at offset {data.index(0)}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_text(place, f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}") from error


def _too_big(place: str, size: int) -> CandidateError:
    return CandidateError(
        f"is {size} bytes, more than {MAX_FILE_BYTES}", place=place, remedy="shorten it; data tables belong in loops"
    )


def _not_text(place: str, what: str) -> CandidateError:
    return CandidateError(f"is a binary file ({what})", place=place, remedy="save it as UTF-8 text")


def _listing(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "no file"


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:77] + "...")
