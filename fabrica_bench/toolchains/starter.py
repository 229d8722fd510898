"""Python children that start in milliseconds: forks of a process that has imported everything already.

The process, a starter (see `starter_host`), is itself started as any other child, with a scrubbed environment, before
anything is known of what it will run; so it holds no key, no input and no expected value. It serves one child at a
time; of those that were needed at the same time a few are kept.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import logging
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.toolchains.frames import read_frame, write_frame
from fabrica_bench.toolchains.processes import (
    KILL_GRACE_S,
    MARKER,
    NEW_PROGRAM,
    ChildProcess,
    Limits,
    ProcessResult,
    scrubbed_environment,
)

FORKED: Final = "each a fork of a process that holds nothing but the toolchain's modules"

START_S: Final = 120.0
"""How long a starter may take to import its modules; about 1 s on an idle machine."""

ANSWER_S: Final = 60.0
"""How long after a deadline a starter may take to answer, beyond the time for killing."""

MOST_IDLE: Final = 8
"""Starters that are kept while they have nothing to do, of some 50 MB each."""

_NO_LIMITS: Final = Limits(cpu_s=None, address_space=None, file_size=None, processes=None, open_files=None)
_NOWHERE: Final = Path("/")
_LOGGER: Final = logging.getLogger("fabrica_bench.toolchains")


class StarterUnavailable(Exception):
    """No starter can be started here; nothing of the request was done."""


@dataclass(frozen=True)
class Access:
    """What a child may read, list and write; see `fabrica_bench.toolchains.landlock.Confinement`."""

    read: tuple[Path, ...]
    listed: tuple[Path, ...]
    write: tuple[Path, ...]
    network: bool = False


class Starter:
    """One starter; for one thread at a time.

    Args:
        modules: What it imports; a module's `prepare()` is called, if there is one.
        environment: Variables added to its scrubbed environment: the same for all it will run.
    """

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        self._channel, theirs = socket.socketpair()
        try:
            self._child = ChildProcess(
                [sys.executable, "-P", "-m", "fabrica_bench.toolchains.starter_host", *modules],
                workdir=_NOWHERE,
                environment=scrubbed_environment(_NOWHERE, environment),
                limits=_NO_LIMITS,
                stdin=theirs,
            )
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self._ready = False

    @property
    def alive(self) -> bool:
        return self._child.running

    def run(self, request: Mapping[str, Any], deadline_s: float) -> dict[str, Any]:
        """Its answer to a request.

        Raises:
            StarterUnavailable: It didn't start.
            EOFError, OSError: It ended, or doesn't answer.
        """
        if not self._ready:
            self._channel.settimeout(START_S)
            try:
                self._ready = self._channel.recv(1) == b"\n"
            except OSError as error:
                raise StarterUnavailable(str(error)) from error
            if not self._ready:
                raise StarterUnavailable(self._last_words())
        self._channel.settimeout(deadline_s + KILL_GRACE_S + ANSWER_S)
        write_frame(self._channel, request)
        return read_frame(self._channel)

    def close(self) -> None:
        """End it, and whatever it runs."""
        # The channel last: a starter that hears of its end begins to kill what it runs, which then can't be followed.
        with self._channel, self._child:
            pass

    def _last_words(self) -> str:
        assert self._child.popen.stderr is not None
        lines = self._child.popen.stderr.read().decode("utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"


class _Pool:
    """Idle starters by process (a fork of this one has none of its own) and by how they were started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[tuple[object, ...], Starter]] = []
        self.unavailable = _obstacle()

    def take(self, modules: tuple[str, ...], environment: Mapping[str, str]) -> tuple[tuple[object, ...], Starter]:
        key = (os.getpid(), modules, tuple(sorted(environment.items())), os.environ.get(MARKER))
        while True:
            with self._lock:
                place = next((place for place, (other, _) in enumerate(self._idle) if other == key), None)
                found = None if place is None else self._idle.pop(place)[1]
            if found is None:
                return key, Starter(modules, environment)
            if found.alive:
                return key, found
            found.close()  # it died while it had nothing to do

    def give_back(self, key: tuple[object, ...], starter: Starter) -> None:
        with self._lock:
            self._idle.append((key, starter))
            surplus = self._idle[:-MOST_IDLE]
            del self._idle[:-MOST_IDLE]
        _close(surplus)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        _close(idle)


def _obstacle() -> str:
    """Why no starter can work here; empty when nothing is known."""
    if sys.platform != "linux":
        return "this is no Linux"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return f"this kernel has no descriptors of processes: {error.strerror}"
    return ""


def _close(starters: list[tuple[tuple[object, ...], Starter]]) -> None:
    for key, starter in starters:
        if key[0] == os.getpid():  # those of the process that this one is a fork of are not ours to end
            starter.close()


_POOL: Final = _Pool()


def close_starters() -> None:
    """End those that are idle. The next child has a new one."""
    _POOL.close()


atexit.register(close_starters)


def how_children_start() -> str:
    """For the records."""
    return NEW_PROGRAM if _POOL.unavailable else FORKED


def run_forked(
    module: str,
    arguments: Sequence[str],
    *,
    modules: tuple[str, ...],
    shared: Mapping[str, str],
    workdir: Path,
    environment: Mapping[str, str],
    limits: Limits,
    deadline_s: float,
    stdin: Path | None,
    access: Access,
) -> ProcessResult:
    """`run_process` of `python -P -m module arguments`, in a fork of a starter that has imported `modules`.

    Args:
        module: Its `main()` is called.
        shared: Variables of the starter's environment.

    Raises:
        StarterUnavailable: Not on this machine: use `run_process`.
        FabricaError: The starter ended before it answered. That is nobody's fault but the harness's; what was asked
            for may be half done.
        OSError: As from `run_process`.
    """
    if _POOL.unavailable:
        raise StarterUnavailable(_POOL.unavailable)
    request = {
        "module": module,
        "arguments": list(arguments),
        "workdir": str(workdir),
        "environment": dict(environment),
        "limits": dataclasses.asdict(limits),
        "deadline_s": deadline_s,
        "stdin": None if stdin is None else str(stdin),
        "confinement": {
            **{name: [str(path) for path in getattr(access, name)] for name in ("read", "listed", "write")},
            "network": access.network,
        },
    }
    key, starter = _POOL.take(modules, shared)
    with contextlib.ExitStack() as stack:
        stack.callback(starter.close)
        try:
            answer = starter.run(request, deadline_s)
        except StarterUnavailable as reason:
            _POOL.unavailable = str(reason)
            _LOGGER.warning("children start as new programs, which takes longer: %s", reason)
            raise
        except (EOFError, OSError) as error:
            raise FabricaError(
                f"the process that starts builds and runs ended before its answer: {error}",
                remedy="see whether memory is short; finished work is kept, run again to continue",
                code=ExitCode.HARNESS,
            ) from error
        stack.pop_all()
    _POOL.give_back(key, starter)
    if "errno" in answer:
        raise OSError(answer["errno"], answer["text"], answer["file"])
    return ProcessResult(**answer)
