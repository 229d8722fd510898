"""A child's own view of the file systems, in which everything but its folders is read-only.

Landlock decides who may open, make and remove files, not who may change the mode, owner, times or attributes of one:
there a process may do what its user may, to the records of a run among others. So a child gets a user and a mount
namespace of its own, without any privilege outside it. Landlock, put in force afterwards, forbids to undo the mounts.
Flags and structures are those of the kernel's user API (linux/mount.h, linux/sched.h).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from fabrica_bench.toolchains.seccomp import MACHINES

_NEW_MOUNTS: Final = 0x00020000
_NEW_USER: Final = 0x10000000
_BIND: Final = 1 << 12 | 1 << 14  # with what is mounted below
_MOUNT_SETATTR: Final = 442
_HERE: Final = -100
_WITH_ALL_BELOW: Final = 0x8000
_READ_ONLY: Final = 1


def keep_the_rest_read_only(write: Sequence[Path]) -> None:
    """Make all file systems read-only for the calling process and what it starts, except below these folders.

    For a child between fork and exec; nothing where `mounts_available` says no.

    Raises:
        OSError: The kernel refuses, which then fails the start of the child rather than run it unconfined.
    """
    if mounts_available() and Path("/") not in write:
        _apply(write)


@cache
def mounts_available() -> bool:
    """Whether this user may have such namespaces; tried once, in a process that ends with it."""
    if sys.platform != "linux" or os.uname().machine not in MACHINES:
        return False
    with tempfile.TemporaryDirectory(prefix="fabrica-mounts-") as place:
        mine, other = Path(place) / "mine", Path(place) / "other"
        mine.mkdir()
        other.mkdir()
        child = os.fork()
        if child == 0:
            # Whatever happens, the child must not return into its parent's work.
            try:
                os._exit(not _works(mine, other))
            finally:
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def describe_mounts() -> str:
    """What a child may do to files that it may only read, for the records."""
    if mounts_available():
        return "modes, owners and times read-only"
    return "modes and times not confined: no namespaces for this user"


def _works(mine: Path, other: Path) -> bool:
    try:
        _apply([mine])
        (mine / "file").touch()
        (mine / "file").chmod(0o600)
    except OSError:
        return False
    try:
        other.chmod(0o700)
    except OSError as error:
        return error.errno == errno.EROFS
    return False


def _apply(write: Sequence[Path]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    _check(libc.unshare(_NEW_USER | _NEW_MOUNTS), "no namespaces")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(descriptor, text.encode())
        os.close(descriptor)
    folders = [os.fsencode(path.resolve()) for path in write]
    for folder in folders:
        _check(libc.mount(folder, folder, None, ctypes.c_ulong(_BIND), None), "a folder can't be bound")
    _set(libc, b"/", add=_READ_ONLY)
    for folder in folders:
        try:
            _set(libc, folder, remove=_READ_ONLY)
        except PermissionError:  # something was read-only before, and stays so
            _set(libc, folder, remove=_READ_ONLY, below=False)
    # The working directory is still the one below the new mount.
    os.chdir(os.getcwd())


def _set(libc: ctypes.CDLL, path: bytes, *, add: int = 0, remove: int = 0, below: bool = True) -> None:
    attributes = struct.pack("=4Q", add, remove, 0, 0)
    flags = ctypes.c_uint(_WITH_ALL_BELOW if below else 0)
    result = libc.syscall(_MOUNT_SETATTR, _HERE, path, flags, attributes, ctypes.c_size_t(len(attributes)))
    _check(result, "mounts can't be changed")


def _check(result: int, message: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), message)
