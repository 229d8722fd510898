"""Several runs of one program for the price of one start: `python -m fabrica_bench.compat.batch`.

Reads `{"artifact": ..., "at_once": 1, "runs": [{"workdir": ..., "arguments": [...], "deadline_s": ..., "environment":
{...}, "support": false}]}` from its standard input (a file), loads NumPy, the simulator and the program's code, and
then forks one process per run, `at_once` of them at a time. `support` tells whether the runner imports modules that lie
in its working directory. Each process has a group, working directory and simulator of its own.
Writes one JSON object per run to standard output, in their order: `{"returncode": ..., "timed_out": ..., "seconds":
..., "cpu_s": ...}`; what a run prints goes to the files `stdout` and `stderr` beside its working directory.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fabrica_bench.compat import cs_python
from fabrica_bench.compat.host_code import import_from, keep_compiled
from fabrica_bench.compat.warming import warm_modules, warm_up
from fabrica_bench.errors import DENIED_BY_MACHINE, ExitCode
from fabrica_bench.wse.selection import warm_native

OUTPUT_SUFFIXES: Final = (".stdout", ".stderr")


def output_files(workdir: Path) -> tuple[Path, Path]:
    """Where the output of a run goes: beside its working directory, out of its own reach by relative names."""
    stdout, stderr = (workdir.with_name(workdir.name + suffix) for suffix in OUTPUT_SUFFIXES)
    return stdout, stderr


prepare = warm_up
"""What a process does first that will fork for batches."""


def main() -> int:
    """Run the batch; the exit status says only whether the batch itself worked."""
    request = json.load(sys.stdin)
    warm_modules()
    warm_native(Path(request["artifact"]) if request.get("artifact") else None)
    for answer in _answers(request["runs"], max(1, int(request.get("at_once", 1)))):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


class _Run:
    """A run in progress."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        self.begin = time.monotonic()
        self.deadline = self.begin + float(run["deadline_s"])
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            # Whatever happens, the child must not return into the parent's loop.
            try:
                os._exit(_work(run))
            except OSError as error:  # e.g. no space for what it printed
                os._exit(ExitCode.ENVIRONMENT if error.errno in DENIED_BY_MACHINE else ExitCode.FAILURE)
            finally:
                os._exit(ExitCode.HARNESS)
        with contextlib.suppress(OSError):  # it was quicker itself, or has ended
            os.setpgid(self.pid, self.pid)

    @property
    def ended(self) -> bool:
        """Whether its process has ended; it is not collected."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def collect(self) -> dict[str, Any]:
        """Its answer; it is killed if it still runs."""
        timed_out = not self.ended
        if timed_out:
            os.killpg(self.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self.pid, 0)
        return {
            "returncode": os.waitstatus_to_exitcode(status),
            "timed_out": timed_out,
            "seconds": time.monotonic() - self.begin,
            "cpu_s": usage.ru_utime + usage.ru_stime,
        }


def _answers(runs: Sequence[Mapping[str, Any]], at_once: int) -> Iterator[dict[str, Any]]:
    """The answers to the runs, in their order; so many run at a time."""
    running: dict[int, _Run] = {}
    finished: dict[int, dict[str, Any]] = {}
    begun = 0
    for number in range(len(runs)):
        while number not in finished:
            while begun < len(runs) and len(running) < at_once:
                keep_compiled(Path(runs[begun]["workdir"]))
                running[begun] = _Run(runs[begun])
                begun += 1
            for other in _wait(running):
                finished[other] = running.pop(other).collect()
        yield finished.pop(number)


def _wait(running: Mapping[int, _Run]) -> list[int]:
    """Wait until a run has ended or has to; which ones."""
    pause = 0.001
    with contextlib.ExitStack() as stack:
        poll = _poll(running, stack)
        while True:
            now = time.monotonic()
            found = [number for number, run in running.items() if run.deadline <= now or run.ended]
            if found:
                return found
            left = min(run.deadline for run in running.values()) - now
            if poll is None:
                time.sleep(min(pause, left))
                pause = min(pause * 1.5, 0.02)
            else:
                poll.poll(math.ceil(left * 1000))


def _poll(running: Mapping[int, _Run], stack: contextlib.ExitStack) -> select.poll | None:
    """Tells when a run ends; None where a process has no descriptor: no Linux, or an old one."""
    poll = select.poll()
    try:
        for run in running.values():
            descriptor = os.pidfd_open(run.pid)
            stack.callback(os.close, descriptor)
            poll.register(descriptor, select.POLLIN)
    except (AttributeError, OSError):
        return None
    return poll


def _work(run: Mapping[str, Any]) -> int:
    os.setpgid(0, 0)  # a session takes the kernel milliseconds, and the batch has one
    workdir = Path(run["workdir"])
    os.chdir(workdir)
    for descriptor, path in zip((1, 2), output_files(workdir), strict=True):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.update(run["environment"], HOME=str(workdir), TMPDIR=str(workdir))
    sys.dont_write_bytecode = True  # the folder goes when the run ends
    if run["support"]:
        import_from(workdir)  # the staged copies of what the runner imports
    from numpy import random

    random.seed()  # Python seeds its own generator anew after a fork, NumPy doesn't
    try:
        return int(cs_python.main(run["arguments"]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
