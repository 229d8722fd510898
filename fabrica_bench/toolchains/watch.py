"""Holding a child and all that it starts to limits that the system doesn't know.

A limit on the size of a file doesn't limit their number, one on processes doesn't hold for the superuser, and a disk or
a table of processes that is full is everybody's: the harness could go on no more, and would take that for the machine's
failure. So what lies in a child's folder is added up again and again, with what its processes hold open that has no
name any more, and they are counted.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fabrica_bench.toolchains.processes import ChildProcess

_PAUSE_S: Final = 0.25
_PAUSE_PER_LOOK: Final = 20
"""Looking takes at most so much less time than what lies between two looks."""

_BLOCK: Final = 512
"""Bytes of the unit of `st_blocks`, whatever a file system's own blocks are."""


@dataclass(frozen=True)
class TreeLimits:
    """What a child may take, with all that it starts.

    Attributes:
        bytes: On the disk, over all its files.
        entries: Files and folders.
        depth: Folders below each other: a chain of thousands could hide anything from whoever looks.
        threads: Of all its processes, each of which has one at least.
    """

    bytes: int = 2 << 30
    entries: int = 200_000
    depth: int = 64
    threads: int = 256

    def describe(self) -> str:
        """One line for the records."""
        return f"folder {self.bytes >> 20} MiB in {self.entries} entries, {self.threads} threads"


def excess(folder: Path, processes: Collection[int], limits: TreeLimits) -> str | None:
    """Which limit a folder and these processes exceed; None when they don't."""
    if sum(map(_threads, processes)) > limits.threads:
        return f"it runs more than {limits.threads} processes and threads"
    taken, entries, linked = 0, 0, set[tuple[int, int]]()
    closed: list[OSError] = []
    top = str(folder)
    try:
        for path, folders, names, descriptor in os.fwalk(top, onerror=closed.append):
            if folders and path[len(top) :].count(os.sep) >= limits.depth:
                return f"its folder is nested more than {limits.depth} levels deep"
            for name in (*folders, *names):
                entries += 1
                with contextlib.suppress(FileNotFoundError):  # removed this moment
                    facts = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    if (facts.st_dev, facts.st_ino) not in linked:
                        taken += facts.st_blocks * _BLOCK
                    if facts.st_nlink > 1:
                        linked.add((facts.st_dev, facts.st_ino))
                if entries > limits.entries:
                    return f"its folder holds more than {limits.entries} entries"
                if taken > limits.bytes:
                    return _too_much(limits)
    except OSError as error:
        closed.append(error)
    if any(isinstance(error, PermissionError) for error in closed):
        return "it closed a folder of its own to whoever adds up what it takes"
    return _too_much(limits) if taken + _nameless(processes) > limits.bytes else None


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:  # it has ended, or there is no /proc
        return 0


def _too_much(limits: TreeLimits) -> str:
    return f"its files take more than {limits.bytes >> 20} MiB"


def _nameless(processes: Iterable[int]) -> int:
    """Bytes of files that have no name any more, or never had one, and that a process holds open."""
    found: dict[tuple[int, int], int] = {}
    for pid in processes:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    facts = os.stat(f"/proc/{pid}/fd/{name}")
                    if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 0:
                        found[facts.st_dev, facts.st_ino] = facts.st_blocks * _BLOCK
    return sum(found.values())


@contextmanager
def tree_watched(child: ChildProcess, folder: Path, limits: TreeLimits) -> Iterator[Callable[[], str | None]]:
    """Kill the child when it takes more than it may.

    Gives a function that looks once more and says which limit was exceeded; None when none was.
    """
    found: list[str] = []
    over = threading.Event()

    def look() -> str | None:
        if not found and (reason := excess(folder, child.members(), limits)):
            found.append(reason)
        return found[0] if found else None

    def watch(descriptor: int) -> None:
        pause = _PAUSE_S
        while not over.wait(pause):
            begin = time.monotonic()
            if look():
                # Whoever waits for the child finds it ended, and then ends what it left.
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return
            pause = max(_PAUSE_S, _PAUSE_PER_LOOK * (time.monotonic() - begin))

    with contextlib.ExitStack() as stack:
        try:
            descriptor = os.pidfd_open(child.pid)
        except (AttributeError, OSError):  # no Linux, or an old one: it is looked at once it has answered
            pass
        else:
            stack.callback(os.close, descriptor)
            thread = threading.Thread(target=watch, args=(descriptor,), name="space", daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(over.set)
        yield look


__all__ = ["TreeLimits", "excess", "tree_watched"]
