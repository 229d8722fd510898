"""A child that is a fork of this process, with the part of `subprocess.Popen` that `processes` uses."""

from __future__ import annotations

import errno
import json
import os
import select
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

Work = Callable[[], int | None]
"""What a forked child does; it returns an exit status, None for 0."""

FAILED_START: Final = 127
_MOST_DESCRIPTORS: Final = 1 << 20


class ForkedProcess:
    """Runs `work` in a fork, in a session of its own, as if it were the program of a fresh process.

    The fork must come from a process with one thread. Nothing but its memory is passed on: every descriptor beyond
    the three standard ones is closed.

    `cpu_s` is the processor time that it took, in seconds, once it has ended.

    Args:
        work: What the child does. An exception that leaves it is printed, and the exit status is 1.
        workdir: Working directory.
        environment: The complete environment.
        stdin: An open file for standard input.
        setup: Called in the child before `work`.

    Raises:
        OSError: It can't be started, e.g. because `workdir` is missing or `setup` failed.
    """

    def __init__(
        self, work: Work, *, workdir: Path, environment: Mapping[str, str], stdin: IO[bytes], setup: Callable[[], None]
    ) -> None:
        self.args = "a fork"
        self.returncode: int | Any = None  # as that of `Popen` is typed
        self.stdin = None
        self.cpu_s: float | None = None
        # The third one says what went wrong at the start: nothing, when it closes without a word.
        out, err, problem = os.pipe(), os.pipe(), os.pipe()
        # What waits in the buffers would be written twice.
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            self.pid = os.fork()
        except OSError:
            for end in (*out, *err, *problem):
                os.close(end)
            raise
        if self.pid == 0:
            # Whatever happens, the child must not return into its parent's work.
            try:
                _become(workdir, environment, (stdin.fileno(), out[1], err[1]), setup, problem[1])
                os._exit(_finish(work))
            finally:
                os._exit(FAILED_START)
        for end in (out[1], err[1], problem[1]):
            os.close(end)
        self.stdout: IO[bytes] = os.fdopen(out[0], "rb", buffering=0)
        self.stderr: IO[bytes] = os.fdopen(err[0], "rb", buffering=0)
        self._descriptor = os.pidfd_open(self.pid)
        with os.fdopen(problem[0], "rb") as stream:
            said = stream.read()
        if said:
            self.wait()
            self.stdout.close()
            self.stderr.close()
            number, text = json.loads(said)
            raise OSError(number, text)

    def poll(self) -> int | None:
        """Its exit status (negative for a signal), None while it runs."""
        if self.returncode is None:
            done, status, usage = os.wait4(self.pid, os.WNOHANG)
            if done:
                self.cpu_s = usage.ru_utime + usage.ru_stime
                self._ended(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, when it has one.

        Raises:
            subprocess.TimeoutExpired: It still runs after `timeout` seconds.
        """
        if self.poll() is None:
            ended = select.poll()
            ended.register(self._descriptor, select.POLLIN)
            ended.poll(None if timeout is None else max(0.0, timeout) * 1000)
        if self.poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def _ended(self, status: int) -> None:
        self.returncode = os.waitstatus_to_exitcode(status)
        os.close(self._descriptor)


def _become(
    workdir: Path,
    environment: Mapping[str, str],
    streams: tuple[int, int, int],
    setup: Callable[[], None],
    problem: int,
) -> None:
    """Make this fork what a fresh process would be, or end it and say in `problem` why that can't be."""
    highest = min(os.sysconf("SC_OPEN_MAX"), _MOST_DESCRIPTORS)
    os.setsid()
    # Above all three, so that none is overwritten before it is copied.
    above = [os.dup(number) for number in streams]
    for number, source in enumerate(above):
        os.dup2(source, number)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # may have been found in the parent's environment
    try:
        os.chdir(workdir)
        setup()
    except BaseException as error:
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        os.write(problem, json.dumps([number, f"{error}"]).encode())
        os._exit(FAILED_START)
    os.closerange(3, highest)


def _finish(work: Work) -> int:
    """Do the work as the interpreter does a program: its exit status."""
    try:
        status = work() or 0
    except SystemExit as request:
        if request.code is None or isinstance(request.code, int):
            status = request.code or 0
        else:
            sys.stderr.write(f"{request.code}\n")
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 120  # as the interpreter does
    return status & 0xFF


__all__ = ["ForkedProcess", "Work"]
