"""Trying the catalogue on a program: what promises most first, each step kept only if it is valid and faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fabrica_agent.records import Accepted
from fabrica_agent.rewrite.catalogue import CATALOGUE, Rewrite, Source
from fabrica_agent.rewrite.measured import promise


@dataclass(frozen=True)
class Found:
    """The fastest text, its cycles, and the steps that led there."""

    text: str
    cycles: int
    steps: tuple[Accepted, ...]


def search(
    text: str,
    cycles: int,
    sizes: Mapping[str, int],
    measure: Callable[[str, str], int | None],
    catalogue: Sequence[Rewrite] = CATALOGUE,
    profile: Callable[[str], Mapping[int, float]] | None = None,
) -> Found:
    """Improve a valid program.

    Proposals are tried in the order of what the static estimate expects them to save, times the share of the measured
    cycles that the lines take which they touch.

    Args:
        text: The compute file.
        cycles: What it takes.
        sizes: Compile-time parameters that the file gets.
        measure: Cycles of a text if it is valid, None if it isn't or if nothing more may be measured; the second
            argument says which rewrite made it.
        catalogue: What to try.
        profile: Shares of a text's cycles by line; empty if nothing may be measured any more. Asked only where there is
            more than one proposal to order.

    Returns:
        The fastest program found; the given one if nothing helped.
    """
    steps: list[Accepted] = []
    seen = {text}
    while True:
        proposals = [
            (rewrite, proposal, -position)
            for position, rewrite in enumerate(catalogue)
            for proposal in rewrite.propose(Source(text, sizes))
            if proposal.text not in seen
        ]
        several = len({proposal.text for _, proposal, _ in proposals}) > 1
        hot = profile(text) if profile is not None and several else {}
        ranked = sorted(
            ((promise(r, p, text, hot), p.gain, place, r.name, p.text) for r, p, place in proposals),
            reverse=True,
        )
        for *_, name, changed in ranked:
            if changed in seen:
                continue
            seen.add(changed)
            found = measure(changed, name)
            if found is not None and found < cycles:
                steps.append(Accepted(name=name, before=cycles, after=found))
                text, cycles = changed, found
                break
        else:
            return Found(text, cycles, tuple(steps))
