"""Denying a child the system calls by which state outlives a process without any file, with a seccomp filter.

Landlock confines what is reached by a path. Shared memory, semaphores and message queues of System V, POSIX message
queues and keyrings have none, stay in the kernel when their maker has ended, and would let an attempt speak to a later
one. So do the attributes of other processes of the same user (their limits, priorities, processors) and extended
attributes of files, which Landlock doesn't cover; and sockets that other programs listen on in the file system, which
it doesn't cover either: a terminal multiplexer, a session bus or a container engine would run anything outside for who
speaks to it. Tracing, `io_uring` (whose operations no filter sees) and the like are denied because nothing here needs
them. A filter stays for good, and children inherit it.

Numbers of calls are those of the kernel's headers (asm/unistd_64.h and asm-generic/unistd.h), structures those of
linux/seccomp.h and linux/filter.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

_PR_SET_NO_NEW_PRIVS: Final = 38
_SET_FILTER: Final = 1
_GET_ACTION_AVAILABLE: Final = 2
_KEEP_SPECULATION: Final = 1 << 2
"""Kernels before 5.16 otherwise slow down every process with a filter."""

_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000

_LOAD: Final = 0x20  # a 32-bit word of what the kernel tells about the call
_AND: Final = 0x54
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_NUMBER_AT: Final = 0
_ABI_AT: Final = 4
_ARGUMENTS_AT: Final = 16

_X32_BIT: Final = 0x40000000


class Machine(NamedTuple):
    """A processor's 64-bit calls: AUDIT_ARCH_*, the column of `DENIED`'s numbers, and the number of `seccomp` itself.

    `other_calls_from`: the number at which those of another ABI begin.
    """

    abi: int
    column: int
    seccomp: int
    other_calls_from: int | None = None


MACHINES: Final = {"x86_64": Machine(0xC000003E, 0, 317, _X32_BIT), "aarch64": Machine(0xC00000B7, 1, 277)}


class Denied(NamedTuple):
    """One system call: its numbers on x86-64 and arm64 (None where there is no such call), and how it is refused.

    `unless`: pairs of an argument's place and value; the call is allowed when all of them hold (values are C ints).
    `only_if`: a pair likewise; the call is allowed unless it holds. `mask`: bits of the arguments that are compared.
    """

    numbers: tuple[int | None, int | None]
    error: int = errno.EPERM
    unless: tuple[tuple[int, int], ...] = ()
    only_if: tuple[int, int] | None = None
    mask: int = 0xFFFFFFFF


_ITSELF: Final = ((0, 0),)
"""The first argument is a process, and 0 the caller."""

_PROCESS_ITSELF: Final = {"setpriority": ((0, 0), (1, 0)), "ioprio_set": ((0, 1), (1, 0))}
"""The first argument says that the second is a process, not a group or a user."""

_LOCAL: Final = 1
"""AF_UNIX."""

_STREAM: Final = 1
_TYPE: Final = 0xF
"""SOCK_STREAM, and the bits of a socket's type that aren't flags."""

DENIED: Final = {
    # System V: shared memory, semaphores, message queues.
    "shmget": Denied((29, 194)),
    "shmat": Denied((30, 196)),
    "shmctl": Denied((31, 195)),
    "shmdt": Denied((67, 197)),
    "semget": Denied((64, 190)),
    "semop": Denied((65, 193)),
    "semctl": Denied((66, 191)),
    "semtimedop": Denied((220, 192)),
    "msgget": Denied((68, 186)),
    "msgsnd": Denied((69, 189)),
    "msgrcv": Denied((70, 188)),
    "msgctl": Denied((71, 187)),
    # POSIX message queues live on a mount of the kernel's own, where Landlock doesn't look.
    "mq_open": Denied((240, 180)),
    "mq_unlink": Denied((241, 181)),
    "add_key": Denied((248, 217)),
    "request_key": Denied((249, 218)),
    "keyctl": Denied((250, 219)),
    # As on a file system without extended attributes, so that copying a file with its attributes still works.
    "setxattr": Denied((188, 5), errno.EOPNOTSUPP),
    "lsetxattr": Denied((189, 6), errno.EOPNOTSUPP),
    "fsetxattr": Denied((190, 7), errno.EOPNOTSUPP),
    "setxattrat": Denied((463, 463), errno.EOPNOTSUPP),
    "removexattr": Denied((197, 14), errno.EOPNOTSUPP),
    "lremovexattr": Denied((198, 15), errno.EOPNOTSUPP),
    "fremovexattr": Denied((199, 16), errno.EOPNOTSUPP),
    "removexattrat": Denied((466, 466), errno.EOPNOTSUPP),
    # Of other processes, the harness among them.
    "prlimit64": Denied((302, 261), unless=_ITSELF),
    "sched_setparam": Denied((142, 118), unless=_ITSELF),
    "sched_setscheduler": Denied((144, 119), unless=_ITSELF),
    "sched_setaffinity": Denied((203, 122), unless=_ITSELF),
    "sched_setattr": Denied((314, 274), unless=_ITSELF),
    "setpriority": Denied((141, 140), unless=_PROCESS_ITSELF["setpriority"]),
    "ioprio_set": Denied((251, 30), unless=_PROCESS_ITSELF["ioprio_set"]),
    "ptrace": Denied((101, 117)),
    "process_vm_readv": Denied((310, 270)),
    "process_vm_writev": Denied((311, 271)),
    "process_madvise": Denied((440, 440)),
    "pidfd_getfd": Denied((438, 438)),
    "kcmp": Denied((312, 272)),
    # What would make the file systems writable again (see `mounts`); Landlock has no say in mount_setattr.
    "mount": Denied((165, 40)),
    "umount2": Denied((166, 39)),
    "pivot_root": Denied((155, 41)),
    "open_tree": Denied((428, 428)),
    "open_tree_attr": Denied((467, 467)),
    "move_mount": Denied((429, 429)),
    "fsopen": Denied((430, 430)),
    "fsconfig": Denied((431, 431)),
    "fsmount": Denied((432, 432)),
    "fspick": Denied((433, 433)),
    "mount_setattr": Denied((442, 442)),
    # To programs outside: a filter sees no addresses, so there is no such socket at all. Pairs speak to each other
    # only, but for those of datagrams, which can be sent elsewhere.
    "socket": Denied((41, 198), only_if=(0, _LOCAL)),
    "socketpair": Denied((53, 199), unless=((1, _STREAM),), mask=_TYPE),
    # Ways around the filter, and much of what kernels are attacked by.
    "io_uring_setup": Denied((425, 425)),
    "io_uring_enter": Denied((426, 426)),
    "io_uring_register": Denied((427, 427)),
    "userfaultfd": Denied((323, 282)),
    "perf_event_open": Denied((298, 241)),
    "bpf": Denied((321, 280)),
}
"""What is denied, by the kernel's names."""


def filter_program(machine: Machine) -> bytes:
    """The filter in the kernel's bytecode. A call of another ABI (32-bit, x32) is answered as if there were none."""
    code = [_step(_LOAD, _ABI_AT), _step(_IF_EQUAL, machine.abi, yes=1), _refuse(errno.ENOSYS)]
    code.append(_step(_LOAD, _NUMBER_AT))
    if machine.other_calls_from is not None:
        code += [_step(_IF_AT_LEAST, machine.other_calls_from, no=1), _refuse(errno.ENOSYS)]
    for denied in DENIED.values():
        number = denied.numbers[machine.column]
        if number is not None:
            code += _refusal(number, denied)
    code.append(_step(_RETURN, _ALLOW))
    return b"".join(code)


def _refusal(number: int, denied: Denied) -> Iterator[bytes]:
    rest = [_refuse(denied.error)]
    if denied.unless:
        rest.insert(0, _step(_RETURN, _ALLOW))
    for place, value in reversed(denied.unless):
        # Past the remaining comparisons and the permission lies the refusal.
        rest[:0] = [*_argument(place, denied.mask), _step(_IF_EQUAL, value, no=len(rest) - 1)]
    if denied.only_if is not None:
        place, value = denied.only_if
        rest = [*_argument(place, denied.mask), _step(_IF_EQUAL, value, no=len(rest)), *rest, _step(_RETURN, _ALLOW)]
    yield _step(_IF_EQUAL, number, no=len(rest))
    yield from rest


def _argument(place: int, mask: int) -> list[bytes]:
    load = _step(_LOAD, _ARGUMENTS_AT + 8 * place)
    return [load] if mask == 0xFFFFFFFF else [load, _step(_AND, mask)]


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERRNO | error)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


class _Prepared(NamedTuple):
    libc: ctypes.CDLL
    seccomp: int = 0
    program: _Program | None = None
    why_not: str = ""


@cache
def _prepared() -> _Prepared:
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform != "linux":
        return _Prepared(libc, why_not="not Linux")
    name = os.uname().machine
    machine = MACHINES.get(name)
    if machine is None or struct.calcsize("P") != 8:
        return _Prepared(libc, why_not=f"no filter for {name}")
    if libc.syscall(machine.seccomp, _GET_ACTION_AVAILABLE, 0, ctypes.byref(ctypes.c_uint32(_ERRNO))):
        return _Prepared(libc, why_not="the kernel has no seccomp filters")
    code = filter_program(machine)
    return _Prepared(libc, machine.seccomp, _Program(len(code) // 8, code))


def prepare_calls() -> None:
    """Make the filter now, for a child that should not do so between fork and exec."""
    _prepared()


def confine_calls() -> None:
    """Deny the calling thread, and what it starts, the calls of `DENIED`; nothing where `describe_calls` says so.

    Raises:
        OSError: The kernel refuses, which then fails the start of the child rather than run it unconfined.
    """
    libc, seccomp, program, _ = _prepared()
    if program is None:
        return
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Kernels before 4.17 don't know the flag.
    for flags in (_KEEP_SPECULATION, 0):
        if libc.syscall(seccomp, _SET_FILTER, flags, ctypes.byref(program)) == 0:
            return
    raise OSError(ctypes.get_errno(), "a seccomp filter can't be put in force")


def describe_calls() -> str:
    """What `confine_calls` denies on this machine, for the records."""
    found = _prepared()
    if found.program is None:
        return f"not confined: {found.why_not}"
    denied = (
        "System V IPC, message queues, keyrings, extended attributes, local sockets, mounts, tracing, "
        "limits of other processes"
    )
    return f"seccomp: no {denied}"
