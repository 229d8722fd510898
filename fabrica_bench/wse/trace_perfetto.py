"""Export of a recorded run for the Perfetto viewer (ui.perfetto.dev) and Chrome's about:tracing.

The format is the JSON of the Chrome trace event format. One cycle is one microsecond of the viewer's time. Each PE is a
"process" with these tracks, where used:

    main thread     tasks; inside them the synchronous DSD operations and their stalls
    microthread n   asynchronous DSD operations and their stalls
    ramp out        words that the compute element puts in an output queue
    link NORTH ...  words that leave the router
    ramp in         words delivered to the compute element

Arrows follow each wavelet from track to track. The "host" process shows the host's commands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TextIO

from fabrica_bench.csl.ir import EAST, NORTH, RAMP, SOUTH, WEST
from fabrica_bench.wse.router import DIRECTION_NAMES, OFFSETS
from fabrica_bench.wse.trace_timeline import MAIN_THREAD, Span, SpanKind, Timeline

if TYPE_CHECKING:
    from fabrica_bench.wse.trace_recorder import Forward

JsonEvent = dict[str, Any]

HOST_PID: Final = 1
_FIRST_PE_PID: Final = 2
_MAIN_TID: Final = 1
_FIRST_MICROTHREAD_TID: Final = 10
_RAMP_OUT_TID: Final = 100
_LINK_TIDS: Final = {NORTH: 101, SOUTH: 102, EAST: 103, WEST: 104, RAMP: 105}
_TRACK_NAMES: Final = {
    _MAIN_TID: "main thread",
    _RAMP_OUT_TID: "ramp out",
    _LINK_TIDS[RAMP]: "ramp in",
    **{tid: f"link {DIRECTION_NAMES[bit]}" for bit, tid in _LINK_TIDS.items() if bit != RAMP},
}


def write_perfetto(line: Timeline, stream: TextIO) -> None:
    """Write the trace as one JSON document, one event per line."""
    stream.write('{"displayTimeUnit":"ms","otherData":')
    other = {"clock": "1 us is 1 cycle", "arch": line.program.arch, "tool": "fabrica-bench"}
    if line.truncated_at is not None:
        other["truncated_at_cycle"] = str(line.truncated_at)
    stream.write(json.dumps(other) + ',"traceEvents":[')
    separator = "\n"
    for event in _Exporter(line).run():
        stream.write(separator + json.dumps(event, separators=(",", ":")))
        separator = ",\n"
    stream.write("\n]}\n")


class _Exporter:
    def __init__(self, line: Timeline) -> None:
        self.line = line
        self.tracks: set[tuple[int, int]] = set()
        self.flows = 0
        #: (wavelet, x, y) -> pid, tid and cycle of the slice from which it comes to the router of (x, y)
        self.origins: dict[tuple[int, int, int], tuple[int, int, int]] = {}

    def run(self) -> Iterator[JsonEvent]:
        yield from self._commands()
        for span in self.line.spans:
            yield self._span(span)
        yield from self._wavelets()
        yield from self._names()

    # ------------------------------------------------------------------------------------------ slices

    def _pid(self, x: int, y: int) -> int:
        return _FIRST_PE_PID + y * self.line.program.width + x

    def _slice(self, pid: int, tid: int, name: str, category: str, start: int, end: int, **args: Any) -> JsonEvent:
        self.tracks.add((pid, tid))
        return {
            "ph": "X",
            "pid": pid,
            "tid": tid,
            "name": name,
            "cat": category,
            "ts": start,
            "dur": max(end - start, 0),
            "args": args,
        }

    def _commands(self) -> Iterator[JsonEvent]:
        """Launches and copies exclude each other; streams overlap, so each color has a track."""
        tids: dict[str, int] = {}
        for command in self.line.commands:
            key = command.text.split("(")[0] if command.text.startswith("stream") else ""
            tid = tids.setdefault(key, _MAIN_TID if not key else _FIRST_MICROTHREAD_TID + len(tids))
            name = command.text.split(" (")[0]
            yield self._slice(HOST_PID, tid, name, "host", command.cycle, command.end, command=command.text)

    def _span(self, span: Span) -> JsonEvent:
        tid = _MAIN_TID if span.thread == MAIN_THREAD else _FIRST_MICROTHREAD_TID + span.thread
        args: dict[str, Any] = {"cycles": span.end - span.start}
        place = self.line.place(span)
        if place:
            args["source"] = place
        name = span.name
        if span.kind is SpanKind.TASK:
            args["kind"] = span.detail
        elif span.kind is SpanKind.OP:
            name = f"@{span.name}"
            args["length"] = "unbounded" if span.detail == "32767" else int(span.detail)
        else:
            name = f"stall: {span.name.replace('_', ' ')}"
            args["waits_for"] = span.detail
        if not span.finished:
            args["unfinished"] = True
        return self._slice(self._pid(span.x, span.y), tid, name, span.kind, span.start, span.end, **args)

    # ------------------------------------------------------------------------------------------ wavelets

    def _wavelets(self) -> Iterator[JsonEvent]:
        for word in self.line.injections:
            pid = self._pid(word.x, word.y)
            self.origins[word.ident, word.x, word.y] = (pid, _RAMP_OUT_TID, word.cycle)
            yield self._slice(
                pid, _RAMP_OUT_TID, _wavelet_name(word.color, word.control), "wavelet", word.cycle, word.cycle + 1,
                word=f"{word.word:#010x}", queue=word.queue, wavelet=word.ident,
            )  # fmt: skip
        for hop in self.line.forwards:
            yield from self._hop(hop)

    def _hop(self, hop: Forward) -> Iterator[JsonEvent]:
        pid = self._pid(hop.x, hop.y)
        origin = self.origins.pop((hop.ident, hop.x, hop.y), None)
        for bit, tid in _LINK_TIDS.items():
            if not hop.mask & bit:
                continue
            yield self._slice(
                pid, tid, _wavelet_name(hop.color, hop.control), "wavelet", hop.cycle, hop.cycle + 1,
                word=f"{hop.word:#010x}", wavelet=hop.ident,
            )  # fmt: skip
            if origin is not None:
                yield from self._flow(origin, (pid, tid, hop.cycle))
            if bit != RAMP:
                dx, dy = OFFSETS[bit]
                self.origins[hop.ident, hop.x + dx, hop.y + dy] = (pid, tid, hop.cycle)

    def _flow(self, start: tuple[int, int, int], end: tuple[int, int, int]) -> Iterator[JsonEvent]:
        self.flows += 1
        common = {"name": "wavelet", "cat": "wavelet", "id": self.flows}
        yield {"ph": "s", "pid": start[0], "tid": start[1], "ts": start[2], **common}
        yield {"ph": "f", "bp": "e", "pid": end[0], "tid": end[1], "ts": end[2], **common}

    # ------------------------------------------------------------------------------------------ names

    def _names(self) -> Iterator[JsonEvent]:
        program = self.line.program
        titles = {HOST_PID: "host"}
        for y in range(program.height):
            for x in range(program.width):
                titles[self._pid(x, y)] = f"PE({x},{y}) {program.images[program.tiles[y][x]].name}"
        for pid in sorted({pid for pid, _ in self.tracks}):
            yield _metadata("process_name", pid, 0, name=titles[pid])
            yield _metadata("process_sort_index", pid, 0, sort_index=pid)
        for pid, tid in sorted(self.tracks):
            yield _metadata("thread_name", pid, tid, name=_track_name(pid, tid))
            yield _metadata("thread_sort_index", pid, tid, sort_index=tid)


def _track_name(pid: int, tid: int) -> str:
    if pid == HOST_PID:
        return "launches and copies" if tid == _MAIN_TID else "stream"
    return _TRACK_NAMES.get(tid) or f"microthread {tid - _FIRST_MICROTHREAD_TID}"


def _wavelet_name(color: int, control: bool) -> str:
    return f"C{color} control" if control else f"C{color}"


def _metadata(kind: str, pid: int, tid: int, **args: Any) -> JsonEvent:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}
