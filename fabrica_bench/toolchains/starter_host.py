"""`python -m fabrica_bench.toolchains.starter_host MODULES...`: forks what it is asked to run.

Its standard input is a socket. It imports the modules, and then reads nothing itself: for each request it forks a
supervisor, which reads the request, forks the child that does the work, ends it in time, sees that nothing of it is
left, and answers. So a child finds in its memory the modules and its own request, and never anything of another's.

A request and an answer are JSON objects, each after its length (see `frames`).
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from fabrica_bench.toolchains.frames import read_frame, write_frame
from fabrica_bench.toolchains.landlock import Confinement, prepare_confinement
from fabrica_bench.toolchains.processes import (
    Limits,
    ProcessResult,
    adopt_orphans,
    die_with_parent,
    kill_orphans,
    outlive_thread,
    run_process,
)

PARENT_PAUSE_MS: Final = 1000
"""How often it looks whether who asked still lives; a closed socket tells at once."""


def main(modules: list[str]) -> int:
    """Serve until the other end of the socket closes."""
    parent, own = os.getppid(), os.getpid()
    outlive_thread()
    channel = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    if not adopt_orphans():
        return 1
    for name in modules:
        module = importlib.import_module(name)
        prepare = getattr(module, "prepare", None)
        if prepare is not None:
            prepare()
    prepare_confinement()
    gc.collect()
    gc.freeze()  # pages that no collection touches stay shared
    channel.sendall(b"\n")
    while _wait(channel, None, parent):
        supervisor = os.fork()
        if supervisor == 0:
            # Whatever happens, the supervisor must not return into this loop.
            try:
                _supervise(channel, own)
                os._exit(0)
            finally:
                os._exit(1)
        descriptor = os.pidfd_open(supervisor)
        served = _wait(channel, descriptor, parent)
        os.close(descriptor)
        if not served:
            os.kill(supervisor, signal.SIGKILL)
        status = os.waitpid(supervisor, 0)[1]
        kill_orphans()
        if status or not served:
            return 1  # nobody knows how much of an answer was sent
    return 0


def _wait(channel: socket.socket, process: int | None, parent: int) -> bool:
    """Until there is a request, or `process` has ended; False when who asks is gone."""
    poll = select.poll()
    poll.register(channel, select.POLLRDHUP if process is not None else select.POLLIN | select.POLLRDHUP)
    if process is not None:
        poll.register(process, select.POLLIN)
    while True:
        events = dict(poll.poll(PARENT_PAUSE_MS))
        if events.get(channel.fileno(), 0) & (select.POLLRDHUP | select.POLLHUP | select.POLLERR):
            return False
        if events:
            return True
        if os.getppid() != parent:
            return False


def _supervise(channel: socket.socket, starter: int) -> None:
    """Serve one request."""
    die_with_parent(starter)
    adopt_orphans()
    try:
        answer: dict[str, Any] = asdict(_run(read_frame(channel)))
    except OSError as error:
        answer = {"errno": error.errno, "text": error.strerror or str(error), "file": error.filename}
    write_frame(channel, answer)


def _run(request: Mapping[str, Any]) -> ProcessResult:
    arguments: list[str] = request["arguments"]
    module = importlib.import_module(request["module"])

    def work() -> int | None:
        sys.argv = [str(module.__file__), *arguments]
        status: int | None = module.main()
        return status

    rules = request["confinement"]
    with Confinement(
        read=map(Path, rules["read"]),
        listed=map(Path, rules["listed"]),
        write=map(Path, rules["write"]),
        network=rules["network"],
    ) as confinement:
        return run_process(
            work,
            workdir=Path(request["workdir"]),
            environment=request["environment"],
            limits=Limits(**request["limits"]),
            deadline_s=request["deadline_s"],
            stdin=None if request["stdin"] is None else Path(request["stdin"]),
            confine=confinement.apply,
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
