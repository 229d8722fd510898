"""What the scorer asks of a toolchain: build a bundle once, run it on input files.

Three back ends implement it: `embedded` (the project's own compiler and simulator), `sdk` (the vendor's `cslc` and
`cs_python`) and `appliance` (the vendor's client package). A record always names the back end that produced it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol, runtime_checkable

from fabrica_bench.wse.evidence import RunEvidence

Severity = Literal["error", "warning", "note"]
FaultKind = Literal["fault", "deadlock", "budget", "timeout", "mismatch", "crash"]

STATS_FILE: Final = "sim_stats.json"
"""Written by the embedded host module into the working directory: total cycles and the window of every launch."""


@dataclass(frozen=True)
class ToolDiagnostic:
    """One message of a compiler. `line` and `column` are 1-based, 0 when the message has no place."""

    file: str
    line: int
    column: int
    severity: Severity
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        """`file:line:column: severity: message` and the hint on a second line."""
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else (f"{self.file}: " if self.file else "")
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}{self.severity}: {self.message}{hint}"


@dataclass(frozen=True)
class BuildOptions:
    """How to compile a bundle: the flags of `cslc`.

    Attributes:
        arch: `wse2` or `wse3`.
        fabric_dims: (columns, rows) of the simulated fabric.
        fabric_offsets: Place of the program rectangle on it.
        params: Compile-time params of the layout.
        layout: Name of the layout file in the bundle.
        output: Folder of the artefact, relative to the bundle.
        channels: I/O channels of memcpy.
        deadline_s: Wall-clock backstop.
    """

    arch: str
    fabric_dims: tuple[int, int]
    fabric_offsets: tuple[int, int] = (4, 1)
    params: Mapping[str, int] = field(default_factory=dict)
    layout: str = "layout.csl"
    output: str = "out"
    channels: int = 1
    deadline_s: float = 120.0

    def flags(self) -> list[str]:
        """The arguments after `cslc`, in the order that the bundles' command scripts use."""
        flags = [
            self.layout,
            f"--arch={self.arch}",
            f"--fabric-dims={self.fabric_dims[0]},{self.fabric_dims[1]}",
            f"--fabric-offsets={self.fabric_offsets[0]},{self.fabric_offsets[1]}",
        ]
        if self.params:
            flags.append("--params=" + ",".join(f"{name}:{value}" for name, value in self.params.items()))
        return [*flags, "--memcpy", f"--channels={self.channels}", "-o", self.output]


@dataclass(frozen=True)
class BuildResult:
    """Outcome of a build. `artifact` is set exactly when `ok`."""

    ok: bool
    diagnostics: tuple[ToolDiagnostic, ...]
    artifact: Path | None
    log: str
    seconds: float


@dataclass(frozen=True)
class RunRequest:
    """One execution of a bundle's runner in a folder of its own.

    Attributes:
        runner: The bundle's `run.py`.
        support: Files that the runner imports from beside it.
        workdir: Empty private folder; becomes the working directory, and everything is passed relative to it.
        inputs: Input arrays as `.npz`, or None for the runner's own seeded data.
        check: Let the runner compare with its own expected values. The scorer never does: it compares itself.
        entry: Host-launched function whose window is wanted; None for the last launch of any.
        max_cycles: Simulated cycles after which a run is ended, where the toolchain can; None for its own default.
        deadline_s: Wall-clock backstop.
        trusted: The program is the benchmark's own, so that machine code made from it may serve later runs.
        profile: Leave `*.profile.json` below the working directory, where the toolchain can; the run is slower.
    """

    runner: Path
    workdir: Path
    inputs: Path | None = None
    support: tuple[Path, ...] = ()
    entry: str | None = None
    max_cycles: int | None = None
    check: bool = False
    deadline_s: float = 120.0
    trusted: bool = False
    profile: bool = False


@dataclass(frozen=True)
class RunFault:
    """Why a run has no usable outputs; `kind` decides who is told what, `message` is for people."""

    kind: FaultKind
    message: str


@dataclass(frozen=True)
class RunResult:
    """Outcome of one run. `outputs` is set exactly when `ok`; `fault` exactly when not.

    Attributes:
        window: (start, end) cycle of the entry's launches as the simulator saw them; None where it can't tell.
        evidence: What the simulator itself knows about when the program worked; None where it can't tell.
    """

    ok: bool
    outputs: Path | None
    fault: RunFault | None
    log: str
    seconds: float
    window: tuple[int, int] | None = None
    evidence: RunEvidence | None = None


class ToolchainUnavailable(Exception):
    """The back end can't be used on this machine. `remedy` says what to install or set."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message} ({remedy})")
        self.message = message
        self.remedy = remedy


@runtime_checkable
class Toolchain(Protocol):
    """A compiler and an executor of CSL bundles.

    Implementations raise `ToolchainUnavailable` when they can't work at all, and `OSError` when the machine fails them
    (no space left); whatever the candidate caused is in the results.
    """

    @property
    def name(self) -> str:
        """Name of the back end in records."""
        ...

    def describe(self) -> dict[str, str]:
        """Name, version and where it comes from; part of every record, and the same text for the same toolchain."""
        ...

    def isolation(self) -> dict[str, str]:
        """What confines the child processes of this back end."""
        ...

    def build(self, bundle: Path, options: BuildOptions) -> BuildResult:
        """Compile the bundle in place; the artefact goes to `bundle / options.output`."""
        ...

    def run(self, artifact: Path, request: RunRequest) -> RunResult:
        """Run the artefact once on a fresh simulator."""
        ...

    def run_all(self, artifact: Path, requests: Sequence[RunRequest]) -> list[RunResult]:
        """Run every request, each in its own process on a fresh simulator; results in the order of the requests."""
        ...
