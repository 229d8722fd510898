"""Several runs of one program for the price of one start: `python -m fabrica_bench.compat.batch`.

Reads `{"artifact": ..., "runs": [{"workdir": ..., "arguments": [...], "deadline_s": ..., "environment": {...},
"support": false}]}` from its standard input (a file), loads NumPy, the simulator and the program's code, and then forks
one process per run, one after another. `support` tells whether the runner imports modules that lie in its working
directory. Each process has a session, working directory and simulator of its own and ends before the next begins.
Writes one JSON object per run to standard output: `{"returncode": ..., "timed_out": ..., "seconds": ...,
"cpu_s": ...}`; what a run prints goes to the files `stdout` and `stderr` beside its working directory.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fabrica_bench.compat import cs_python
from fabrica_bench.compat.host_code import import_from, keep_compiled
from fabrica_bench.compat.warming import warm_modules, warm_up
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
    for run in request["runs"]:
        keep_compiled(Path(run["workdir"]))
        sys.stdout.write(json.dumps(_supervise(run)) + "\n")
        sys.stdout.flush()
    return 0


def _supervise(run: Mapping[str, Any]) -> dict[str, Any]:
    begin = time.monotonic()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        # Whatever happens, the child must not return into the parent's loop.
        try:
            os._exit(_work(run))
        finally:
            os._exit(cs_python.SIMULATION_FAILED + 100)
    status, timed_out, cpu_s = _wait(pid, begin + float(run["deadline_s"]))
    return {
        "returncode": os.waitstatus_to_exitcode(status),
        "timed_out": timed_out,
        "seconds": time.monotonic() - begin,
        "cpu_s": cpu_s,
    }


def _work(run: Mapping[str, Any]) -> int:
    os.setsid()
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


def _wait(pid: int, deadline: float) -> tuple[int, bool, float]:
    """Wait status, whether the deadline passed, and processor seconds."""
    timed_out = not _ends_by(pid, deadline)
    if timed_out:
        os.killpg(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    return status, timed_out, usage.ru_utime + usage.ru_stime


def _ends_by(pid: int, deadline: float) -> bool:
    """Wait until a child has ended (it is not collected), or until the deadline."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # no Linux, or an old one
        return _polled_end_by(pid, deadline)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
    finally:
        os.close(descriptor)


def _polled_end_by(pid: int, deadline: float) -> bool:
    pause = 0.001
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    return True


if __name__ == "__main__":
    sys.exit(main())
