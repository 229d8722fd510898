"""Check 4: timers that can't be true.

A candidate's own code takes the stamps, so what they say is compared with what doesn't depend on it: a lower bound
computed from the task's data movement and operations, and the simulator's own record of the launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fabrica_bench.integrity.findings import Finding, Predicate

NAME: Final = "timers"

STAMP_WORDS: Final = 6
"""16-bit words per PE: three of the start stamp, three of the end stamp, least significant first."""

LAUNCH_SLACK: Final = 256
"""Cycles by which the simulator's launch may be longer than the program's window: delivering the launch to every PE,
storing the stamps and collecting the returns. On the embedded simulator it is 113 for every reference of the first six
tasks, on both targets, whatever the input."""

LAUNCH_SLACK_PER_HOP: Final = 4
"""Added for each column and row of the program: a launch and its return cross the whole rectangle."""


@dataclass(frozen=True)
class WindowTimes:
    """Start and end of the window of every PE, in cycles of the 48-bit counter; shape [rows, columns]."""

    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]

    @property
    def cycles(self) -> int:
        """From the first start to the last end."""
        return int(self.end.max() - self.start.min())


def decode_stamps(stamps: npt.NDArray[Any], mesh: tuple[int, int]) -> WindowTimes | str:
    """Read the stamps of all PEs; a sentence when the array has the wrong form.

    Args:
        stamps: uint16 [rows, columns, 6].
        mesh: PE (columns, rows).
    """
    wanted = (mesh[1], mesh[0], STAMP_WORDS)
    if stamps.shape != wanted or stamps.dtype != np.uint16:
        return f"stamps are {stamps.dtype} {list(stamps.shape)}, not uint16 {list(wanted)}"
    words = stamps.astype(np.int64)
    weights = np.array([1, 1 << 16, 1 << 32], dtype=np.int64)
    return WindowTimes(words[..., :3] @ weights, words[..., 3:] @ weights)


def check_timers(
    times: WindowTimes, reported: int, *, lower_bound: int, launch: tuple[int, int] | None
) -> list[Finding]:
    """Can these stamps be true?

    Args:
        times: The decoded stamps.
        reported: Cycles that the runner computed.
        lower_bound: Cycles that no correct program can undercut at this size.
        launch: (start, end) of the launch as the simulator saw it, None where the toolchain can't tell.
    """
    cycles = times.cycles
    if reported != cycles:
        return [_finding(f"the runner reports {reported} cycles, its stamps say {cycles}")]
    unset = int(np.count_nonzero((times.start == 0) | (times.end == 0)))
    if unset:
        return [_finding(f"{unset} of {times.start.size} PEs have a start or end stamp of zero: never taken")]
    reversed_pes = int(np.count_nonzero(times.end < times.start))
    if reversed_pes:
        return [_finding(f"{reversed_pes} of {times.start.size} PEs end before they start")]
    if cycles < max(lower_bound, 1):
        return [_finding(f"{cycles} cycles, below the lower bound of {lower_bound} for any correct program")]
    if launch is None:
        return []
    length = launch[1] - launch[0]
    slack = LAUNCH_SLACK + LAUNCH_SLACK_PER_HOP * sum(times.start.shape)
    if cycles > length:
        return [_finding(f"{cycles} cycles, but the simulator saw a launch of only {length}")]
    if length - cycles > slack:
        return [
            _finding(
                f"{cycles} cycles, but the simulator saw a launch of {length}: "
                f"{length - cycles} of them, more than {slack}, lie outside the window"
            )
        ]
    return []


def _finding(message: str) -> Finding:
    return Finding(NAME, Predicate.TIMING, message)
