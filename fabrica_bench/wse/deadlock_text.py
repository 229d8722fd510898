"""The text of a deadlock report: causes first, PEs in the same state grouped, long lists cut."""

from __future__ import annotations

from collections.abc import Iterable

from fabrica_bench.csl.pe_groups import pe_list
from fabrica_bench.wse.faults import DeadlockReport, MissingWavelets, PePosition, StuckPe, StuckWavelets

LIMIT = 8
"""Entries shown of each kind."""


def render(report: DeadlockReport) -> str:
    """Text for people who have not read the program."""
    lines = [f"nothing can advance after cycle {report.cycle}", f"the host waits for {report.host_wait}"]
    for circle in report.circles:
        lines += _circle(circle)
    lines += _stuck("PEs that wait:", report.stuck_pes)
    lines += _missing(report.missing)
    lines += _receivers(report.wavelets)
    lines += _wavelets(report.wavelets)
    if report.never_unblocked:
        lines.append(f"never called unblock_cmd_stream: {pe_list(report.never_unblocked)}")
    lines += _stuck("PEs that have nothing to do, though the host waits for them:", report.idle_pes)
    lines += [f"hint: {hint}" for hint in report.hints]
    return "\n".join([lines[0], *(f"  {line}" for line in lines[1:])])


def _circle(circle: tuple[tuple[PePosition, str], ...]) -> list[str]:
    if len(circle) == 1:
        pe, wait = circle[0]
        return ["circular wait:", f"  {pe} {wait} from itself"]
    lines = ["circular wait:"]
    for index, (pe, wait) in enumerate(circle[:LIMIT]):
        following = circle[(index + 1) % len(circle)][0]
        lines.append(f"  {pe} {wait} from {following}")
    if len(circle) > LIMIT:
        lines.append(f"  ... and so on, through {len(circle)} PEs back to {circle[0][0]}")
    return lines


def _stuck(title: str, stuck: Iterable[StuckPe]) -> list[str]:
    groups: dict[tuple[str, ...], list[PePosition]] = {}
    for entry in stuck:
        groups.setdefault(entry.waits, []).append(entry.pe)
    if not groups:
        return []
    lines = [title]
    for waits, pes in list(groups.items())[:LIMIT]:
        lines.append(f"  {pe_list(pes)}:")
        lines += [f"    {line}" for wait in waits for line in wait.split("\n")]
    return _cut(lines, len(groups), "kinds of wait")


def _missing(missing: tuple[MissingWavelets, ...]) -> list[str]:
    lines = ["where the missing wavelets would come from:"] if missing else []
    for entry in missing[:LIMIT]:
        if not entry.senders:
            if entry.from_host is None:
                origin = f"no PE's route leads it to {pe_list(entry.waiting)}"
            else:
                origin = f"the host has sent {entry.from_host} word(s) to {pe_list(entry.waiting)}, and sends no more"
            lines.append(f"  color {entry.color}: {origin}")
            continue
        states: dict[str, list[PePosition]] = {}
        for pe, state in entry.senders:
            states.setdefault(state, []).append(pe)
        for state, pes in list(states.items())[:LIMIT]:
            lines.append(f"  color {entry.color}: {pe_list(pes)} {state}")
    return _cut(lines, len(missing), "colors")


def _receivers(wavelets: tuple[StuckWavelets, ...]) -> list[str]:
    groups: dict[tuple[int, str], list[PePosition]] = {}
    for entry in wavelets:
        if entry.lacks_receiver:
            groups.setdefault((entry.color, entry.reason), []).append(entry.pe)
    return [
        f"color {color} has no receiver on {pe_list(pes)}: {reason}"
        for (color, reason), pes in list(groups.items())[:LIMIT]
    ]


def _wavelets(wavelets: tuple[StuckWavelets, ...]) -> list[str]:
    groups: dict[tuple[int, str, str], list[StuckWavelets]] = {}
    for entry in wavelets:
        groups.setdefault((entry.color, entry.place, entry.reason), []).append(entry)
    lines = ["where wavelets are stuck:"] if groups else []
    for (color, place, reason), entries in list(groups.items())[:LIMIT]:
        count = sum(entry.count for entry in entries)
        where = pe_list(entry.pe for entry in entries)
        noun = "wavelet" if count == 1 else "wavelets"
        lines.append(f"  {count} {noun} of color {color} in {place} of {where}: {reason}")
    return _cut(lines, len(groups), "places")


def _cut(lines: list[str], total: int, noun: str) -> list[str]:
    return [*lines, f"  ... and {total - LIMIT} more {noun}"] if total > LIMIT else lines
