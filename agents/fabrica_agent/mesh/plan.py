"""How each PE gets the parts of the arrays that it lacks.

Along each axis an array is held in one of three ways: every PE has its own part, the PEs at one place have all parts,
or all PEs do. A step along an axis leads from one way to another, by what the lines of the mesh can do; the plan is a
shortest sequence of steps after which the PEs that own results have whatever the channels can bring them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique

from fabrica_agent.mesh.channels import Mesh
from fabrica_agent.mesh.lines import Cast, Chain, Flood, Library, LineWay, MeshCast, Ring, Tree, Way, X, Y, extent
from fabrica_agent.mesh.shards import Shards

EVERYWHERE = -1
"""All PEs of a line hold what is known of it."""
OWN = -2
"""Every PE of a line holds its own part only."""


@unique
class Kind(StrEnum):
    """What happens along the lines of an axis."""

    COLLECT = "collect"
    """Own parts to the PE at place `to`, or, without `to`, to all."""
    SPREAD = "spread"
    """What the PE at place `start` knows to those that follow in the way's direction, or to all; by a `MeshCast`, what
    its root knows to all PEs."""


@dataclass(frozen=True)
class Step:
    """One movement of an array along an axis.

    Attributes:
        kind: What happens.
        way: By which means.
        start: For SPREAD, the place of the PE that knows.
        to: For COLLECT, the place of the PE that gets all; None for all.
        across: Along the other axis: OWN if a PE sends its own part, else all parts of its line (or the only one).
    """

    kind: Kind
    way: Way
    start: int
    to: int | None
    across: int


@dataclass(frozen=True)
class Gather:
    """The movements of one array.

    Attributes:
        shards: Its parts.
        steps: What happens, in order.
        held: Along columns and rows, who holds all parts in the end.
        complete: Whether the PEs that need the array get all of it. A program may do with less: what it reads is
            seldom known before it runs.
    """

    shards: Shards
    steps: tuple[Step, ...]
    held: tuple[int, int]
    complete: bool


def plan_gather(shards: Shards, mesh: Mesh, ways: Sequence[Way], wanted: tuple[int, int]) -> Gather:
    """The best plan for one array.

    Args:
        shards: Its parts.
        mesh: The evaluated layout.
        ways: What lines can do.
        wanted: Along columns and rows, the place of the PEs that need the array, or EVERYWHERE.
    """
    lines = [w for w in ways if not isinstance(w, MeshCast)]
    by_lines = _by_lines(shards, mesh, [w for w in lines if not isinstance(w, Flood)], wanted)
    if by_lines.complete:
        return by_lines
    for way in ways:
        if isinstance(way, MeshCast):
            to_root = plan_gather(shards, mesh, [w for w in ways if w is not way], way.root)
            if to_root.complete:
                step = Step(Kind.SPREAD, way, 0, None, EVERYWHERE)
                return Gather(shards, (*to_root.steps, step), (EVERYWHERE, EVERYWHERE), True)
    # The last resort, in which PEs work for all that comes by.
    flooded = _by_lines(shards, mesh, lines, wanted)
    return flooded if flooded.complete else by_lines


def _by_lines(shards: Shards, mesh: Mesh, ways: Sequence[LineWay], wanted: tuple[int, int]) -> Gather:
    start = tuple(_initially(shards, mesh, axis) for axis in (X, Y))
    best: tuple[tuple[int, int], Gather] | None = None
    for order in ((X, Y), (Y, X)):
        held = list(start)
        steps: list[Step] = []
        for axis in order:
            across = _senders(held[1 - axis], wanted[1 - axis])
            held[axis], more = _along(axis, held[axis], across, mesh, ways, wanted[axis])
            steps += more
        unmet = sum(not _meets(h, w) for h, w in zip(held, wanted, strict=True))
        rank = (unmet, len(steps))
        if best is None or rank < best[0]:
            best = rank, Gather(shards, tuple(steps), (held[0], held[1]), unmet == 0)
    assert best is not None
    return best[1]


def _initially(shards: Shards, mesh: Mesh, axis: int) -> int:
    if extent(mesh, axis) == 1:
        return EVERYWHERE
    return shards.at[axis] if shards.steps[axis] is None else OWN


def _meets(held: int, wanted: int) -> bool:
    return held in (EVERYWHERE, wanted)


def _senders(held: int, wanted: int) -> int:
    """Which lines take part in a movement along the other axis, and whether with all parts of their PEs or the own one.

    Where all PEs own results, all lines do: those that could not get all parts pass on the ones that they have. Where
    one line needs what another one has, the latter moves it first.
    """
    if held == OWN:
        return OWN
    return held if held >= 0 <= wanted else wanted


def _along(
    axis: int, held: int, across: int, mesh: Mesh, ways: Sequence[LineWay], wanted: int
) -> tuple[int, list[Step]]:
    """How one axis can be held afterwards, and the steps there."""
    if _meets(held, wanted):
        return held, []
    lines = frozenset([across] if across >= 0 else range(extent(mesh, 1 - axis)))
    usable = [w for w in ways if w.axis == axis and (isinstance(w, Library | Flood) or lines <= w.lines)]
    last = extent(mesh, axis) - 1
    options: list[tuple[int, list[Step]]] = []
    if held == OWN:
        options += _collected(usable, last, across)
    else:
        options += _spread(usable, held, last, across)
    good = [o for o in options if _meets(o[0], wanted)]
    if good:
        return min(good, key=lambda o: len(o[1]))
    return min(options, key=lambda o: (o[0] != EVERYWHERE, len(o[1])), default=(held, []))


def _collected(usable: Iterable[LineWay], last: int, across: int) -> list[tuple[int, list[Step]]]:
    options: list[tuple[int, list[Step]]] = []
    ends = {c.sign: c for c in usable if isinstance(c, Chain)}
    for way in usable:
        match way:
            case Chain(sign=sign):
                to = last if sign > 0 else 0
                options.append((to, [Step(Kind.COLLECT, way, 0, to, across)]))
            case Tree():
                options.append((0, [Step(Kind.COLLECT, way, 0, 0, across)]))
            case Library() | Flood() | Ring():
                options.append((EVERYWHERE, [Step(Kind.COLLECT, way, 0, None, across)]))
            case Cast():
                continue
    if len(ends) == 2:
        options.append((EVERYWHERE, [Step(Kind.COLLECT, ends[s], 0, None, across) for s in (1, -1)]))
    for place, steps in list(options):
        if place >= 0:
            options += [(p, [*steps, *more]) for p, more in _spread(usable, place, last, across) if p == EVERYWHERE]
    return options


def _spread(usable: Iterable[LineWay], start: int, last: int, across: int) -> list[tuple[int, list[Step]]]:
    options: list[tuple[int, list[Step]]] = []
    ends = {c.sign: c for c in usable if isinstance(c, Chain)}
    for way in usable:
        match way:
            case Library():
                options.append((EVERYWHERE, [Step(Kind.SPREAD, way, start, None, across)]))
            case Cast(root=root) if root == start:
                options.append((EVERYWHERE, [Step(Kind.SPREAD, way, start, None, across)]))
            case Chain(sign=sign):
                if start == (0 if sign > 0 else last):
                    options.append((EVERYWHERE, [Step(Kind.SPREAD, way, start, None, across)]))
                else:
                    options.append((last if sign > 0 else 0, [Step(Kind.SPREAD, way, start, None, across)]))
    if len(ends) == 2 and 0 < start < last:
        options.append((EVERYWHERE, [Step(Kind.SPREAD, ends[s], start, None, across) for s in (1, -1)]))
    return options


__all__ = ["EVERYWHERE", "OWN", "Gather", "Kind", "Step", "plan_gather"]
