"""Who set the limit that a process ran into: whoever started it, or the machine.

A program that wants more than its process was given is to blame itself; one that the machine denies what its limits
allow is not. Asked where the exception arrives, while what its frames hold still counts.
"""

from __future__ import annotations

import errno
import mmap
import resource
from typing import Final

_PAGE: Final = mmap.PAGESIZE
_FINENESS: Final = 1 << 20
"""Bytes of room that don't matter."""


def hit_own_limit(problem: BaseException) -> bool:
    """Whether a limit on this process (memory, size of a file, open files) made it fail with this exception."""
    if isinstance(problem, MemoryError) or (isinstance(problem, OSError) and problem.errno == errno.ENOMEM):
        return _memory_is_limited()
    return isinstance(problem, OSError) and problem.errno in (errno.EFBIG, errno.EMFILE)


def _memory_is_limited() -> bool:
    """Whether the machine would give all that this process's limit leaves it."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return False
    room = _room()
    return room < _FINENESS or _can_map(room - _FINENESS, mmap.PROT_READ | mmap.PROT_WRITE)


def _room() -> int:
    """Bytes that the limit on this process's addresses leaves, asked for without the right to write, which is free."""
    low, high = 0, 1 << 47
    while high - low > _FINENESS:
        middle = (low + high) // 2
        if _can_map(middle, mmap.PROT_READ):
            low = middle
        else:
            high = middle
    return low


def _can_map(size: int, access: int) -> bool:
    size = max(size // _PAGE, 1) * _PAGE
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=access).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
