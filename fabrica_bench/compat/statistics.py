"""What a run leaves in the working directory: `sim.log` (simprint lines) and `sim_stats.json`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fabrica_bench.compat.artifacts import write_json
from fabrica_bench.errors import from_os_error
from fabrica_bench.version import __version__

if TYPE_CHECKING:
    from fabrica_bench.wse.machine import Machine

LOG_FILE: Final = "sim.log"
STATISTICS_FILE: Final = "sim_stats.json"


def statistics(machine: Machine) -> dict[str, Any]:
    """Cycles of the whole run and of each launch (start of the launch to the last `unblock_cmd_stream`).

    `activity`, `clocks` and `readbacks` are the evidence that `wse.evidence` describes; the lists of `clocks` are row
    by row.
    """
    return {
        "cycles": machine.cycle,
        "launches": [
            {"name": window.name, "start": window.start_cycle, "end": window.end_cycle}
            for window in machine.launch_windows
        ],
        "activity": [_fields(item) for item in machine.activity],
        "clocks": machine.clocks(),
        "readbacks": [_fields(item) for item in machine.readbacks],
        "toolchain": "fabrica-embedded",
        "version": __version__,
    }


def _fields(item: object) -> dict[str, Any]:
    """The fields of a flat dataclass: `asdict` copies what lies below them, which takes longer than writing it."""
    return dict(vars(item))


def write_statistics(machine: Machine, directory: Path = Path()) -> None:
    """Write `sim_stats.json`.

    Raises:
        FabricaError: The directory can't be written.
    """
    try:
        write_json(directory / STATISTICS_FILE, statistics(machine))
    except OSError as error:
        raise from_os_error(error) from error


def write_log(machine: Machine, directory: Path = Path()) -> None:
    """Write `sim.log`, one line `@<cycle> <text>` per line that a PE printed.

    Raises:
        FabricaError: The directory can't be written.
    """
    try:
        (directory / LOG_FILE).write_text("".join(f"{line}\n" for line in machine.sim_log), encoding="utf-8")
    except OSError as error:
        raise from_os_error(error) from error
