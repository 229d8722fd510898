"""Faster forms of the lowering, each kept only if a run on the visible inputs is valid and faster.

What can be changed in the text of a program is left to `fabrica_agent.rewrite`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fabrica_agent.lowering.options import Options
from fabrica_agent.records import Accepted, Implementation


@dataclass(frozen=True)
class Rewrite:
    """A change to try: its name, why it may help, and the options it leads to (None where it doesn't apply)."""

    name: str
    reason: str
    apply: Callable[[Options], Options | None]


CATALOGUE: tuple[Rewrite, ...] = (
    Rewrite(
        "loops from a trace",
        "how threads share a sum, by shuffles or partial sums, costs much and means nothing on one PE",
        lambda o: replace(o, traced=True) if o.bulk and not o.traced else None,
    ),
    Rewrite(
        "copy before overlapping operations",
        "reading and writing one array at a distance meets the same memory bank in every element",
        lambda o: replace(o, backwards=False) if o.bulk and o.backwards else None,
    ),
    Rewrite(
        "scalar loops",
        "very short bulk operations cost more to set up than a loop",
        lambda o: Options(bulk=False) if o.bulk else None,
    ),
)


SHORT_PROGRAM = 1500
"""Cycles up to which scalar loops are worth a try: above, a program's bulk operations are long enough to pay."""


@dataclass(frozen=True)
class Scored:
    """An implementation with its cycles."""

    implementation: Implementation
    options: Options
    cycles: int


def optimise(
    start: Scored,
    build: Callable[[Options], Implementation | None],
    measure: Callable[[Implementation], int | None],
) -> tuple[Scored, tuple[Accepted, ...]]:
    """Try the catalogue on a valid program.

    Args:
        start: The program to beat.
        build: Makes a variant; None when that isn't possible.
        measure: Cycles of a valid run; None when invalid, or when the budget is spent.

    Returns:
        The fastest valid program, and the steps that led there.
    """
    best = start
    accepted: list[Accepted] = []
    seen = {_text(start.implementation)}
    for rewrite in CATALOGUE:
        options = rewrite.apply(best.options)
        if options is None or (not options.bulk and best.cycles > SHORT_PROGRAM):
            continue
        variant = build(options)
        if variant is None or _text(variant) in seen:
            continue
        seen.add(_text(variant))
        cycles = measure(variant)
        if cycles is not None and cycles < best.cycles:
            accepted.append(Accepted(name=rewrite.name, before=best.cycles, after=cycles))
            best = Scored(variant, options, cycles)
    return best, tuple(accepted)


def _text(implementation: Implementation) -> str:
    return "\0".join(f"{n}\0{t}" for n, t in sorted(implementation.files.items()))
