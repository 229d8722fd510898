"""What runs on the machine, as /proc tells it; nothing, on a system without it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


def children_of(parent: int) -> set[int]:
    """Processes with this parent, ended ones included."""
    facts = {pid: process_facts(pid) for pid in processes()}
    return {pid for pid, fact in facts.items() if fact is not None and fact.parent == parent}


def processes() -> list[int]:
    """All of the machine; none without /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def below_this() -> dict[int, ProcessFacts]:
    """Living processes below this one."""
    facts = {pid: fact for pid in processes() if (fact := process_facts(pid)) is not None}
    found: set[int] = set()
    newer = {os.getpid()}
    while newer:
        newer = {pid for pid, fact in facts.items() if fact.parent in newer} - found
        found |= newer
    return {pid: facts[pid] for pid in found if not facts[pid].ended}


def descendants(root: int, token: str) -> dict[int, ProcessFacts]:
    """Living processes that descend from `root`, are in its session, or carry the marker; empty without /proc.

    One that is dying already carries no marker; see `ProcessFacts.lives`.
    """
    living: dict[int, ProcessFacts] = {}
    found: set[int] = set()
    marker = token.encode()
    own = os.getpid()
    for pid in processes():
        facts = None if pid == own else process_facts(pid)
        if facts is None or facts.ended:
            continue
        living[pid] = facts
        if facts.session == root or _has_marker(pid, marker):
            found.add(pid)
    while True:
        above = {root, *found}
        more = {pid for pid, facts in living.items() if facts.parent in above} - found
        if not more:
            return {pid: living[pid] for pid in found}
        found |= more


@dataclass(frozen=True)
class ProcessFacts:
    """What the system says of a process.

    Attributes:
        state: A letter, as `ps` prints it.
        parent, session: Process ids.
        started: When, in ticks of the machine's clock.
    """

    state: str
    parent: int
    session: int
    started: int

    @property
    def ended(self) -> bool:
        return self.state in "ZX"

    def lives(self, pid: int) -> bool:
        """Whether this very process, not a later one of the same number, still lives.

        A killed process gives up its environment first and then its memory, which takes the longer the more it has;
        until that is done it runs, but can no longer be known by its marker. So one that was found is followed by
        its number.
        """
        now = process_facts(pid)
        return now is not None and now.started == self.started and not now.ended


def process_facts(pid: int) -> ProcessFacts | None:
    """What the system says of a process; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name is in parentheses and may contain anything, so fields are counted from the last one.
    fields = stat.rpartition(")")[2].split()
    return ProcessFacts(state=fields[0], parent=int(fields[1]), session=int(fields[3]), started=int(fields[19]))


def _has_marker(pid: int, marker: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            return marker in stream.read()
    except OSError:
        return False


__all__ = ["ProcessFacts", "below_this", "children_of", "descendants", "process_facts"]
