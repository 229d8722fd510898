"""Children that run a text as a Python program: each in an interpreter of its own, or as a fork of a starter."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, Protocol

from fabrica_bench.toolchains.processes import (
    Limits,
    ProcessResult,
    python_environment,
    run_process,
    scrubbed_environment,
)
from fabrica_bench.toolchains.starter import Access, run_forked

EVERYTHING: Final = Access(read=(Path("/"),), listed=(), write=(Path("/"),), network=True)
_TESTS: Final = Path(__file__).resolve().parent.parent


class Python(Protocol):
    """Runs `code` in the folder `tmp_path`."""

    def __call__(
        self, code: str, tmp_path: Path, *, deadline_s: float = 20.0, limits: Limits | None = None
    ) -> ProcessResult: ...


def program_python(
    code: str, tmp_path: Path, *, deadline_s: float = 20.0, limits: Limits | None = None
) -> ProcessResult:
    """In an interpreter of its own."""
    return run_process(
        [sys.executable, "-c", code],
        workdir=tmp_path,
        environment=scrubbed_environment(tmp_path),
        limits=limits or Limits(),
        deadline_s=deadline_s,
    )


def forked_python(
    code: str,
    tmp_path: Path,
    *,
    deadline_s: float = 20.0,
    limits: Limits | None = None,
    access: Access = EVERYTHING,
) -> ProcessResult:
    """In a fork of a starter."""
    shared = python_environment()
    shared["PYTHONPATH"] += os.pathsep + str(_TESTS)
    return run_forked(
        "helpers.children",
        [code],
        modules=("helpers.children",),
        shared=shared,
        workdir=tmp_path,
        environment=scrubbed_environment(tmp_path, shared),
        limits=limits or Limits(),
        deadline_s=deadline_s,
        stdin=None,
        access=access,
    )


def main() -> None:
    """What the fork does."""
    exec(compile(sys.argv[1], "<string>", "exec"), {"__name__": "__main__"})
