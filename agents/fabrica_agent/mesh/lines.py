"""What lines of PEs can do: pass data along from neighbour to neighbour, cast it to all, collect it by a tree.

Each of them exists where the layout's channels fit together on a whole line, under names that are the same on all its
PEs. Besides, one PE may be able to cast to all others of the mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from fabrica_agent.mesh.channels import Mesh, Pe

X, Y = 0, 1


@dataclass(frozen=True)
class Port:
    """A color by its name in the compute file, and the parameter, if any, that is true where the port is used."""

    color: str
    used_if: str | None


@dataclass(frozen=True)
class Chain:
    """Every PE of a line sends to the next one: `sign` 1 towards higher, -1 towards lower coordinates."""

    axis: int
    sign: int
    send: Port
    receive: Port
    lines: frozenset[int]


@dataclass(frozen=True)
class Ring:
    """As a chain, but the last PE of a line sends to the first one."""

    axis: int
    sign: int
    send: Port
    receive: Port
    lines: frozenset[int]


@dataclass(frozen=True)
class Cast:
    """The PE at place `root` of a line sends to all others of the line at once; `returns`: and to itself."""

    axis: int
    root: int
    send: Port
    receive: Port
    lines: frozenset[int]
    returns: bool


@dataclass(frozen=True)
class Tree:
    """In round k a PE whose place is an odd multiple of 2^k sends to the one 2^k places before it."""

    axis: int
    send: Port
    receive: tuple[Port, ...]
    lines: frozenset[int]


@dataclass(frozen=True)
class Library:
    """`<collectives_2d/pe>` along an axis; `param`: the parameter that configures it."""

    axis: int
    param: str


@dataclass(frozen=True)
class MeshCast:
    """The PE at `root` sends to all others of the mesh at once."""

    root: Pe
    send: Port
    receive: Port


@dataclass(frozen=True)
class Flood:
    """What a PE sends reaches all its neighbours at once, so every PE has to take in what all of its neighbours send.

    `receive`: by where the neighbour is, in the order of `SIDES`; None where no PE has one.
    """

    axis: int
    send: Port
    receive: tuple[Port | None, ...]


SIDES: Final = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""West, east, north, south."""

LineWay = Chain | Ring | Cast | Tree | Library | Flood
Way = LineWay | MeshCast


def extent(mesh: Mesh, axis: int) -> int:
    """PEs of a line along an axis."""
    return mesh.width if axis == X else mesh.height


def at(axis: int, line: int, place: int) -> Pe:
    """The PE at a place of a line."""
    return (place, line) if axis == X else (line, place)


def ways(mesh: Mesh) -> tuple[Way, ...]:
    """Everything that lines of the mesh can do."""
    found: list[Way] = []
    for axis in (X, Y):
        if extent(mesh, axis) < 2:
            continue
        param = mesh.axes[axis]
        if param is not None:
            found.append(Library(axis, param))
        found += [chain for sign in (1, -1) for chain in _chains(mesh, axis, sign)]
        found += [ring for sign in (1, -1) for ring in _rings(mesh, axis, sign)]
        found += [cast for root in (0, extent(mesh, axis) - 1) for cast in _casts(mesh, axis, root)]
        found += _trees(mesh, axis)
    if mesh.width > 1 and mesh.height > 1:
        found += islice(_mesh_casts(mesh), 1)
    found += _floods(mesh)
    return tuple(found)


def _floods(mesh: Mesh) -> list[Flood]:
    everywhere = frozenset(mesh.pes)
    around = {pe: {s: (pe[0] + s[0], pe[1] + s[1]) for s in SIDES} for pe in everywhere}
    near = {pe: {s: n for s, n in sides.items() if n in everywhere} for pe, sides in around.items()}
    for send in sorted(frozenset.intersection(*(frozenset(mesh.colors.get(pe, {})) for pe in everywhere))):
        own = {pe: mesh.colors[pe][send] for pe in everywhere}
        channels = {pe: mesh.channels.get((pe, own[pe])) for pe in everywhere}
        if any(c is None or c.receivers != frozenset(near[pe].values()) for pe, c in channels.items()):
            continue
        ports: list[Port | None] = []
        for side in SIDES:
            users = {pe for pe in everywhere if side in near[pe]}
            heard = [mesh.names(pe, own[near[pe][side]]) for pe in users]
            names = frozenset.intersection(*heard) if heard else frozenset()
            if heard and not names:
                break
            ports.append(Port(min(names), _flag(mesh, users)) if names else None)
        else:
            axes = [axis for axis in (X, Y) if extent(mesh, axis) > 1]
            return [Flood(axis, Port(send, None), tuple(ports)) for axis in axes]
    return []


def _mesh_casts(mesh: Mesh) -> Iterator[MeshCast]:
    everywhere = frozenset(mesh.pes)
    for (root, color), channel in sorted(mesh.channels.items()):
        others = everywhere - {root}
        names = frozenset.intersection(*(mesh.names(pe, color) for pe in others))
        if channel.receivers == others and names and mesh.names(root, color):
            send, receive = min(mesh.names(root, color)), min(names)
            yield MeshCast(root, Port(send, _flag(mesh, {root})), Port(receive, _flag(mesh, set(others))))


def _chains(mesh: Mesh, axis: int, sign: int) -> Iterator[Chain]:
    count = extent(mesh, axis)

    def hops(line: int) -> list[tuple[Pe, frozenset[Pe]]]:
        places = range(count - 1) if sign > 0 else range(1, count)
        return [(at(axis, line, p), frozenset({at(axis, line, p + sign)})) for p in places]

    for send, receive, lines in islice(_named(mesh, axis, hops), 1):
        yield Chain(axis, sign, send, receive, lines)


def _rings(mesh: Mesh, axis: int, sign: int) -> Iterator[Ring]:
    count = extent(mesh, axis)

    def hops(line: int) -> list[tuple[Pe, frozenset[Pe]]]:
        return [(at(axis, line, p), frozenset({at(axis, line, (p + sign) % count)})) for p in range(count)]

    for send, receive, lines in islice(_named(mesh, axis, hops), 1):
        yield Ring(axis, sign, send, receive, lines)


def _casts(mesh: Mesh, axis: int, root: int) -> Iterator[Cast]:
    for returns in (False, True):
        places = [p for p in range(extent(mesh, axis)) if returns or p != root]

        def hops(line: int, places: list[int] = places) -> list[tuple[Pe, frozenset[Pe]]]:
            return [(at(axis, line, root), frozenset(at(axis, line, p) for p in places))]

        for send, receive, lines in islice(_named(mesh, axis, hops), 1):
            yield Cast(axis, root, send, receive, lines, returns)


def _trees(mesh: Mesh, axis: int) -> Iterator[Tree]:
    count = extent(mesh, axis)
    if count < 3:
        return  # a chain
    rounds: list[dict[str, tuple[Port, Port, frozenset[int]]]] = []
    distance = 1
    while distance < count:

        def hops(line: int, step: int = distance) -> list[tuple[Pe, frozenset[Pe]]]:
            senders = range(step, count, 2 * step)
            return [(at(axis, line, p), frozenset({at(axis, line, p - step)})) for p in senders]

        by_sender: dict[str, tuple[Port, Port, frozenset[int]]] = {}
        for found in _named(mesh, axis, hops):
            by_sender.setdefault(found[0].color, found)
        rounds.append(by_sender)
        distance *= 2
    for send in sorted(set.intersection(*(set(r) for r in rounds))):
        lines = frozenset.intersection(*(r[send][2] for r in rounds))
        if lines:
            receive = tuple(Port(r[send][1].color, None) for r in rounds)
            yield Tree(axis, Port(send, None), receive, lines)
            return


def _named(
    mesh: Mesh, axis: int, hops: Callable[[int], list[tuple[Pe, frozenset[Pe]]]]
) -> Iterator[tuple[Port, Port, frozenset[int]]]:
    """Names under which all hops of a line exist, and the lines on which they do."""
    lines = range(extent(mesh, Y if axis == X else X))
    names: dict[tuple[str, str], set[int]] = {}
    for line in lines:
        for pair in _names_of_line(mesh, hops(line)):
            names.setdefault(pair, set()).add(line)
    for (send, receive), where in sorted(names.items(), key=lambda item: (-len(item[1]), item[0])):
        wanted = [hop for line in where for hop in hops(line)]
        senders = {pe for pe, _ in wanted}
        receivers = {pe for _, targets in wanted for pe in targets}
        yield Port(send, _flag(mesh, senders)), Port(receive, _flag(mesh, receivers)), frozenset(where)


def _names_of_line(mesh: Mesh, hops: Iterable[tuple[Pe, frozenset[Pe]]]) -> set[tuple[str, str]]:
    common: set[tuple[str, str]] | None = None
    for source, targets in hops:
        here = {
            (send, receive)
            for (pe, color), channel in mesh.channels.items()
            if pe == source and channel.receivers == targets
            for send in mesh.names(pe, color)
            for receive in frozenset.intersection(*(mesh.names(t, color) for t in targets))
        }
        common = here if common is None else common & here
    return common or set()


def _flag(mesh: Mesh, users: set[Pe]) -> str | None:
    """A parameter that is true on exactly these PEs."""
    candidates = sorted({n for flags in mesh.flags.values() for n in flags})
    for name in candidates:
        if {pe for pe, flags in mesh.flags.items() if flags.get(name)} == users:
            return name
    return None
