"""The one ranking: every page, table and file takes its order, its ranks and its exclusions from `rank`.

Entries compete within a track: the same set of tasks, workflow, target, size and toolchain. Rates of different tracks
are never pooled. An entry is ranked only when its whole set was attempted, it was verified by re-execution, the
controls of its track hold, and nobody found it to be hacked; otherwise it is shown without a rank, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fabrica_bench.report.data import RunReport
from fabrica_bench.report.figures import Figures, figures, is_scored
from fabrica_bench.runs.usage import Usage, total_usage
from fabrica_bench.scoring.statistics import compare_passes, compare_speed
from fabrica_bench.tasks import load_catalogue
from fabrica_bench.tasks.spec import SET_NAMES

MUST_PASS: Final = "reference"
"""The control that must be valid everywhere; every other one must be valid nowhere."""

REQUIRED_CONTROLS: Final = ("reference", "null", "copycat", "cheat")
"""One that must be valid everywhere and three that must be valid nowhere: without them a track ranks nobody."""


@dataclass(frozen=True)
class Entry:
    """A run that wants to be shown.

    Attributes:
        name: Unique among the entries: the agent, and a number where it comes twice.
        verified: Whether every candidate was executed again with the same verdict.
        excluded: Why it was taken out by hand, e.g. the hack that was found; empty when it wasn't.
    """

    name: str
    report: RunReport
    verified: bool = False
    excluded: str = ""


@dataclass(frozen=True)
class Track:
    """Entries that may be compared."""

    tasks: str
    workflow: str
    arch: str
    size: str
    toolchain: str

    def __str__(self) -> str:
        """`core · W1 · wse3 · small · embedded`."""
        return " · ".join((self.tasks, self.workflow, self.arch, self.size, self.toolchain))


@dataclass(frozen=True)
class Ranked:
    """An entry in its place.

    Attributes:
        rank: From 1 within its track; None when it isn't ranked.
        reasons: Why it has no rank; empty when it has one. Controls have none either.
        against_better: Comparison with the entry ranked before it, in words; empty for the first.
    """

    entry: Entry
    track: Track
    rank: int | None
    reasons: tuple[str, ...]
    figures: Figures
    usage: Usage
    control: bool
    against_better: tuple[str, ...] = ()


def rank(entries: Sequence[Entry]) -> list[Ranked]:
    """Tracks in alphabetical order; within a track the ranked, then the unranked, then the controls.

    Order: fast_0, then fast_1, then the geometric mean speed-up of the valid attempts, then the name.
    """
    tracks: dict[Track, list[Entry]] = {}
    for entry in entries:
        tracks.setdefault(track_of(entry.report), []).append(entry)
    ranked: list[Ranked] = []
    for track in sorted(tracks, key=str):
        ranked += _rank_track(track, tracks[track])
    return ranked


def track_of(report: RunReport) -> Track:
    """The track of a run: the frozen set that its tasks are, or `N tasks` with their digest when they are none."""
    config = report.manifest.config
    return Track(
        set_of(config["tasks"]),
        str(config["workflow"]),
        str(config["arch"]),
        str(config["size"]),
        report.summary.toolchain.get("toolchain", "unknown"),
    )


def set_of(tasks: Sequence[str]) -> str:
    """Name of the frozen set that these tasks are exactly; `other (N tasks)` otherwise."""
    names = set(tasks)
    for name in SET_NAMES:
        if names == {e.name for e in load_catalogue() if name == "full" or name in e.sets}:
            return name
    return f"other ({len(names)} tasks)"


def control_holds(report: RunReport) -> bool:
    """Whether a control did what it must on every task: the reference is valid, any other is not."""
    summary = report.summary
    wanted = summary.total if summary.agent == MUST_PASS else 0
    return not summary.partial and summary.valid == wanted and all(is_scored(row) for row in summary.rows)


def control_state(entry: Entry) -> str:
    """In words, for a control."""
    if entry.excluded:
        return f"excluded: {entry.excluded}"
    return "holds" if control_holds(entry.report) else "DOES NOT HOLD"


def _rank_track(track: Track, entries: Sequence[Entry]) -> list[Ranked]:
    # One that was excluded neither vouches for the track nor speaks against it.
    controls = [entry for entry in entries if entry.report.summary.control and not entry.excluded]
    shared = _control_reasons(controls)
    placed: list[Ranked] = []
    for entry in entries:
        summary = entry.report.summary
        numbers = figures(summary)
        usage = total_usage(attempt.usage for attempt in entry.report.attempts)
        reasons = ("control",) if summary.control else (*_own_reasons(entry, track), *shared)
        placed.append(Ranked(entry, track, None, reasons, numbers, usage, summary.control))
    placed.sort(key=_order)
    return _number(placed)


def _own_reasons(entry: Entry, track: Track) -> tuple[str, ...]:
    summary = entry.report.summary
    failed = sum(not is_scored(row) for row in summary.rows)
    reasons = [
        f"excluded: {entry.excluded}" if entry.excluded else "",
        f"partial: {summary.missing} of {summary.total} attempts are owed" if summary.partial else "",
        f"{failed} attempts failed through no fault of the agent and are owed" if failed else "",
        "" if entry.verified else "not verified by re-execution",
        "its tasks are no whole set of the benchmark" if track.tasks.startswith("other") else "",
    ]
    return tuple(reason for reason in reasons if reason)


def _control_reasons(controls: Sequence[Entry]) -> tuple[str, ...]:
    good = {entry.report.summary.agent for entry in controls if entry.verified and control_holds(entry.report)}
    failing = sorted({e.report.summary.agent for e in controls if not control_holds(e.report)})
    missing = [name for name in REQUIRED_CONTROLS if name not in good and name not in failing]
    reasons = [
        f"the control {' and '.join(failing)} does not hold in this track" if failing else "",
        f"no verified control in this track: {', '.join(missing)}" if missing else "",
    ]
    return tuple(reason for reason in reasons if reason)


def _order(item: Ranked) -> tuple[object, ...]:
    numbers = item.figures
    return (
        2 if item.control else 1 if item.reasons else 0,
        -(numbers.fast_0 or 0.0),
        -(numbers.fast_1 or 0.0),
        -(numbers.geometric_mean or 0.0),
        item.entry.name,
    )


def _number(placed: Sequence[Ranked]) -> list[Ranked]:
    numbered: list[Ranked] = []
    before: Ranked | None = None
    for index, item in enumerate(placed, start=1):
        if item.reasons:
            numbered.append(item)
            continue
        words = () if before is None else compare_entries(before.entry, item.entry)
        tie = before is not None and _order(before)[:-1] == _order(item)[:-1]
        place = before.rank if tie and before is not None else index
        before = Ranked(item.entry, item.track, place, (), item.figures, item.usage, item.control, against_better=words)
        numbered.append(before)
    return numbered


def compare_entries(first: Entry, second: Entry) -> tuple[str, ...]:
    """What the passes and the speeds of two entries on shared tasks say, in words."""
    words: list[str] = []
    passes = [_first_passes(entry) for entry in (first, second)]
    if passes[0].keys() & passes[1].keys():
        words.append(compare_passes(*passes).words(first.name, second.name))
    cycles = [_cycles(entry) for entry in (first, second)]
    if any(cycles[1].get(name) for name, values in cycles[0].items() if values):
        words.append(compare_speed(*cycles).words(first.name, second.name))
    return tuple(words)


def _first_passes(entry: Entry) -> Mapping[str, bool]:
    """For each task whether its first scored attempt passed: tasks are independent, attempts at one are not."""
    found: dict[str, bool] = {}
    for row in entry.report.summary.rows:
        if is_scored(row):
            found.setdefault(row.task, row.valid)
    return found


def _cycles(entry: Entry) -> Mapping[str, Sequence[float]]:
    found: dict[str, list[float]] = {}
    for row in entry.report.summary.rows:
        if row.cycles is not None:
            found.setdefault(row.task, []).append(float(row.cycles))
    return found
