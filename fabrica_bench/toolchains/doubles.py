"""A toolchain that executes nothing: a test double for the scorer and the run machinery.

It "computes" y = 2 x and obeys directives in the candidate's text, so that every outcome can be produced on purpose:

    //! build=error|bug                  the build fails with one diagnostic, or the compiler itself does
    //! run=crash|deadlock|timeout|silent|bug  the run fails that way (silent: it writes nothing), or the simulator does
    //! outputs=zeros|nan|poison|transposed|double   what is written; the default is the right answer
    //! cycles=N                         what the stamps say (default 1000)
    //! launch=N                         length of the launch as the simulator sees it (default: as the stamps)
    //! reported=N                       what the runner reports (default: as the stamps)
    //! inputs=changed                   the input file is overwritten
    //! pause=SECONDS                    the build takes that long

It is only offered by name when FABRICA_BENCH_TEST_DOUBLES is set, and its records say what it is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.toolchains.commands import INPUTS_NAME, OUTPUTS_NAME
from fabrica_bench.toolchains.protocol import (
    BuildOptions,
    BuildResult,
    RunFault,
    RunRequest,
    RunResult,
    ToolDiagnostic,
)

COMPUTE_FILE: Final = "pe.csl"
_DIRECTIVE: Final = re.compile(r"^//! (?P<name>\w+)=(?P<value>\S+)$", re.MULTILINE)
_START: Final = 100


@dataclass
class ScriptedToolchain:
    """See the module. `builds` and `runs` count what was asked for."""

    name: str = "scripted"
    builds: int = 0
    runs: int = 0

    def describe(self) -> dict[str, str]:
        """Says that nothing was executed."""
        return {"toolchain": "scripted", "version": "1", "vendor": "no", "executes": "nothing: a test double"}

    def isolation(self) -> dict[str, str]:
        """There is nothing to confine."""
        return {"execution": "none"}

    def build(self, bundle: Path, options: BuildOptions) -> BuildResult:
        """Keep the candidate's text as the artefact."""
        self.builds += 1
        text = (bundle / COMPUTE_FILE).read_text(encoding="utf-8")
        orders = directives(text)
        time.sleep(float(orders.get("pause", "0")))
        if orders.get("build") == "error":
            diagnostic = ToolDiagnostic(COMPUTE_FILE, 1, 1, "error", "refused as ordered", "remove the directive")
            return BuildResult(False, (diagnostic,), None, str(diagnostic), 0.0)
        if orders.get("build") == "bug":
            raise FabricaError("cslc crashed: as ordered", code=ExitCode.HARNESS)
        artifact = bundle / options.output
        artifact.mkdir()
        (artifact / COMPUTE_FILE).write_text(text, encoding="utf-8")
        return BuildResult(True, (), artifact, "", 0.0)

    def run(self, artifact: Path, request: RunRequest) -> RunResult:
        """Write what the directives order."""
        self.runs += 1
        orders = directives((artifact / COMPUTE_FILE).read_text(encoding="utf-8"))
        request.workdir.mkdir(parents=True)
        assert request.inputs is not None
        data = request.inputs.read_bytes()
        (request.workdir / INPUTS_NAME).write_bytes(b"" if orders.get("inputs") == "changed" else data)
        match orders.get("run"):
            case "crash":
                return _fault("crash", "runner ended with exit status 1: as ordered")
            case "deadlock":
                return _fault("deadlock", "no PE can advance: as ordered")
            case "timeout":
                return _fault("timeout", "wall limit of 1 s exceeded after 1.0 s; all processes killed")
            case "bug":
                raise FabricaError("the simulator crashed: as ordered", code=ExitCode.HARNESS)
            case "silent":
                return _fault("crash", "runner succeeded but wrote no outputs.npz")
        with np.load(request.inputs, allow_pickle=False) as archive:
            x = archive["x"]
        cycles = int(orders.get("cycles", "1000"))
        outputs = request.workdir / OUTPUTS_NAME
        np.savez(
            outputs,
            y=_outputs(x, orders.get("outputs")),
            cycles=np.int64(orders.get("reported", cycles)),
            stamps=_stamps(_START, _START + cycles),
        )
        return RunResult(True, outputs, None, "", 0.0, (_START, _START + int(orders.get("launch", cycles))))

    def run_all(self, artifact: Path, requests: Sequence[RunRequest]) -> list[RunResult]:
        """One after another."""
        return [self.run(artifact, request) for request in requests]


def directives(text: str) -> dict[str, str]:
    """The orders in a candidate's text."""
    return {match["name"]: match["value"] for match in _DIRECTIVE.finditer(text)}


def _fault(kind: Any, message: str) -> RunResult:
    return RunResult(False, None, RunFault(kind, message), message, 0.0)


def _outputs(x: npt.NDArray[np.float32], order: str | None) -> npt.NDArray[Any]:
    right = 2 * x
    match order:
        case "zeros":
            return np.zeros_like(right)
        case "nan":
            right[-1] = np.nan
        case "poison":
            right.view(np.uint32)[1] = 0xFFFFFFFF
        case "transposed":
            return right.reshape(2, -1).T
        case "double":
            return right.astype(np.float64)
    return right


def _stamps(start: int, end: int) -> npt.NDArray[np.uint16]:
    words = [value >> shift & 0xFFFF for value in (start, end) for shift in (0, 16, 32)]
    return np.array(words, dtype=np.uint16).reshape(1, 1, 6)
