"""Check 5: the outputs are the right numbers.

Works on the arrays that the runner wrote, in the scorer's own process, where the expected values are computed after the
run has ended. Shape and type come first, then finiteness (with no quota), then the tolerance of the spec.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fabrica_bench.errors import ExitCode, FabricaError, require_readable
from fabrica_bench.integrity.findings import Finding, Predicate
from fabrica_bench.tasks import Answers, Arrays, OutputCheck, Task

NAME: Final = "outputs"

MAX_OUTPUT_BYTES: Final = 256 << 20
"""Unpacked size of an outputs file that is read at all."""

POISON_WORDS: Final = {32: 0xFFFFFFFF, 16: 0xFFFF}
"""Bit patterns, NaNs as floats, that the runners fill every output with before the run."""

CYCLES: Final = "cycles"
STAMPS: Final = "stamps"


class RunOutputs(NamedTuple):
    """Arrays that a runner wrote, and its cycle counter."""

    arrays: Arrays
    cycles: int
    stamps: npt.NDArray[Any]


def read_outputs(path: Path, task: Task) -> RunOutputs | str:
    """Read an outputs file; a sentence when it isn't one.

    Never unpickles, never unpacks more than `MAX_OUTPUT_BYTES`, and takes nothing but the declared names.

    Raises:
        FabricaError: An array is missing: the task's runner is broken. Or the machine can't read the file.
    """
    names = [output.name for output in task.spec.outputs]
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(item.file_size for item in archive.infolist())
        if size > MAX_OUTPUT_BYTES:
            return f"outputs unpack to {size} bytes, more than {MAX_OUTPUT_BYTES}"
        with np.load(path, allow_pickle=False) as archive:
            missing = [name for name in [*names, CYCLES, STAMPS] if name not in archive.files]
            if missing:
                # The runner is frozen: what it doesn't write is no candidate's fault.
                raise FabricaError(
                    f"the runner wrote no {', '.join(missing)}",
                    place=str(task.bundle_dir / task.spec.bundle.runner),
                    remedy="give --outputs every output under its name in spec.yaml, and cycles and stamps",
                    code=ExitCode.HARNESS,
                )
            arrays = {name: archive[name] for name in names}
            cycles, stamps = archive[CYCLES], archive[STAMPS]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        if isinstance(error, OSError):
            require_readable(error)
        return f"outputs can't be read: {type(error).__name__}: {error}"
    if cycles.shape != () or cycles.dtype.kind not in "iu":
        return f"cycles are {cycles.dtype} {list(cycles.shape)}, not one integer"
    return RunOutputs(arrays, int(cycles), stamps)


def check_outputs(
    task: Task, outputs: Arrays, inputs: Arrays, size: dict[str, int], answers: Answers | None = None
) -> tuple[list[Finding], list[OutputCheck]]:
    """Compare the outputs of one run with the oracle, or with its answers to the inputs that are known already.

    Returns:
        Violations, and for every output how far it is off.

    Raises:
        FabricaError: The oracle itself is broken, e.g. an expected value isn't finite; never the candidate's fault.
    """
    vacuous = [output.name for output in task.spec.outputs if 0 in task.shape(output, size)]
    if vacuous:
        # Comparing nothing would always succeed.
        return [_finding(f"output {vacuous[0]!r} has no elements at this size")], []
    checks = task.check(outputs, inputs, size, answers)
    findings = []
    for check in checks:
        if not check.ok:
            array = outputs.get(check.name)
            poisoned = count_poison(array)
            never = f"; elements never written: {poisoned} of {array.size}" if array is not None and poisoned else ""
            findings.append(_finding(f"output {check.name!r}: {check.reason}{never}"))
    return findings, checks


def count_poison(array: npt.NDArray[Any] | None) -> int:
    """Elements that still hold the poison pattern."""
    if array is None or array.dtype.itemsize * 8 not in POISON_WORDS:
        return 0
    bits = array.dtype.itemsize * 8
    words = np.ascontiguousarray(array).view(np.uint32 if bits == 32 else np.uint16)
    return int(np.count_nonzero(words == POISON_WORDS[bits]))


def _finding(message: str) -> Finding:
    return Finding(NAME, Predicate.CORRECT, message)
