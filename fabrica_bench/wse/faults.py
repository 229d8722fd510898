"""Ways a simulated run can end early, each with what a programmer needs to find the cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


class PePosition(NamedTuple):
    """Column and row of a PE in the program rectangle."""

    x: int
    y: int

    def __str__(self) -> str:
        return f"PE({self.x},{self.y})"


class SourceLocation(NamedTuple):
    """Place in a CSL source file. Line 0 means unknown."""

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file or "unknown source line"
        return f"{self.file}:{self.line}:{self.column}"


class SimulationError(Exception):
    """Base of everything that ends a run early. `kind` is the word printed after `fabrica-sim:`."""

    kind: Literal["fault", "deadlock", "budget"] = "fault"

    @property
    def text(self) -> str:
        """The message without the leading kind."""
        return str(self)


class Fault(SimulationError):
    """A PE did something the machine does not allow.

    Attributes:
        pe: the PE, or None for a fault of the host side.
        location: source line, if known.
        task: name of the running task or function.
        message: what went wrong.
        values: the numbers involved, by name.
    """

    kind: Literal["fault", "deadlock", "budget"] = "fault"

    def __init__(
        self,
        pe: PePosition | None,
        location: SourceLocation,
        task: str,
        message: str,
        values: Mapping[str, object] | None = None,
        cycle: int | None = None,
    ) -> None:
        self.pe = pe
        self.location = location
        self.task = task
        self.message = message
        self.values = dict(values or {})
        self.cycle = cycle
        super().__init__(self._render())

    def _render(self) -> str:
        where = [str(self.pe)] if self.pe is not None else []
        if self.location.line or self.location.file:
            where.append(str(self.location))
        if self.task:
            where.append(f"in {self.task}")
        if self.cycle is not None:
            where.append(f"at cycle {self.cycle}")
        shown = ", ".join(f"{name}={value}" for name, value in self.values.items())
        return f"{' '.join(where)}{': ' if where else ''}{self.message}{f' ({shown})' if shown else ''}"


@dataclass(frozen=True)
class StuckPe:
    """One PE that cannot go on. `waits` says what each of its threads waits for, one sentence each."""

    pe: PePosition
    waits: tuple[str, ...]


@dataclass(frozen=True)
class StuckWavelets:
    """Wavelets that wait in the router of `pe` (or in one of its queues) and why they do not move."""

    pe: PePosition
    color: int
    count: int
    place: str
    reason: str


@dataclass(frozen=True)
class DeadlockReport:
    """Why nothing can advance. `groups` merges PEs that wait for the same thing."""

    cycle: int
    host_wait: str
    stuck_pes: tuple[StuckPe, ...] = ()
    wavelets: tuple[StuckWavelets, ...] = ()
    never_unblocked: tuple[PePosition, ...] = ()
    hints: tuple[str, ...] = field(default=())

    def render(self, limit: int = 12) -> str:
        """Text for people; long lists are cut after `limit` entries."""
        lines = [f"nothing can advance after cycle {self.cycle}", f"  the host waits for {self.host_wait}"]
        groups: dict[tuple[str, ...], list[PePosition]] = {}
        for stuck in self.stuck_pes:
            groups.setdefault(stuck.waits, []).append(stuck.pe)
        for index, (waits, pes) in enumerate(groups.items()):
            if index == limit:
                lines.append(f"  ... and {len(groups) - limit} more kinds of wait")
                break
            lines.append(f"  {_pe_list(pes, limit)}:")
            lines.extend(f"    {wait}" for wait in waits)
        for wavelet in self.wavelets[:limit]:
            lines.append(
                f"  {wavelet.count} wavelet(s) of color {wavelet.color} held in {wavelet.place} of {wavelet.pe}:"
                f" {wavelet.reason}"
            )
        if len(self.wavelets) > limit:
            lines.append(f"  ... and {len(self.wavelets) - limit} more places that hold wavelets")
        if self.never_unblocked:
            lines.append(f"  never called unblock_cmd_stream: {_pe_list(list(self.never_unblocked), limit)}")
        lines.extend(f"  hint: {hint}" for hint in self.hints)
        return "\n".join(lines)


def _pe_list(pes: list[PePosition], limit: int) -> str:
    shown = ", ".join(str(pe) for pe in pes[:limit])
    return shown if len(pes) <= limit else f"{shown} and {len(pes) - limit} more PEs"


class Deadlock(SimulationError):
    """Nothing can advance and the host still waits."""

    kind: Literal["fault", "deadlock", "budget"] = "deadlock"

    def __init__(self, report: DeadlockReport) -> None:
        self.report = report
        super().__init__(report.render())


class BudgetExceeded(SimulationError):
    """The run used up its cycles or its wall-clock time."""

    kind: Literal["fault", "deadlock", "budget"] = "budget"
