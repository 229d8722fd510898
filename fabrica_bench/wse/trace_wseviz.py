"""Export of a recorded run as a text log that the public viewer wse-viz opens.

The viewer reads logs of the vendor's simulator; this writes the kinds of lines that it understands, one event per line:

    @c dimX=W, dimY=H                             size of the fabric
    @c Px.y (hwtile) landing Cn from link W,      a wavelet reached a router
    @c Px.y (hwtile) wavelet Cn ... departing=    a wavelet begins, leaves a router, or goes to the compute element
    @c Px.y: Writing / Sending wavelet Cn ...     a word enters an output queue, and leaves it for the router
    @c Px.y: [EX OP] ...                          the compute element begins something, or becomes idle
    @c Px.y: Not enough wavelets / Backpressure   it waits for a queue

Coordinates are those of the fabric (program rectangle plus offset), y grows to the south; the viewer draws row 0 at
the bottom. What differs from a vendor's log: the "program counter" of a line is a line number of the source, because
machine code doesn't exist here; `[EX OP]` appears when the activity changes, not in each cycle; code between DSD
operations shows as the name of its task.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from fabrica_bench.csl.ir import EAST, NORTH, RAMP, SOUTH, WEST
from fabrica_bench.wse.costs import load_costs
from fabrica_bench.wse.router import OFFSETS, OPPOSITE
from fabrica_bench.wse.trace_recorder import arrival_color
from fabrica_bench.wse.trace_timeline import MAIN_THREAD, Span, SpanKind, Timeline, queue_and_color

if TYPE_CHECKING:
    from fabrica_bench.wse.trace_recorder import Forward, Inject

_LINKS: Final = {NORTH: "N", SOUTH: "S", EAST: "E", WEST: "W"}
_SLOTS: Final = ((EAST, "E"), (NORTH, "N"), (WEST, "W"), (SOUTH, "S"), (RAMP, "R"))
_MAX_BACKPRESSURE_LINES: Final = 256
"""The viewer shows back-pressure only in cycles that have a line; longer stalls show in their first cycles."""

Line = tuple[int, int, str]
"""Cycle, order within the cycle, text."""


def write_wseviz(line: Timeline, stream: TextIO) -> None:
    """Write the log, sorted by cycle."""
    width, height = line.program.fabric
    lines = [*_wavelet_lines(line), *_activity_lines(line)]
    lines.sort(key=lambda item: item[:2])
    first = lines[0][0] if lines else line.first_cycle  # the viewer begins to play here
    stream.write(f"@{first} dimX={width}, dimY={height}\n")
    for _, _, text in lines:
        stream.write(text + "\n")


def _tile(line: Timeline, x: int, y: int) -> str:
    return f"P{x + line.program.offset[0]}.{y + line.program.offset[1]}"


# ---------------------------------------------------------------------------------------------------- wavelets


def _wavelet_lines(line: Timeline) -> Iterator[Line]:
    ramp = load_costs(line.program.arch)["fabric.ramp"]
    written = {word.ident: word for word in line.injections}
    for word in line.injections:
        yield (
            word.cycle,
            0,
            f"@{word.cycle} {_tile(line, word.x, word.y)}: Writing wavelet C{word.color} data={word.word:08x}"
            f" to OUT_Q[{word.queue}]",
        )
    arrived: dict[tuple[int, int, int], int] = {}
    for hop in line.forwards:
        yield from _hop_lines(line, hop, written.get(hop.ident), arrived, ramp)


def _hop_lines(
    line: Timeline, hop: Forward, source: Inject | None, arrived: dict[tuple[int, int, int], int], ramp: int
) -> Iterator[Line]:
    """The lines of one forwarding step: it leaves this router, and lands in the next ones a cycle later."""
    tile = _tile(line, hop.x, hop.y)
    if hop.port == RAMP and source is not None:
        sent = max(source.cycle, hop.cycle - ramp)
        yield (
            sent,
            1,
            f"@{sent} {tile}: Sending wavelet C{hop.color} data={hop.word:08x} ident:{hop.ident:016x}"
            f" on OUT_Q[{hop.queue}]",
        )
    here = arrived.pop((hop.ident, hop.x, hop.y), None)
    if here == hop.cycle:
        landing = _LINKS[hop.port]  # not `-`: the viewer only then looks for this one
    else:
        landing = {RAMP: "R", 0: "D"}.get(hop.port, "-")
    note = ""
    if hop.mask & RAMP:
        host = line.program.stream_colors.get(hop.color) == "d2h"
        note = ", to_host" if host else ", to_ce_from_router"
    yield hop.cycle, 3, _wavelet_text(tile, hop.cycle, hop, hop.color, landing, hop.mask) + note
    for direction in _LINKS:
        if hop.mask & direction:
            yield from _landing_lines(line, hop, direction, arrived)


def _landing_lines(
    line: Timeline, hop: Forward, direction: int, arrived: dict[tuple[int, int, int], int]
) -> Iterator[Line]:
    link = _LINKS[OPPOSITE[direction]]
    dx, dy = OFFSETS[direction]
    x, y = hop.x + dx, hop.y + dy
    if not (0 <= x < line.program.width and 0 <= y < line.program.height):
        return
    cycle = hop.cycle + 1
    color = arrival_color(line.program, x, y, OPPOSITE[direction], hop.color)
    arrived[hop.ident, x, y] = cycle
    tile = _tile(line, x, y)
    yield cycle, 2, f"@{cycle} {tile} (hwtile) landing C{color} from link {link}, data={hop.word:08x}"
    yield cycle, 2, _wavelet_text(tile, cycle, hop, color, link, 0)


def _wavelet_text(tile: str, cycle: int, hop: Forward, color: int, landing: str, mask: int) -> str:
    departing = "".join(letter if mask & bit else " " for bit, letter in _SLOTS)
    return (
        f"@{cycle} {tile} (hwtile) wavelet C{color} ctrl={int(hop.control)}, idx={hop.word >> 16:04x},"
        f" data={hop.word:08x} (u32({hop.word})), half=0, ident={hop.ident:016x} landing={landing}"
        f" departing=/{departing}/"
    )


# ---------------------------------------------------------------------------------------------------- activity


class _Piece(NamedTuple):
    """Something that one PE does or waits for during some cycles; of those at a time, the lowest rank shows."""

    start: int
    end: int
    rank: int
    span: Span


_SYNC_OP, _TASK, _ASYNC_OP, _STALL = range(4)


def _activity_lines(line: Timeline) -> Iterator[Line]:
    by_pe: dict[tuple[int, int], list[Span]] = defaultdict(list)
    for span in line.spans:
        by_pe[span.x, span.y].append(span)
    for (x, y), spans in sorted(by_pe.items()):
        yield from _pe_lines(line, _tile(line, x, y), spans)


def _pe_lines(line: Timeline, tile: str, spans: list[Span]) -> Iterator[Line]:
    pieces = sorted(_pieces(spans), key=lambda piece: piece.start)
    moments = sorted({moment for piece in pieces for moment in (piece.start, piece.end)})
    active: list[tuple[int, int, int, _Piece]] = []  # a heap by rank; ended pieces leave it when they come up
    begun = 0
    shown = ""
    stall: _Piece | None = None
    for moment in moments:
        while begun < len(pieces) and pieces[begun].start <= moment:
            piece = pieces[begun]
            heapq.heappush(active, (piece.rank, -piece.start, begun, piece))
            begun += 1
        while active and active[0][3].end <= moment:
            heapq.heappop(active)
        current = active[0][3] if active else None
        busy = current if current is not None and current.rank != _STALL else None
        text = _operation(line, busy.span) if busy is not None else "IDLE"
        if text != shown:
            shown = text
            if busy is not None:
                place = line.place(busy.span).rsplit("/", 1)[-1].replace(" ", "_")
                yield moment, 4, f"@{moment} {tile}: [IS OP] {text}  Src0:{place or 'unknown'}"
            yield moment, 5, f"@{moment} {tile}: [EX OP] {text}"
        if current is not None and busy is None and current is not stall:
            stall = current
            yield from _stall_lines(tile, current, moment)


def _pieces(spans: list[Span]) -> Iterator[_Piece]:
    """Tasks without their synchronous operations, operations without their stalls, and the stalls."""
    threads: dict[int, list[Span]] = defaultdict(list)
    stalls: dict[int, list[Span]] = defaultdict(list)
    tasks: list[Span] = []
    for span in spans:
        if span.kind is SpanKind.TASK:
            tasks.append(span)
        elif span.kind is SpanKind.OP:
            threads[span.thread].append(span)
        elif span.name != "issue_slot":
            stalls[span.thread].append(span)
            yield _Piece(span.start, span.end, _STALL, span)
    for thread, ops in threads.items():
        rank = _SYNC_OP if thread == MAIN_THREAD else _ASYNC_OP
        for start, end, span in _without(ops, stalls[thread]):
            yield _Piece(start, end, rank, span)
    for start, end, span in _without(tasks, threads[MAIN_THREAD]):
        yield _Piece(start, end, _TASK, span)


def _without(spans: list[Span], holes: list[Span]) -> Iterator[tuple[int, int, Span]]:
    """The parts of the spans outside the holes. Both are the spans of one thread, so they don't overlap."""
    spans = sorted(spans, key=lambda span: span.start)
    holes = sorted(holes, key=lambda span: span.start)
    next_hole = 0
    for span in spans:
        at = span.start
        while next_hole < len(holes) and holes[next_hole].end <= at:
            next_hole += 1
        for hole in itertools.islice(holes, next_hole, None):
            if hole.start >= span.end:
                break
            if hole.start > at:
                yield at, hole.start, span
            at = max(at, hole.end)
        if at < span.end:
            yield at, span.end, span


def _operation(line: Timeline, span: Span) -> str:
    """`^ 0xLINE: Tn NAME`; DSD operations have their upper-case names, which the viewer has symbols for."""
    place = line.place(span)
    number = int(place.rsplit(":", 1)[1]) if place else 0
    thread = 0 if span.thread == MAIN_THREAD else span.thread + 1
    name = span.name.upper() if span.kind is SpanKind.OP else span.name.replace(" ", "_")
    return f"^ 0x{number & 0xFFFF:04x}: T{thread:02d} {name}"


def _stall_lines(tile: str, piece: _Piece, moment: int) -> Iterator[Line]:
    """What the PE waits for from `moment` on."""
    span = piece.span
    queue, color = queue_and_color(span.detail)
    head = f"@{moment} {tile}"
    if span.name == "empty_queue" and color is not None:
        yield moment, 6, f"{head}: Not enough wavelets (0/1) for SRC0 with C{color}, IN_Q[{queue or 0}], SIMD-1"
    elif span.name == "full_queue" and color is not None:
        for cycle in range(moment, min(piece.end, moment + _MAX_BACKPRESSURE_LINES)):
            yield cycle, 6, f"@{cycle} {tile}: Backpressure on C{color} for OUT_Q[{queue or 0}]"
    else:
        yield moment, 6, f"{head}: Pipe: 0, Msg: stall: {span.detail or span.name.replace('_', ' ')}"
