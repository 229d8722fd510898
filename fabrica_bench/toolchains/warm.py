"""The embedded toolchain without the start of an interpreter: each child is a fork of this process.

For measurements over many programs of the benchmark's own (mutants of its kernels). Compiler, simulator, limits,
environment and confinement are those of the embedded toolchain; only a fresh interpreter per child is not, so
candidates of others are never run this way.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Final

from fabrica_bench.tasks import secret_roots
from fabrica_bench.toolchains.embedded import EmbeddedToolchain, embedded_toolchain
from fabrica_bench.toolchains.landlock import Confinement, python_paths
from fabrica_bench.toolchains.processes import ProcessResult, child_setup, cut_output, scrubbed_environment
from fabrica_bench.wse.selection import confined_native

MODULES: Final = ("fabrica_bench.compat.batch", "fabrica_bench.compat.runtime", "fabrica_bench.csl.driver")
"""Imported here once, for all children."""


@dataclass(frozen=True)
class WarmToolchain(EmbeddedToolchain):
    """See the module. The process that uses it must have one thread."""

    def _confined(
        self,
        argv: Sequence[str],
        workdir: Path,
        deadline_s: float,
        *,
        write: Iterable[Path],
        stdin: Path | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> ProcessResult:
        for name in MODULES:
            importlib.import_module(name)
        place = list(argv).index("-m") + 1
        paths = python_paths(hidden=secret_roots())
        variables, code = confined_native()
        environment = scrubbed_environment(workdir, {**self.environment, **variables, **(extra or {})})
        begin = time.monotonic()
        with (
            Confinement(read=[*paths.read, *code], listed=paths.listed, write=write, network=False) as confinement,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            open(os.devnull if stdin is None else stdin, "rb") as source,
        ):
            sys.stdout.flush()
            sys.stderr.flush()
            setup = child_setup(self.limits, os.getpid(), confinement.apply)
            pid = os.fork()
            if pid == 0:
                # Whatever happens, the child must not return into its parent's work.
                try:
                    for number, stream in enumerate((source, out, err)):
                        os.dup2(stream.fileno(), number)
                    os.setsid()
                    setup()
                    os._exit(_work(argv[place], argv[place + 1 :], workdir, environment))
                finally:
                    os._exit(101)
            status, timed_out = _wait(pid, begin + deadline_s)
            texts = [_text(stream) for stream in (out, err)]
        return ProcessResult(
            os.waitstatus_to_exitcode(status), timed_out, 0, texts[0], texts[1], time.monotonic() - begin
        )


def warm_toolchain() -> WarmToolchain:
    """The embedded back end in forks of this process."""
    usual = embedded_toolchain()
    return WarmToolchain(**{item.name: getattr(usual, item.name) for item in fields(usual)})


def _work(module: str, arguments: Sequence[str], workdir: Path, environment: Mapping[str, str]) -> int:
    os.chdir(workdir)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in ((0, "r"), (1, "w"), (2, "w")))
    try:
        return int(importlib.import_module(module).main() or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _wait(pid: int, deadline: float) -> tuple[int, bool]:
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status, False
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            return os.waitpid(pid, 0)[1], True
        time.sleep(0.005)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return cut_output(stream.read())
