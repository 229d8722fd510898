"""Simulations of this process: which are running, and which finished last for an artefact directory.

`debug_util` opens an artefact by its directory after `SdkRuntime.stop`; it finds the PE memories here. Errors of the
host API are defined here too, because both the API and `cs_python` need them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fabrica_bench.errors import FabricaError

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import Program
    from fabrica_bench.wse.machine import Machine


class HostError(FabricaError, RuntimeError):
    """The host API was misused: wrong arguments, wrong order of calls. A RuntimeError, as with the vendor's module."""


class SimulatorStopped(RuntimeError):
    """The simulated run ended early: fault, deadlock or spent budget.

    The text is the block `fabrica-sim: KIND: ...` with the simulator's report.
    """


class Session:
    """One program on one simulated fabric."""

    def __init__(self, directory: Path, program: Program, machine: Machine) -> None:
        self.directory = directory
        self.program = program
        self.machine = machine
        self.stopped = False


_sessions: dict[Path, Session] = {}


def register(session: Session) -> None:
    """Make it the session of its directory."""
    _sessions[session.directory.resolve()] = session


def find(directory: Path) -> Session | None:
    """The last session that ran the artefact, or None."""
    return _sessions.get(directory.resolve())


def running() -> list[str]:
    """Artefact directories whose program was run and never stopped."""
    return [str(session.directory) for session in _sessions.values() if not session.stopped]
