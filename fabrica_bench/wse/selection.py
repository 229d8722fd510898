"""Choose who executes a program: the native executor or the reference."""

from __future__ import annotations

import contextlib
import logging
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fabrica_bench.csl.artifact import keep_program
from fabrica_bench.errors import FabricaError
from fabrica_bench.wse.costs import load_costs
from fabrica_bench.wse.machine import Machine

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import Program
    from fabrica_bench.wse.commands import Limits
    from fabrica_bench.wse.trace import TraceSink

EXECUTORS = ("native", "reference")
DEFAULT_EXECUTOR = "native"
VARIABLE = "FABRICA_SIM_EXECUTOR"
_LOGGER = logging.getLogger("fabrica_bench.wse")


def executor_name(name: str | None = None) -> str:
    """`name`, else what `FABRICA_SIM_EXECUTOR` says, else the default.

    Raises:
        FabricaError: No such executor.
    """
    chosen = name or os.environ.get(VARIABLE) or DEFAULT_EXECUTOR
    if chosen not in EXECUTORS:
        raise FabricaError(f"no executor {chosen!r}", remedy=f"one of {', '.join(EXECUTORS)} (option or {VARIABLE})")
    return chosen


def open_machine(
    program: Program,
    *,
    limits: Limits | None = None,
    trace: TraceSink | None = None,
    executor: str | None = None,
) -> Machine:
    """A machine that runs `program` on the chosen executor.

    The native executor gives the same outputs, cycles and faults. A run that is traced goes to the reference executor;
    so does a program that uses what the native one does not implement, with a notice.
    """
    if executor_name(executor) == "native":
        machine = _native(program, limits, trace)
        if machine is not None:
            return machine
    return Machine(program, limits=limits, trace=trace)


@cache
def confined_native() -> tuple[dict[str, str], tuple[Path, ...]]:
    """What children that see few files need in order to run natively: environment variables, and folders to be read.

    Compiles the kernel now, if the cache does not have it, because such children cannot fill the cache.
    """
    if executor_name() != "native":
        return {VARIABLE: "reference"}, ()
    try:
        from fabrica_bench.wse.native.library import cache_directory, library  # loads LLVM

        library()
        folder = cache_directory()
    except ImportError:
        folder = None
    if folder is None:
        return {VARIABLE: "reference"}, ()
    return {VARIABLE: "native", "FABRICA_CACHE_DIR": str(folder.parents[1])}, (folder,)


def keep_code(private: Path) -> None:
    """Let later processes use the machine code in a private folder; only for programs of the benchmark's own."""
    if executor_name() == "native":
        with contextlib.suppress(ImportError):
            from fabrica_bench.wse.native.library import adopt_code

            adopt_code(private)


#: Instructions of a program from which on the processes that run it compile it, each under its own deadline.
_MOST_WARMED = 20_000


def warm_native(artifact: Path | None = None) -> None:
    """Load the kernel, a compiled program and its code, for a process that will fork to run it several times.

    Does nothing where the native executor is not to be used. What is wrong with the program is left to its runs to say.
    """
    if executor_name() != "native":
        return
    try:
        from fabrica_bench.wse.native.library import library  # loads LLVM
        from fabrica_bench.wse.native.loading import keep_code_of
        from fabrica_bench.wse.native.machine import NativeMachine  # noqa: F401  # what each run needs
        from fabrica_bench.wse.native.support import NativeUnsupported
    except ImportError:
        return
    library()
    if artifact is None:
        return
    with contextlib.suppress(FabricaError, NativeUnsupported):
        program = keep_program(artifact)
        functions = (function for image in program.images for function in image.functions.values())
        if sum(len(block) for function in functions for block in function.blocks) <= _MOST_WARMED:
            keep_code_of(program, load_costs(program.arch), library())


def _native(program: Program, limits: Limits | None, trace: TraceSink | None) -> Machine | None:
    if trace is not None:  # only the reference executor tells what happens inside
        return None
    try:
        from fabrica_bench.wse.native.machine import NativeMachine
        from fabrica_bench.wse.native.support import NativeUnsupported
    except ImportError as problem:
        _LOGGER.warning("fabrica-sim: no native code here (%s); using the reference executor", problem)
        return None
    try:
        return NativeMachine(program, limits=limits)
    except NativeUnsupported as reason:
        _LOGGER.warning("fabrica-sim: using the reference executor: the native one does not implement %s", reason)
        return None
