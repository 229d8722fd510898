"""Recorded runs: what the recorder keeps, how it follows wavelets, and what the exporters make of it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from helpers.ir_programs import Fn, activate, fabin, fabout, image, mem, program

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import EAST, RAMP, WEST, ColorConfig
from fabrica_bench.wse.commands import Launch
from fabrica_bench.wse.faults import Deadlock
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.trace_perfetto import write_perfetto
from fabrica_bench.wse.trace_recorder import Forward, Inject, TraceRecorder, TraceWindow, arrival_color
from fabrica_bench.wse.trace_timeline import SpanKind, build_timeline, queue_and_color
from fabrica_bench.wse.trace_wseviz import write_wseviz

C = 4
COUNT = 5
BUFFER = 1024


def chain(width: int = 3, send: int = COUNT, take: int = COUNT, delay: int = 0, arch: str = "wse3") -> ir.Program:
    """PE 0 sends words asynchronously; every other PE takes a copy of each and passes it on to the east. The receivers
    first move `delay` elements in memory."""
    source = Fn("main")
    source.line = 10
    source.dsd("mov32", fabout(3, C, send), mem(BUFFER, send), is_async=True, on_done=activate(9))
    done = Fn("done", task=True)
    done.do("unblock_cmd_stream")
    sender = image(
        source.ret() and source, done.ret() and done, exports=("main",), queues=[ir.QueueInit("output", 3, C)],
        tasks=[ir.TaskBinding("local", 9, "done")],
    )  # fmt: skip
    taker = Fn("main")
    taker.line = 20
    if delay:
        taker.dsd("mov32", mem(4096, delay), mem(4096, delay))
    taker.dsd("mov32", mem(BUFFER, take), fabin(2, C, take))
    taker.do("unblock_cmd_stream")
    receiver = image(taker.ret() and taker, exports=("main",), queues=[ir.QueueInit("input", 2, C)])
    colors: list[dict[int, ColorConfig]] = [{C: ColorConfig(rx=RAMP, tx=EAST)}]
    colors += [{C: ColorConfig(rx=WEST, tx=EAST | RAMP)} for _ in range(width - 2)]
    colors += [{C: ColorConfig(rx=WEST, tx=RAMP)}]
    return program([sender, receiver], [[0] + [1] * (width - 1)], [colors], arch=arch)


def record(target: ir.Program, window: TraceWindow | None = None) -> TraceRecorder:
    recorder = TraceRecorder(target, window)
    machine = Machine(target, trace=recorder)
    machine.submit(Launch("main"))
    machine.drain()
    return recorder


class TestRecorder:
    def test_tracing_changes_no_cycle(self) -> None:
        plain = Machine(chain())
        plain.submit(Launch("main"))
        plain.drain()
        traced = Machine(chain(), trace=TraceRecorder(chain()))
        traced.submit(Launch("main"))
        traced.drain()
        assert traced.cycle == plain.cycle
        assert traced.launch_windows == plain.launch_windows

    def test_every_wavelet_keeps_its_number_from_the_sender_to_each_receiver(self) -> None:
        events = list(record(chain(width=4)).events())
        injected = [event for event in events if isinstance(event, Inject)]
        assert [event.x for event in injected] == [0] * COUNT
        assert len({event.ident for event in injected}) == COUNT
        for word in injected:
            hops = [event for event in events if isinstance(event, Forward) and event.ident == word.ident]
            assert [(hop.x, hop.port, hop.mask) for hop in sorted(hops, key=lambda hop: hop.cycle)] == [
                (0, RAMP, EAST),
                (1, WEST, EAST | RAMP),
                (2, WEST, EAST | RAMP),
                (3, WEST, RAMP),
            ]
            assert {hop.word for hop in hops} == {word.word}

    def test_words_of_one_queue_stay_in_order(self) -> None:
        last = [e.ident for e in record(chain()).events() if isinstance(e, Forward) and e.x == 2]
        assert last == sorted(last)
        assert len(last) == COUNT

    def test_color_swap_of_the_receiving_router_is_followed(self) -> None:
        target = chain(width=2)
        target.colors[0][1] = {
            C ^ 1: ColorConfig(rx=WEST, tx=RAMP, color_swap_x=True),
            C: ColorConfig(rx=WEST, tx=RAMP, color_swap_x=True),
        }
        target.images[1].queues[:] = [ir.QueueInit("input", 2, C ^ 1)]
        assert arrival_color(target, 1, 0, WEST, C) == C ^ 1
        events = list(record(target).events())
        sent = [event.ident for event in events if isinstance(event, Inject)]
        assert [(e.ident, e.color) for e in events if isinstance(e, Forward) and e.x == 1] == [
            (ident, C ^ 1) for ident in sent
        ]

    def test_a_full_recorder_says_where_the_trace_ends(self) -> None:
        whole = list(record(chain()).events())
        cut = record(chain(), TraceWindow(max_events=7))
        assert list(cut.events()) == whole[:7]
        assert cut.count == 7
        assert cut.truncated_at == whole[7].cycle

    def test_a_window_keeps_only_its_cycles_and_pes_but_all_numbers(self) -> None:
        whole = list(record(chain()).events())
        middle = sorted(e.cycle for e in whole if isinstance(e, Forward))[COUNT]
        part = record(chain(), TraceWindow(cycles=(middle, middle + 3), region=(2, 2, 0, 0)))
        expected = [e for e in whole if middle <= e.cycle <= middle + 3 and getattr(e, "x", -1) == 2]
        assert [e for e in part.events() if hasattr(e, "x")] == expected
        assert any(isinstance(event, Forward) for event in expected)


class TestTimeline:
    def test_tasks_operations_and_stalls_have_their_places(self) -> None:
        line = build_timeline(record(chain()))
        spans = {kind: [span for span in line.spans if span.kind is kind] for kind in SpanKind}
        assert Counter((span.x, span.name) for span in spans[SpanKind.TASK]) == {
            (0, "main"): 1, (0, "done"): 1, (1, "main"): 1, (2, "main"): 1,
        }  # fmt: skip
        send = next(span for span in spans[SpanKind.OP] if span.x == 0)
        assert (send.name, send.detail, send.thread >= 0) == ("mov32", str(COUNT), True)
        assert line.place(send) == "pe.csl:10"
        receive = next(span for span in spans[SpanKind.OP] if span.x == 2)
        assert (receive.thread, line.place(receive)) == (-1, "pe.csl:20")
        waits = [span for span in spans[SpanKind.STALL] if span.x == 2]
        assert waits[0].name == "empty_queue"
        assert queue_and_color(waits[0].detail) == (2, C)
        assert receive.start <= waits[0].start < waits[0].end <= receive.end

    def test_what_never_ends_is_marked(self) -> None:
        target = chain(send=COUNT - 1)
        recorder = TraceRecorder(target)
        machine = Machine(target, trace=recorder)
        machine.submit(Launch("main"))
        with pytest.raises(Deadlock):
            machine.drain()
        open_spans = [span for span in build_timeline(recorder).spans if not span.finished]
        assert {(span.x, span.kind, span.name) for span in open_spans} == {
            (x, kind, name) for x in (1, 2) for kind, name in ((SpanKind.TASK, "main"), (SpanKind.OP, "mov32"))
        }
        assert all(span.end == recorder.last_cycle for span in open_spans)

    def test_queue_and_color_of_what_a_stall_waits_for(self) -> None:
        assert queue_and_color("output queue 3 (color 17)") == (3, 17)
        assert queue_and_color("color 9") == (None, 9)
        assert queue_and_color("FIFO buffer (empty)") == (None, None)


def perfetto(target: ir.Program) -> list[dict[str, Any]]:
    stream = io.StringIO()
    write_perfetto(build_timeline(record(target)), stream)
    document = json.loads(stream.getvalue())
    assert document["otherData"]["arch"] == target.arch
    events = document["traceEvents"]
    assert isinstance(events, list)
    return events


class TestPerfetto:
    def test_slices_of_a_track_are_nested_or_apart(self) -> None:
        tracks: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for event in perfetto(chain(width=4)):
            if event["ph"] == "X":
                tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        assert len(tracks) > 8
        for slices in tracks.values():
            open_ends: list[int] = []
            for start, end in sorted(slices, key=lambda item: (item[0], -item[1])):
                while open_ends and open_ends[-1] <= start:
                    open_ends.pop()
                assert not open_ends or end <= open_ends[-1]
                open_ends.append(end)

    def test_each_pe_has_a_process_with_named_tracks(self) -> None:
        events = perfetto(chain())
        processes = {e["args"]["name"]: e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
        assert list(processes) == ["host", "PE(0,0) test", "PE(1,0) test", "PE(2,0) test"]
        tracks = {(e["pid"], e["args"]["name"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
        middle = processes["PE(1,0) test"]
        assert {name for pid, name in tracks if pid == middle} == {"main thread", "link EAST", "ramp in"}
        first = processes["PE(0,0) test"]
        assert {"main thread", "ramp out", "link EAST"} < {name for pid, name in tracks if pid == first}
        assert any(pid == first and name.startswith("microthread") for pid, name in tracks)

    def test_arrows_lead_each_wavelet_from_slice_to_slice(self) -> None:
        events = perfetto(chain())
        slices = {(e["pid"], e["tid"], e["ts"]) for e in events if e["ph"] == "X" and e["cat"] == "wavelet"}
        arrows: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for event in events:
            if event["ph"] in "sf":
                arrows[event["id"]].append(event)
        # per word: out of the ramp, to the middle PE's link and ramp, and from its link to the last PE
        assert len(arrows) == COUNT * 4
        for start, end in arrows.values():
            assert (start["ph"], end["ph"]) == ("s", "f")
            assert start["ts"] < end["ts"]
            assert {(e["pid"], e["tid"], e["ts"]) for e in (start, end)} <= slices

    def test_the_host_process_shows_the_launch(self) -> None:
        launches = [e for e in perfetto(chain()) if e.get("cat") == "host"]
        assert [(e["name"], e["pid"]) for e in launches] == [("launch of 'main'", 1)]


def wseviz(target: ir.Program) -> list[str]:
    stream = io.StringIO()
    write_wseviz(build_timeline(record(target)), stream)
    return stream.getvalue().splitlines()


WAVELET = re.compile(
    r"@(?P<cycle>\d+) P(?P<x>\d+)\.(?P<y>\d+) \(hwtile\) wavelet C(?P<color>\d+) ctrl=(?P<ctrl>[01]), idx=[0-9a-f]{4},"
    r" data=(?P<data>[0-9a-f]{8}) \(u32\(\d+\)\), half=0, ident=(?P<ident>[0-9a-f]{16}) landing=(?P<landing>[RENWSD-])"
    r" departing=/(?P<departing>[E ][N ][W ][S ][R ])/(?P<rest>.*)"
)


class TestWseViz:
    def test_the_log_begins_with_the_fabric_and_is_sorted(self) -> None:
        lines = wseviz(chain())
        assert re.fullmatch(r"@\d+ dimX=10, dimY=3", lines[0])
        cycles = [int(line[1 : line.index(" ")]) for line in lines]
        assert cycles == sorted(cycles)

    @pytest.mark.parametrize("arch", ["wse2", "wse3"])
    def test_a_wavelet_lands_one_cycle_after_it_departs_and_is_consumed_at_the_end(self, arch: str) -> None:
        steps = defaultdict(list)
        for line in wseviz(chain(arch=arch)):
            found = WAVELET.fullmatch(line)
            assert (" wavelet C" not in line or "OUT_Q" in line) or found, line
            if found:
                steps[found["ident"]].append(found)
        assert len(steps) == COUNT
        for hops in steps.values():
            departures = [hop for hop in hops if hop["departing"].strip()]
            assert [(hop["x"], hop["departing"]) for hop in departures] == [
                ("4", "E    "), ("5", "E   R"), ("6", "    R"),
            ]  # fmt: skip
            assert departures[0]["landing"] == "R"
            assert [hop["rest"] == ", to_ce_from_router" for hop in departures] == [False, True, True]
            landings = [hop for hop in hops if hop["landing"] == "W" and not hop["departing"].strip()]
            assert [hop["x"] for hop in landings] == ["5", "6"]
            for departure, landing in zip(departures, landings, strict=False):
                assert int(landing["cycle"]) == int(departure["cycle"]) + 1

    def test_activity_names_operation_and_source_line(self) -> None:
        lines = [line for line in wseviz(chain()) if " P6.1: " in line]
        assert any(re.search(r"\[EX OP\] \^ 0x0014: T00 MOV32$", line) for line in lines)
        assert any(line.endswith("Src0:pe.csl:20") for line in lines)
        assert any("Not enough wavelets (0/1) for SRC0 with C4, IN_Q[2]" in line for line in lines)
        assert lines[-1].endswith("[EX OP] IDLE")

    def test_a_full_output_queue_shows_as_back_pressure(self) -> None:
        lines = wseviz(chain(width=2, send=60, take=60, delay=500))
        cycles = [int(line[1 : line.index(" ")]) for line in lines if "P4.1: Backpressure on C4 for OUT_Q[3]" in line]
        assert len(cycles) > 100
        assert len(set(cycles)) == len(cycles)

    @pytest.mark.skipif(
        shutil.which("node") is None or not os.environ.get("FABRICA_WSE_VIZ"),
        reason="needs node, and a checkout of wse-viz named by FABRICA_WSE_VIZ",
    )
    def test_the_viewers_own_parser_reads_the_log(self, tmp_path: Path) -> None:
        log = tmp_path / "chain.log"
        log.write_text("\n".join(wseviz(chain())) + "\n", encoding="utf-8")
        viewer = Path(os.environ["FABRICA_WSE_VIZ"])
        script = tmp_path / "read.mjs"
        script.write_text(
            f"""
            import {{ NodeFile }} from "{viewer}/node-file.js";
            import {{ TraceParser }} from "{viewer}/trace-parser.js";
            import {{ getBranches }} from "{viewer}/wavelet.js";
            const warnings = [];
            console.warn = (...words) => warnings.push(words.join(" "));
            const trace = await TraceParser.index(new NodeFile("{log}"));
            const wavelets = TraceParser.prepareWaveletList([...trace.waveletIndex.values()]).waveletList;
            const ends = wavelets.map(w => getBranches(w).filter(b => b[b.length - 1].consumed).length);
            console.log(JSON.stringify({{ warnings, ends, size: [trace.dimX, trace.dimY],
              born: wavelets.filter(w => w.birthCycle != null).length, ops: trace.opLookup,
              pes: trace.peStateIndex.size }}));
            """,
            encoding="utf-8",
        )
        done = subprocess.run(["node", str(script)], capture_output=True, text=True, timeout=60, check=True)
        seen = json.loads(done.stdout)
        assert seen["warnings"] == []
        assert seen["size"] == [10, 3]
        assert seen["ends"] == [2] * COUNT  # both receivers took each word
        assert seen["born"] == COUNT
        assert seen["pes"] == 3
        assert "MOV32" in seen["ops"]


def test_words_stay_those_of_the_program() -> None:
    """The payload in the log is what the receiver stored."""
    target = chain(width=2)
    machine = Machine(target, trace=(recorder := TraceRecorder(target)))
    for k in range(COUNT):
        machine.pe(0, 0).memory.write_int(BUFFER + 4 * k, 0xABC00 + k, 4)
    machine.submit(Launch("main"))
    machine.drain()
    delivered = [e.word for e in recorder.events() if isinstance(e, Forward) and e.mask & RAMP]
    assert delivered == [0xABC00 + k for k in range(COUNT)]
    assert [machine.pe(1, 0).memory.read_int(BUFFER + 4 * k, 4) for k in range(COUNT)] == delivered
