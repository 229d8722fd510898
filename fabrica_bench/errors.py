"""The error type that reaches users, and the process exit codes.

A `FabricaError` is an answer, not a crash: the command line prints its message, its place and its remedy, and exits
with its code. Anything else that escapes is a bug in Fabrica-Bench.
"""

from __future__ import annotations

import difflib
import errno
import sys
from collections.abc import Callable, Iterable
from enum import IntEnum, unique
from pathlib import Path
from typing import Final


@unique
class ExitCode(IntEnum):
    """Exit codes of every command; scripts may rely on them."""

    OK = 0
    FAILURE = 1
    """The command worked, and its answer is no: a candidate is invalid, a run differs on verification."""
    USAGE = 2
    """The command line names something that doesn't exist or makes no sense."""
    BAD_INPUT = 3
    """A file or folder that the user gave can't be used."""
    ENVIRONMENT = 4
    """The machine lacks something: space, permission, a tool."""
    HARNESS = 5
    """Fabrica-Bench itself failed; the candidate is not to blame."""
    INTERRUPTED = 130
    """Ctrl-C: what was finished is kept."""


class FabricaError(Exception):
    """One clear message for the user.

    Args:
        message: What is wrong, naming the thing and its value; one sentence without a final full stop.
        place: Where: a file, `file:line:column`, or an option.
        remedy: What to do about it, preferably the next command to run.
        code: The exit code of the command line.
    """

    def __init__(
        self,
        message: str,
        *,
        place: str | None = None,
        remedy: str | None = None,
        code: ExitCode = ExitCode.BAD_INPUT,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.remedy = remedy
        self.code = code

    def __str__(self) -> str:
        """`place: message (remedy)` on one line."""
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text} ({self.remedy})" if self.remedy else text

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the keyword arguments when the error crosses a process boundary."""
        return (_rebuild, (type(self), self.message, self.place, self.remedy, int(self.code)))


def _rebuild(kind: type[FabricaError], message: str, place: str | None, remedy: str | None, code: int) -> FabricaError:
    error = kind.__new__(kind)
    FabricaError.__init__(error, message, place=place, remedy=remedy, code=ExitCode(code))
    return error


def empty_path(what: str, remedy: str) -> FabricaError:
    """The error for an empty text as a path, which the system would take for the current folder.

    Args:
        what: The argument, e.g. `the candidate`.
        remedy: What to give instead.
    """
    return FabricaError(f"{what} is an empty text, not a path", remedy=remedy, code=ExitCode.USAGE)


def home_folder(variable: str) -> Path:
    """The user's home folder; a user of a container may have none.

    Args:
        variable: The environment variable that names another place for what would be kept there.

    Raises:
        FabricaError: There is none.
    """
    try:
        return Path.home()
    except RuntimeError as error:
        raise FabricaError(
            "this user has no home folder",
            remedy=f"set {variable} to a folder that only you can write, or set HOME",
            code=ExitCode.ENVIRONMENT,
        ) from error


def wrong_type(what: str, value: object, expected: str) -> FabricaError:
    """The error for an argument of a type that can't be used."""
    return FabricaError(f"{what} must be {expected}, not of type {type(value).__name__}", code=ExitCode.USAGE)


FEW_NAMES: Final = 12
"""Up to so many known names an error shows in full."""


class UnknownNameError(FabricaError):
    """A name (task, agent, field, ...) that doesn't exist; the remedy shows the nearest known ones, and few ones all.

    Args:
        kind: What is named, e.g. `task`.
        name: The unknown name as the user wrote it.
        known: Every valid name.
        listing: The command that prints the valid names.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], *, listing: str | None = None) -> None:
        names = sorted(known)
        near = near_matches(name, names) if isinstance(name, str) else []  # a caller's 3 is an unknown name too
        if near:
            remedy = f"did you mean {' or '.join(near)}?"
            if len(near) < len(names) <= FEW_NAMES:
                remedy += f" known: {', '.join(names)}"
        elif names and len(names) <= FEW_NAMES:
            remedy = f"known: {', '.join(names)}"
        else:
            remedy = f"{len(names)} names are known" if names else f"no {kind} is available"
        if listing:
            remedy += f"{'' if remedy.endswith('?') else ';'} `{listing}` shows all"
        super().__init__(f"unknown {kind} {name!r}", remedy=remedy, code=ExitCode.USAGE)


def near_matches(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names that `name` may have been meant for, best first; letter case is ignored."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    folded = difflib.get_close_matches(name.casefold(), by_folded, n=limit, cutoff=0.6)
    if not folded and len(name) >= 3:
        folded = sorted(candidate for candidate in by_folded if name.casefold() in candidate)[:limit]
    return [by_folded[candidate] for candidate in folded]


LIMITS: Final = {
    errno.EFBIG: "raise the limit on the size of files (`ulimit -f`); finished work is kept, run again to continue",
    errno.EMFILE: "raise the limit on open files (`ulimit -n`), or use fewer --jobs",
    errno.ENFILE: "the machine has too many open files: close some programs, or use fewer --jobs",
    errno.ENOMEM: "free some memory, or use fewer --jobs; finished work is kept, run again to continue",
    errno.EAGAIN: "raise the limit on processes (`ulimit -u`), or use fewer --jobs",
}
"""What to do about a limit, by the error of the system."""


DENIED_BY_MACHINE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENFILE, errno.EAGAIN, errno.ENOMEM}
)
"""What the system says when it lacks something that a process was allowed to have: no fault of what runs in it."""


def from_os_error(error: OSError) -> FabricaError:
    """Turn an operating-system error into one message that names the file and the remedy."""
    place = error.filename if isinstance(error.filename, str) else None
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return FabricaError(
            "no space left on the device",
            place=place,
            remedy="free some space or choose another folder with --out; finished work is kept, run again to continue",
            code=ExitCode.ENVIRONMENT,
        )
    if error.errno in LIMITS:
        return FabricaError(
            (error.strerror or str(error)).lower(), place=place, remedy=LIMITS[error.errno], code=ExitCode.ENVIRONMENT
        )
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return FabricaError(
            "the file system is read-only" if error.errno == errno.EROFS else "permission denied",
            place=place,
            remedy="check the owner and mode, or choose another place",
            code=ExitCode.ENVIRONMENT,
        )
    if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG}:
        return FabricaError(
            (error.strerror or str(error)).lower(), place=place, remedy="check the path", code=ExitCode.BAD_INPUT
        )
    return FabricaError(
        (error.strerror or str(error)).lower(),
        place=place,
        remedy="see `fabrica-bench doctor`",
        code=ExitCode.ENVIRONMENT,
    )


def require_readable(error: OSError) -> None:
    """Raise what a file that can't be read says of the machine; return when it says something of the file alone.

    For whoever takes a file that is missing, or is no file, for somebody's fault: a disk that fails is nobody's.

    Raises:
        FabricaError: The machine denies to read any file.
    """
    if error.errno in DENIED_BY_MACHINE or error.errno == errno.EMFILE:
        raise from_os_error(error) from error


def answer(work: Callable[[], int]) -> int:
    """The exit code of a command: what `work` returns, or that of what went wrong, told in one line on standard error.

    That is a `FabricaError`, or an error of the operating system about a file; anything else is a bug and escapes.
    """
    try:
        return work()
    except FabricaError as error:
        found = error
    except OSError as error:
        found = from_os_error(error)
    sys.stderr.write(f"error: {found}\n")
    return int(found.code)
