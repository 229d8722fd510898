"""Restricting a child's access to files (and TCP) with Landlock, where the kernel has it.

Landlock is an allow-list that an unprivileged process puts on itself and can't take off; children inherit it. The
rules are prepared in the parent and put in force in the child between fork and exec. Numbers and structures are those
of the kernel's user API (linux/landlock.h).
"""

from __future__ import annotations

import ctypes
import os
import site
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from fabrica_bench.toolchains.mounts import describe_mounts, keep_the_rest_read_only, mounts_available
from fabrica_bench.toolchains.seccomp import confine_calls, prepare_calls

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION_FLAG: Final = 1
_RULE_PATH_BENEATH: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_REFER: Final = 1 << 13
_TRUNCATE: Final = 1 << 14
_IOCTL_DEV: Final = 1 << 15
_BASE_FILE_RIGHTS: Final = (1 << 13) - 1
_FILE_ONLY: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR

_NET_BIND_AND_CONNECT: Final = 3
_SCOPE_SIGNALS_AND_SOCKETS: Final = 3

SYSTEM_PATHS: Final = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt", "/etc", "/nix/store")
"""Programs, libraries and system settings that a native program needs to start. Neither /home, /tmp nor /proc."""

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


@cache
def landlock_abi() -> int:
    """Version of the kernel's interface; 0 without one."""
    if sys.platform != "linux":
        return 0
    version = int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG)))
    return max(version, 0)


def prepare_confinement() -> None:
    """Ask the kernel what it offers, once for this process and its forks: one question takes a process of its own."""
    landlock_abi()
    prepare_calls()
    mounts_available()


class Confinement:
    """A prepared restriction; use it as a context manager around starting children.

    Args:
        read: Files and folders (with everything below) that may be read and executed; missing ones are skipped.
        listed: Folders in which, and below which, names may be listed but no file read.
        write: Folders in which everything may be done.
        network: Allow TCP.
    """

    def __init__(
        self, *, read: Iterable[Path], write: Iterable[Path], listed: Iterable[Path] = (), network: bool
    ) -> None:
        self._abi = landlock_abi()
        self._network = network
        self._ruleset = -1
        self._write = tuple(write)
        prepare_confinement()
        if not self._abi:
            return
        rights = _file_rights(self._abi)
        self._ruleset = self._create(rights)
        for path in read:
            self._allow(path, _READ & rights)
        for path in listed:
            self._allow(path, _READ_DIR & rights)
        for device in DEVICES:
            self._allow(Path(device), (_READ_FILE | _WRITE_FILE) & rights)
        for path in self._write:
            self._allow(path, rights)

    @property
    def in_force(self) -> bool:
        return self._ruleset >= 0

    def describe(self) -> str:
        """What it restricts, for the records."""
        return describe_confinement(network=self._network)

    def apply(self) -> None:
        """Restrict the calling process, also its mounts and its system calls; for a child between fork and exec.

        Raises:
            OSError: The kernel refuses, which then fails the start of the child rather than run it unconfined.
        """
        # Landlock forbids to mount, so this comes before it.
        keep_the_rest_read_only(self._write)
        if self._ruleset >= 0:
            libc = _libc()
            if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.syscall(_RESTRICT_SELF, self._ruleset, 0):
                raise OSError(ctypes.get_errno(), "Landlock can't be put in force")
        confine_calls()

    def close(self) -> None:
        """Release the prepared rules."""
        if self._ruleset >= 0:
            os.close(self._ruleset)
            self._ruleset = -1

    def __enter__(self) -> Confinement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _create(self, rights: int) -> int:
        fields = [rights]
        if self._abi >= 4:
            fields.append(0 if self._network else _NET_BIND_AND_CONNECT)
        if self._abi >= 6:
            # Abstract sockets and signals to processes outside: the parent is one of them.
            fields.append(_SCOPE_SIGNALS_AND_SOCKETS)
        attributes = struct.pack(f"={len(fields)}Q", *fields)
        ruleset = int(
            _libc().syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
        )
        if ruleset < 0:
            raise OSError(ctypes.get_errno(), "Landlock rules can't be made")
        os.set_inheritable(ruleset, False)
        return ruleset

    def _allow(self, path: Path, rights: int) -> None:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= _FILE_ONLY
            rule = struct.pack("=Qi", rights, descriptor)
            if _libc().syscall(_ADD_RULE, self._ruleset, _RULE_PATH_BENEATH, rule, ctypes.c_uint32(0)):
                raise OSError(ctypes.get_errno(), "Landlock rule refused", str(path))
        finally:
            os.close(descriptor)


def describe_confinement(*, network: bool) -> str:
    """What a `Confinement` on this machine restricts, for the records."""
    abi = landlock_abi()
    if not abi:
        return f"not confined: the kernel has no Landlock; {describe_mounts()}"
    tcp = "allowed" if network else "denied" if abi >= 4 else "not confined"
    return f"Landlock ABI {abi}: allow-list of files; {describe_mounts()}; TCP {tcp}"


class PythonPaths(NamedTuple):
    """What a Python child needs: files and folders to read, and folders whose names its import system lists."""

    read: tuple[Path, ...]
    listed: tuple[Path, ...]


def python_paths(*, hidden: Iterable[Path]) -> PythonPaths:
    """What this Python and everything on its import path need to be read, without the folders in `hidden`.

    An allow-list can't take away again, so a folder that contains a hidden one is replaced by its other entries, and
    may be listed only: the names in a hidden folder are no secret, its files are.
    """
    # Children import from there too, see `python_environment`.
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    imports = (*sys.path, *site.getsitepackages(), *inherited)
    return _python_paths(tuple(sorted({path.resolve() for path in hidden})), tuple(filter(None, imports)))


@cache
def _python_paths(hidden: tuple[Path, ...], imports: tuple[str, ...]) -> PythonPaths:
    wanted = {Path(path) for path in SYSTEM_PATHS}
    wanted |= {prefix for prefix in _prefixes() if prefix != Path("/")}
    wanted |= {Path(entry) for entry in imports}
    found: dict[Path, None] = {}
    for path in sorted(wanted):
        for part in _without(path.resolve(), hidden):
            found[part] = None
    split = {folder for path in found for folder in path.parents if any(folder in below.parents for below in hidden)}
    roots = {path.resolve() for path in wanted}
    listed = [folder for folder in split if any(root in (folder, *folder.parents) for root in roots)]
    return PythonPaths(tuple(found), tuple(sorted(listed)))


def _without(path: Path, hidden: tuple[Path, ...]) -> Iterator[Path]:
    if path in hidden:
        return
    if not any(path in below.parents for below in hidden):
        yield path
        return
    try:
        entries = sorted(path.iterdir())
    except OSError:
        return
    whole = _is_package(path) or any(prefix in (path, *path.parents) for prefix in _prefixes())
    for entry in entries:
        # Of a source checkout that is on the import path only packages and files are wanted: not its version control,
        # which holds every task, nor earlier runs.
        leads_to_hidden = any(entry in below.parents for below in hidden)
        if whole or leads_to_hidden or entry.is_file() or _is_package(entry):
            yield from _without(entry, hidden)


def _is_package(path: Path) -> bool:
    return (path / "__init__.py").is_file()


def _prefixes() -> tuple[Path, ...]:
    return tuple(Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix))


def _file_rights(abi: int) -> int:
    rights = _BASE_FILE_RIGHTS
    for version, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        if abi >= version:
            rights |= right
    return rights


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
