"""Where wavelets of a color come from: follows routes upstream, as they stand now, for reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from fabrica_bench.csl.ir import EAST, NORTH, RAMP, SOUTH, WEST
from fabrica_bench.wse.faults import Fault, SourceLocation

if TYPE_CHECKING:
    from fabrica_bench.wse.pe import ProcessingElement
    from fabrica_bench.wse.router import Router

_OPPOSITE = {NORTH: SOUTH, SOUTH: NORTH, EAST: WEST, WEST: EAST}
_MAX_ROUTERS = 4096  # a report need not follow longer paths


class Sender(NamedTuple):
    """A PE whose route lets its own words onto a path. `loc`: place of the last operation that sent this color, 0 if
    none did yet."""

    pe: ProcessingElement
    loc: int


def senders(router: Router, port: int, color: int) -> list[Sender]:
    """PEs whose words of `color` can arrive at `router` from direction `port` (RAMP: from its own compute element), the
    nearest first. All switch positions count, because a switch may have moved since."""
    found: list[Sender] = []
    seen: set[tuple[int, int, int]] = set()
    todo = [(router, port)]
    while todo and len(seen) < _MAX_ROUTERS:
        here, way = todo.pop(0)
        if (here.x, here.y, way) in seen:
            continue
        seen.add((here.x, here.y, way))
        if way == RAMP:
            found.append(Sender(here.pe, _sent_at(here.pe, color)))
            continue
        neighbor = here.neighbors.get(way)
        if neighbor is None:
            continue
        state = neighbor.colors.get(color)
        if state is None:
            continue
        for position in range(4):
            if state.valid[position] and state.tx[position] & _OPPOSITE[way]:
                mask = state.rx[position]
                todo += [(neighbor, bit) for bit in (RAMP, NORTH, SOUTH, EAST, WEST) if mask & bit]
    return found


def feeding(router: Router, color: int) -> list[Sender]:
    """PEs whose words of `color` can arrive at the compute element of `router`."""
    state = router.colors.get(color)
    if state is None:
        return []
    found: dict[tuple[int, int], Sender] = {}
    for position in range(4):
        if state.valid[position] and state.tx[position] & RAMP:
            for bit in (RAMP, NORTH, SOUTH, EAST, WEST):
                if state.rx[position] & bit:
                    for sender in senders(router, bit, color):
                        found.setdefault((sender.pe.x, sender.pe.y), sender)
    return list(found.values())


def _sent_at(pe: ProcessingElement, color: int) -> int:
    for channel in pe.outputs.values():
        if channel.sent_color == color:
            return channel.loc
    return 0


def blame_meeting(router: Router, color: int, directions: list[int]) -> Fault:
    """Fault of wavelets that arrive in one cycle; its place is the operation that sent one of them."""
    from fabrica_bench.wse.router import DIRECTION_NAMES

    pe = router.pe
    found = [next((s for s in senders(router, way, color) if s.loc), None) for way in directions]
    names = " and ".join(DIRECTION_NAMES[way] for way in directions)
    known = [sender for sender in found if sender is not None]
    message = f"wavelets of color {color} arrive from {names} in the same cycle"
    others = "; also sent by ".join(
        f"{sender.pe.position} at {sender.pe.location(sender.loc)}" for sender in known[1:] if sender.loc
    )
    values = {"color": color}
    fault = blame_sender(known, pe, message, values)
    if not others:
        return fault
    text = f"{fault.message}; also sent by {others}"
    return Fault(fault.pe, fault.location, "", text, values, fault.cycle, fault.source)


def blame_sender(found: list[Sender], pe: ProcessingElement, message: str, values: Mapping[str, object]) -> Fault:
    """Fault at `pe` caused by a wavelet; its place is the operation that sent it, if one of `found` is known to."""
    sender = next((sender for sender in found if sender.loc), None)
    place, source = SourceLocation(), ""
    if sender is not None:
        place = sender.pe.location(sender.loc)
        source = sender.pe.source_line(place)
        message += f"; sent by {sender.pe.position}"
    return Fault(pe.position, place, "", message, values, pe.fabric.now, source)
