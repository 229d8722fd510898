"""Check 4: timers that can't be true.

A candidate's own code takes the stamps, so what they say is compared with what doesn't depend on it: a lower bound
computed from the task's data movement and operations, and what the simulator itself saw (`fabrica_bench.wse.evidence`):

* the counter was really read when the stamps say, with these values, and neither stopped nor set in between;
* no PE worked between the arrival of the inputs and the launch, or before its start stamp;
* every PE had returned right after the last end stamp, and nothing was computed or sent after it;
* not one word that the host copied was changed by a PE that was at work after the last end stamp.

A toolchain that can't tell (the vendor's) leaves the lower bound and the rules on the syntax tree, see `frozen`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fabrica_bench.integrity.findings import Finding, Predicate
from fabrica_bench.wse.evidence import RunEvidence

NAME: Final = "timers"

STAMP_WORDS: Final = 6
"""16-bit words per PE: three of the start stamp, three of the end stamp, least significant first."""

LAUNCH_SLACK: Final = 256
"""Cycles by which a launch may be longer than the program's window where nothing else is known than the launch:
delivering it to every PE, storing the stamps and collecting the returns."""

LAUNCH_SLACK_PER_HOP: Final = 4
"""Added for each column and row of the program: a launch and its return cross the whole rectangle."""

START_SLACK: Final = 16
"""Cycles from a launch to the start stamp of a PE: 5 for every reference on both targets."""

RETURN_SLACK: Final = 96
"""Cycles from the last end stamp of all to any PE's return: the frozen window stores the stamps, 78 for every
reference."""

TAIL_SLACK: Final = 64
"""Cycles from a PE's return to the end of its task: leaving loops and functions, at most 7 for the references. No word
that the host copies may change in them."""


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
    times: WindowTimes,
    reported: int,
    *,
    lower_bound: int,
    launch: tuple[int, int] | None,
    evidence: RunEvidence | None = None,
    stamps: str = "window_stamps",
) -> list[Finding]:
    """Can these stamps be true?

    Args:
        times: The decoded stamps.
        reported: Cycles that the runner computed.
        lower_bound: Cycles that no correct program can undercut at this size.
        launch: (start, end) of the launch as the simulator saw it, None where the toolchain can't tell.
        evidence: What else the simulator saw, None where the toolchain can't tell.
        stamps: Symbol of the stamps, which the window itself stores after the counter was read.
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
    if evidence is not None:
        found = [*_check_reads(times, evidence), *_check_bracket(times, evidence, stamps)]
    else:
        found = _check_launch(times, launch)
    if cycles < max(lower_bound, 1):
        found.append(_finding(f"{cycles} cycles, below the lower bound of {lower_bound} for any correct program"))
    return found


def _check_launch(times: WindowTimes, launch: tuple[int, int] | None) -> list[Finding]:
    """The window against the launch as a whole."""
    if launch is None:
        return []
    cycles, length = times.cycles, launch[1] - launch[0]
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


def _check_reads(times: WindowTimes, evidence: RunEvidence) -> Iterator[Finding]:
    """Are the stamps what the counter gave, and did it count cycles all the time?"""
    clocks = {name: np.array(values, dtype=np.int64) for name, values in evidence.clocks.items()}
    shape = times.start.shape
    for what, stamps, name in (("start", times.start, "first"), ("end", times.end, "last")):
        given = clocks[f"{name}_value"].reshape(shape)
        if wrong := int(np.count_nonzero(stamps != given)):
            yield _finding(
                f"the {what} stamp of {wrong} of {stamps.size} PEs is not what the counter gave: "
                f"{_first(stamps, stamps != given)} instead of {_first(given, stamps != given)}"
            )
    elapsed = clocks["last_read"] - clocks["first_read"]
    counted = clocks["last_value"] - clocks["first_value"]
    if wrong := int(np.count_nonzero(elapsed != counted)):
        yield _finding(f"the counter of {wrong} of {counted.size} PEs was stopped or set during the window")
    true = int(clocks["last_read"].max() - clocks["first_read"].min())
    if times.cycles != true:
        text = f"{times.cycles} cycles, but the simulator saw {true} between the first and the last stamp"
        began = clocks["first_read"] - clocks["first_value"]
        if apart := int(began.max() - began.min()):
            text += (
                f"; the counters of the PEs began up to {apart} cycles apart, as some PEs were still at work when the "
                "host started them: do such work in the launched function, or at comptime"
            )
        yield _finding(text)


def _check_bracket(times: WindowTimes, evidence: RunEvidence, stamps: str) -> Iterator[Finding]:
    """Does the window hold all the work on this input?"""
    clocks = {name: np.array(values, dtype=np.int64) for name, values in evidence.clocks.items()}
    last = int(clocks["last_read"].max())
    if evidence.work_before:
        yield _finding(f"PEs worked {evidence.work_before} cycles after the inputs had arrived and before the launch")
    elif evidence.moves_before:
        yield _finding("data moved after the inputs had arrived and before the launch")
    late = clocks["first_read"] - evidence.start
    if (late > START_SLACK).any():
        yield _finding(f"a PE took its start stamp {int(late.max())} cycles after the launch, more than {START_SLACK}")
    # Not after its own: its microthreads may take turns with a PE that returns while it serves others.
    held = int(clocks["released"].max()) - last
    if held > RETURN_SLACK:
        yield _finding(f"a PE returned {held} cycles after the last end stamp, more than {RETURN_SLACK}")
    tail = clocks["ended"] - clocks["released"]
    beyond = (clocks["ended"] - last)[tail > TAIL_SLACK]
    if (beyond > 0).any():
        wrong, most = int(np.count_nonzero(beyond > 0)), int(beyond.max())
        yield _finding(f"{wrong} of {tail.size} PEs worked on after the last end stamp, up to {most} cycles")
    for copy in evidence.readbacks:
        if copy.changed and copy.latest > last and copy.symbol != stamps:
            yield _finding(
                f"{copy.symbol!r} of {copy.changed} of {times.start.size} PEs changed after their end stamps, and they "
                f"worked until {copy.latest - last} cycles after the last end stamp"
            )
    if (clocks["issued"] > last).any():
        late_by = int(clocks["issued"].max()) - last
        yield _finding(f"data still moved {late_by} cycles after the last end stamp")


def _first(values: npt.NDArray[np.int64], where: npt.NDArray[np.bool_]) -> int:
    return int(values[where][0])


def _finding(message: str) -> Finding:
    return Finding(NAME, Predicate.TIMING, message)
