"""Ways a simulated run can end early, each with what a programmer needs to find the cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


def quote(location: SourceLocation, source: str, indent: str = "  ") -> list[str]:
    """A source line and a caret under its column, or nothing if the line is unknown."""
    if not source.strip():
        return []
    bare = source.lstrip()
    label = f"{indent}{location.line} | "
    caret = location.column - 1 - (len(source) - len(bare))
    lines = [label + bare.replace("\t", " ")]
    if 0 <= caret <= len(bare):
        lines.append(" " * (len(label) - 2) + "| " + " " * caret + "^")
    return lines


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
        source: text of the source line, empty if unknown.
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
        source: str = "",
    ) -> None:
        self.source = source
        self.pe = pe
        self.location = location
        self.task = task
        self.message = message
        self.values = dict(values or {})
        self.cycle = cycle
        super().__init__(self._render())

    @property
    def text(self) -> str:
        """The message and, below it, the source line with a caret."""
        return "\n".join([str(self), *quote(self.location, self.source)])

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
    """One PE that cannot go on. `waits` says what each of its threads and tasks waits for; further lines of an entry
    quote the source."""

    pe: PePosition
    waits: tuple[str, ...]


@dataclass(frozen=True)
class StuckWavelets:
    """Wavelets that wait at `place` of `pe`, and why. `lacks_receiver`: nobody there takes the color."""

    pe: PePosition
    color: int
    count: int
    place: str
    reason: str
    lacks_receiver: bool = False


@dataclass(frozen=True)
class MissingWavelets:
    """PEs that wait for wavelets of a color, and what the PEs do whose routes could bring them (empty: no PE's can).
    `from_host`: words that the host's stream has brought each of them; None if none did."""

    color: int
    waiting: tuple[PePosition, ...]
    senders: tuple[tuple[PePosition, str], ...]
    from_host: int | None = None


@dataclass(frozen=True)
class DeadlockReport:
    """Why nothing can advance; `deadlock_text.render` makes the text.

    Attributes:
        cycle: the last cycle in which something happened.
        host_wait: the command that does not end.
        stuck_pes: PEs with a thread or a task that waits.
        idle_pes: PEs that keep the host waiting though nothing of theirs waits, and which of their tasks never ran.
        wavelets: wavelets that do not move.
        missing: colors that somebody waits for.
        never_unblocked: PEs that did not give the command stream back.
        circles: circular waits: PEs in order, each with what it waits for from the next one (the last: from the first).
        hints: remedies.
    """

    cycle: int
    host_wait: str
    stuck_pes: tuple[StuckPe, ...] = ()
    idle_pes: tuple[StuckPe, ...] = ()
    wavelets: tuple[StuckWavelets, ...] = ()
    missing: tuple[MissingWavelets, ...] = ()
    never_unblocked: tuple[PePosition, ...] = ()
    circles: tuple[tuple[tuple[PePosition, str], ...], ...] = ()
    hints: tuple[str, ...] = ()


class Deadlock(SimulationError):
    """Nothing can advance and the host still waits."""

    kind: Literal["fault", "deadlock", "budget"] = "deadlock"

    def __init__(self, report: DeadlockReport) -> None:
        from fabrica_bench.wse.deadlock_text import render

        self.report = report
        super().__init__(render(report))


class BudgetExceeded(SimulationError):
    """The run used up its cycles or its wall-clock time."""

    kind: Literal["fault", "deadlock", "budget"] = "budget"
