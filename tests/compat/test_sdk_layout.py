"""Programs of the layout API: built from regions, ports and streams, compiled, and run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from helpers.csl_programs import ARCHES, PE_HEAD, compile_files, uniform_layout

from fabrica_bench.compat.code_regions import CodeRegion, Port
from fabrica_bench.compat.geometry import IntRectangle, IntVector
from fabrica_bench.compat.platforms import SdkCompileArtifacts, SdkTarget, get_platform
from fabrica_bench.compat.runtime import SdkRuntime
from fabrica_bench.compat.sdk_layout import Color, Edge, Route, RoutingPosition, SdkLayout, get_edge_routing
from fabrica_bench.compat.sessions import HostError
from fabrica_bench.errors import FabricaError

TARGETS = {"wse2": SdkTarget.WSE2, "wse3": SdkTarget.WSE3}

# Passes `count` words on, each increased by 100 times the number of this PE.
STAGE = """
param count: u16;
param number: u16;
param source: color;
param target: color;
const in_queue = @get_input_queue(2);
const out_queue = @get_output_queue(3);
const incoming = @get_dsd(fabin_dsd, .{ .extent = count, .fabric_color = source, .input_queue = in_queue });
const outgoing = @get_dsd(fabout_dsd, .{ .extent = count, .fabric_color = target, .output_queue = out_queue });
export var seen = @zeros([1]u16);
const start_id = @get_local_task_id(9);
task start() void {
  seen[0] = number;
  @add16(outgoing, incoming, 100 * number, .{ .async = true });
}
comptime {
  @bind_local_task(start, start_id);
  @activate(start_id);
  @initialize_queue(in_queue, .{ .color = source });
  if (@is_arch("wse3")) { @initialize_queue(out_queue, .{ .color = target }); }
}
"""

# Sends the words of `words`.
SENDER = """
param count: u16;
param target: color;
export var words = @zeros([count]u32);
const out_queue = @get_output_queue(3);
const all = @get_dsd(mem1d_dsd, .{ .base_address = &words, .extent = count });
const outgoing = @get_dsd(fabout_dsd, .{ .extent = count, .fabric_color = target, .output_queue = out_queue });
const start_id = @get_local_task_id(9);
task start() void { @mov32(outgoing, all, .{ .async = true }); }
comptime {
  @bind_local_task(start, start_id);
  @activate(start_id);
  if (@is_arch("wse3")) { @initialize_queue(out_queue, .{ .color = target }); }
}
"""

# Stores `count` words in `words`.
RECEIVER = """
param count: u16;
param source: color;
export var words = @zeros([count]u32);
const in_queue = @get_input_queue(2);
const all = @get_dsd(mem1d_dsd, .{ .base_address = &words, .extent = count });
const incoming = @get_dsd(fabin_dsd, .{ .extent = count, .fabric_color = source, .input_queue = in_queue });
const start_id = @get_local_task_id(9);
task start() void { @mov32(all, incoming, .{ .async = true }); }
comptime {
  @bind_local_task(start, start_id);
  @activate(start_id);
  @initialize_queue(in_queue, .{ .color = source });
}
"""

IDLE = "fn main() void { sys_mod.unblock_cmd_stream(); }\ncomptime { @export_symbol(main); }\n"

COUNT = 4


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources in the working directory, as beside a host script."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"stage.csl": STAGE, "sender.csl": SENDER, "receiver.csl": RECEIVER}.items():
        Path(name).write_text(text, encoding="utf-8")


def to_ramp() -> list[RoutingPosition]:
    return [RoutingPosition().set_output([Route.RAMP])]


def from_ramp() -> list[RoutingPosition]:
    return [RoutingPosition().set_input([Route.RAMP])]


def sender(layout: SdkLayout, edge: Edge, width: int, height: int, name: str = "sender") -> tuple[CodeRegion, Port]:
    region = layout.create_code_region("sender.csl", name, width, height)
    target = region.color("target")
    region.set_param_all("count", COUNT)
    region.set_param_all(target)
    pes = width * height
    words = np.arange(pes * COUNT, dtype=np.uint32) + 7
    # One row of PEs: each has COUNT of the columns; one column of PEs: each has one of the rows.
    region.set_symbol_all("words", words, width * COUNT, height)
    return region, region.create_output_port(target, edge, from_ramp(), pes * COUNT)


def receiver(layout: SdkLayout, edge: Edge, width: int, height: int) -> tuple[CodeRegion, Port]:
    region = layout.create_code_region("receiver.csl", "receiver", width, height)
    source = region.color("source")
    region.set_param_all("count", COUNT)
    region.set_param_all(source)
    return region, region.create_input_port(source, edge, to_ramp(), width * height * COUNT)


def run(layout: SdkLayout, arch: str, out: str = "out") -> SdkRuntime:
    runtime = SdkRuntime(layout.compile(out_prefix=out), get_platform(target=TARGETS[arch]), memcpy_required=False)
    runtime.load()
    runtime.run()
    return runtime


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("gap", [0, 3])
def test_regions_side_by_side_and_apart_exchange_words_pe_by_pe(arch: str, gap: int) -> None:
    layout = SdkLayout(TARGETS[arch])
    west, tx = sender(layout, Edge.RIGHT, 1, 3)
    east, rx = receiver(layout, Edge.LEFT, 1, 3)
    if gap:
        west.place(0, 1)
        east.place(1 + gap, 2)
    else:
        layout.hstack([west, east], IntVector(0, 1))
    layout.connect(tx, rx)
    runtime = run(layout, arch)
    runtime.stop()
    assert east.origin is not None
    for row in range(3):
        got = runtime.read_symbol(east.origin.x, east.origin.y + row, "words", dtype="uint32")
        assert got.tolist() == [7 + row * COUNT + k for k in range(COUNT)]


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(("out_edge", "in_edge"), [(Edge.BOTTOM, Edge.TOP), (Edge.TOP, Edge.BOTTOM)])
def test_top_and_bottom_edges_connect_column_by_column(arch: str, out_edge: Edge, in_edge: Edge) -> None:
    layout = SdkLayout(TARGETS[arch])
    upper, tx = sender(layout, out_edge, 3, 1)
    lower, rx = receiver(layout, in_edge, 3, 1)
    stack = [upper, lower] if out_edge is Edge.BOTTOM else [lower, upper]
    layout.vstack(stack)
    layout.connect(tx, rx)
    runtime = run(layout, arch)
    runtime.stop()
    assert lower.origin is not None
    for column in range(3):
        got = runtime.read_symbol(column, lower.origin.y, "words", dtype="uint32")
        assert got.tolist() == [7 + column * COUNT + k for k in range(COUNT)]


@pytest.mark.parametrize("arch", ARCHES)
def test_a_chain_of_regions_between_two_streams(arch: str) -> None:
    layout = SdkLayout(TARGETS[arch])
    stages, ports = [], []
    for number in range(3):
        region = layout.create_code_region("stage.csl", f"stage{number}", 1, 1)
        source, target = region.color("source"), region.color("target")
        region.set_param_all("count", 6)
        region.set_param(IntVector(0, 0), "number", np.uint16(number + 1))
        region.set_param_all(source)
        region.set_param_all(target)
        ports.append(
            (
                region.create_input_port(source, Edge.LEFT, to_ramp(), 6),
                region.create_output_port(target, Edge.RIGHT, from_ramp(), 6),
            )
        )
        stages.append(region)
    for region, place in zip(stages, [(1, 1), (4, 4), (0, 3)], strict=True):
        region.place(*place)
    layout.connect(ports[0][1], ports[1][0])
    layout.connect(ports[1][1], ports[2][0])
    to_device = layout.create_input_stream(ports[0][0])
    to_host = layout.create_output_stream(ports[2][1], io_loc=IntVector(6, 0), io_buffer_size=16)
    runtime = run(layout, arch)
    data = np.array([1, 2, 3, 4, 5, 6], dtype=np.uint32)
    got = np.zeros(8, dtype=np.uint32)
    runtime.send(to_device, data, nonblock=True)
    runtime.receive(runtime.get_port_id(to_host), got, 6, nonblock=False)
    assert got.tolist() == [601, 602, 603, 604, 605, 606, 0, 0]
    runtime.stop()
    assert [int(runtime.read_symbol(x, y, "seen", "uint16")[0]) for x, y in [(1, 1), (4, 4), (0, 3)]] == [1, 2, 3]
    assert "device to host at PE (6, 0), 6 wavelets" in runtime.report_port_infos()


def loop_back(layout: SdkLayout, count: int = COUNT) -> tuple[str, str]:
    """One stage between two streams."""
    region = layout.create_code_region("stage.csl", "stage", 1, 1)
    source, target = region.color("source"), region.color("target")
    region.set_param_all("count", count)
    region.set_param_all("number", 1)
    region.set_param_all(source)
    region.set_param_all(target)
    return (
        layout.create_input_stream(region.create_input_port(source, Edge.LEFT, to_ramp(), count)),
        layout.create_output_stream(region.create_output_port(target, Edge.RIGHT, from_ramp(), count)),
    )


def test_artefacts_carry_their_streams_into_another_runtime() -> None:
    layout = SdkLayout(SdkTarget.WSE3)
    names = loop_back(layout)
    layout.compile(out_prefix="built", save_port_map=True)
    ports = json.loads(Path("built/port_map.json").read_text(encoding="utf-8"))
    assert [(port["name"], port["direction"]) for port in ports] == [(names[0], "h2d"), (names[1], "d2h")]
    colors = json.loads(Path("built/colors.json").read_text(encoding="utf-8"))
    assert set(colors) == {"stage.source", "stage.target"}
    runtime = SdkRuntime(SdkCompileArtifacts("built"), memcpy_required=False)
    runtime.load()
    runtime.run()
    sent = runtime.send(0, np.arange(COUNT, dtype=np.int32))
    runtime.receive_tofile(names[1], "words.bin")
    assert runtime.is_task_done(sent)
    assert np.fromfile("words.bin", dtype="<u4").tolist() == [100, 101, 102, 103]
    runtime.stop()


def test_received_words_arrive_by_stop_whatever_was_issued_last() -> None:
    layout = SdkLayout(SdkTarget.WSE2)
    to_device, to_host = loop_back(layout)
    runtime = run(layout, "wse2")
    got = np.zeros(COUNT, dtype=np.float32)
    runtime.receive(to_host, got, nonblock=True)
    runtime.send(to_device, np.arange(COUNT, dtype=np.uint32), nonblock=True)
    runtime.stop()
    assert got.view(np.uint32).tolist() == [100, 101, 102, 103]


@pytest.mark.parametrize("arch", ARCHES)
def test_streams_meet_painted_routes_at_a_location(arch: str) -> None:
    layout = SdkLayout(TARGETS[arch])
    region = layout.create_code_region("stage.csl", "stage", 1, 1)
    source, target = Color("source"), Color("target", 5)
    region.set_param_all("count", COUNT)
    region.set_param_all("number", 2)
    region.set_param_all(source)
    region.set_param_all(target)
    region.paint_all(source, [RoutingPosition().set_input([Route.NORTH]).set_output([Route.RAMP])])
    region.paint_all(target, [RoutingPosition().add_input(Route.RAMP).add_output(Route.EAST)])
    region.place(1, 1)
    to_device = layout.create_input_stream_from_loc(IntVector(1, 0), source)
    to_host = layout.create_output_stream_from_loc(IntVector(2, 1), target, "result_")
    assert to_host == "result_target"
    runtime = run(layout, arch)
    got = np.zeros(COUNT, dtype=np.uint32)
    runtime.send(to_device, np.arange(COUNT, dtype=np.uint32), nonblock=True)
    runtime.receive(to_host, got, COUNT, nonblock=False)
    runtime.stop()
    assert got.tolist() == [200, 201, 202, 203]
    assert target.get_value() == 5


def test_edges_and_ranges_override_what_was_painted_and_bound_before() -> None:
    layout = SdkLayout(SdkTarget.WSE3)
    region = layout.create_code_region("receiver.csl", "receiver", 3, 2)
    color = Color("source")
    inner = RoutingPosition().set_input([Route.WEST]).set_output([Route.RAMP, Route.EAST])
    last = RoutingPosition().set_input([Route.WEST]).set_output([Route.RAMP])
    region.paint_all(color, [inner], [get_edge_routing(Edge.RIGHT, [last])])
    region.set_param_all(color)
    region.set_param_all("count", 1)
    region.set_param_range(IntRectangle(IntVector(1, 0), IntVector(3, 1)), "count", 2)
    region.paint_range(IntRectangle(IntVector(0, 1), IntVector(1, 2)), color, [last])
    runtime = run(layout, "wse3")
    runtime.stop()
    sizes = [[runtime.read_symbol(x, y, "words", "uint32").size for x in range(3)] for y in range(2)]
    assert sizes == [[1, 2, 2], [1, 1, 1]]
    program = runtime._program
    outputs = [[program.colors[y][x][0].tx for x in range(3)] for y in range(2)]
    east_and_ramp, ramp = 4 | 16, 16
    assert outputs == [[east_and_ramp, east_and_ramp, ramp], [ramp, east_and_ramp, ramp]]


def test_a_position_can_be_changed_after_use_for_the_next_one() -> None:
    layout = SdkLayout(SdkTarget.WSE2)
    region = layout.create_code_region("receiver.csl", "receiver", 2, 1)
    color, position = Color("source", 4), RoutingPosition().set_input([Route.WEST]).set_output([Route.EAST])
    region.set_param_all(color)
    region.set_param_all("count", 1)
    region.paint(IntVector(0, 0), color, [position])
    region.paint(IntVector(1, 0), color, [position.set_output([Route.RAMP])])
    assert repr(position) == "RoutingPosition({WEST} -> {RAMP})"
    assert [position.get_input(), position.get_output()] == [[Route.WEST], [Route.RAMP]]
    runtime = run(layout, "wse2")
    runtime.stop()
    assert [runtime._program.colors[0][x][4].tx for x in (0, 1)] == [4, 16]


def test_another_program_in_the_same_directory_has_no_streams_left() -> None:
    layout = SdkLayout(SdkTarget.WSE3)
    loop_back(layout)
    layout.compile(out_prefix="out_wse3")
    names = {"layout.csl": uniform_layout(1, 1, {}), "pe.csl": PE_HEAD + IDLE}
    runtime = SdkRuntime(compile_files(Path(), names, "wse3", (1, 1)))
    with pytest.raises(HostError, match="the program has no stream"):
        runtime.get_port_id("stage.source")


def both_ways(arch: str) -> SdkLayout:
    layout = SdkLayout(TARGETS[arch])
    region = layout.create_code_region("receiver.csl", "receiver", 1, 1)
    region.set_param_all("count", 1)
    color = Color("source")
    region.set_param_all(color)
    first = RoutingPosition().set_input([Route.WEST]).set_output([Route.RAMP])
    second = RoutingPosition().set_input([Route.EAST]).set_output([Route.NORTH])
    region.paint_all(color, [first, second])
    return layout


def test_a_position_with_another_input_and_output_needs_wse3() -> None:
    both_ways("wse3").compile()
    with pytest.raises(HostError, match="switch position 1 changes both input and output"):
        both_ways("wse2").compile()


# ------------------------------------------------------------------------------------------------------ refusals


def unequal_sizes(layout: SdkLayout) -> None:
    _, tx = sender(layout, Edge.RIGHT, 1, 2)
    _, rx = receiver(layout, Edge.LEFT, 1, 3)
    layout.connect(tx, rx)


def unequal_edges(layout: SdkLayout) -> None:
    _, tx = sender(layout, Edge.RIGHT, 1, 2)
    region = layout.create_code_region("receiver.csl", "receiver", 1, 1)
    layout.connect(tx, region.create_input_port(Color("c"), Edge.LEFT, to_ramp(), 2 * COUNT))


def swapped(layout: SdkLayout) -> None:
    _, tx = sender(layout, Edge.RIGHT, 1, 1)
    _, rx = receiver(layout, Edge.LEFT, 1, 1)
    layout.connect(rx, tx)


def connected_twice(layout: SdkLayout) -> None:
    _, tx = sender(layout, Edge.RIGHT, 1, 1)
    _, rx = receiver(layout, Edge.LEFT, 1, 1)
    layout.connect(tx, rx)
    layout.create_output_stream(tx)


def wide_stream(layout: SdkLayout) -> None:
    _, tx = sender(layout, Edge.RIGHT, 1, 2)
    layout.create_output_stream(tx)


def overlap(layout: SdkLayout) -> None:
    sender(layout, Edge.RIGHT, 2, 1)[0].place(0, 0)
    receiver(layout, Edge.LEFT, 1, 1)[0].place(1, 0)
    layout.compile()


def unplaced(layout: SdkLayout) -> None:
    sender(layout, Edge.RIGHT, 1, 1)
    receiver(layout, Edge.LEFT, 1, 1)
    layout.compile()


def unconnected(layout: SdkLayout) -> None:
    sender(layout, Edge.RIGHT, 1, 1)
    layout.compile()


def stream_inside_a_region(layout: SdkLayout) -> None:
    _, tx = sender(layout, Edge.RIGHT, 1, 1)
    layout.create_output_stream(tx, IntVector(0, 0))
    layout.compile()


def nothing_there(layout: SdkLayout) -> None:
    region, tx = sender(layout, Edge.RIGHT, 1, 1)
    layout.create_output_stream(tx)
    region.place(0, 0)
    layout.create_input_stream_from_loc(IntVector(3, 3), Color("lost"))
    layout.compile()


def port_with_both(layout: SdkLayout) -> None:
    region = layout.create_code_region("receiver.csl", "receiver", 1, 1)
    both = RoutingPosition().set_input([Route.WEST]).set_output([Route.RAMP])
    region.create_input_port(Color("c"), Edge.LEFT, [both], 1)


def paint_outside(layout: SdkLayout) -> None:
    region = layout.create_code_region("receiver.csl", "receiver", 2, 1)
    both = RoutingPosition().set_input([Route.WEST]).set_output([Route.RAMP])
    region.paint(IntVector(2, 0), Color("c"), [both])


def one_color_both_ways(layout: SdkLayout) -> None:
    region = layout.create_code_region("stage.csl", "stage", 1, 1)
    tx = region.create_output_port(Color("t"), Edge.RIGHT, from_ramp(), 1)
    rx = region.create_input_port(Color("s"), Edge.LEFT, to_ramp(), 1)
    layout.connect(tx, rx)
    layout.compile()


def wrong_block(layout: SdkLayout) -> None:
    region, tx = sender(layout, Edge.RIGHT, 1, 1)
    layout.create_output_stream(tx)
    region.set_symbol_all("words", np.zeros(3, dtype=np.uint32), 3, 1)
    layout.compile()


def float_block(layout: SdkLayout) -> None:
    region, tx = sender(layout, Edge.RIGHT, 1, 1)
    layout.create_output_stream(tx)
    region.set_symbol_all("words", np.zeros(COUNT), COUNT, 1)
    layout.compile()


def uneven_block(layout: SdkLayout) -> None:
    region = layout.create_code_region("sender.csl", "sender", 2, 1)
    region.set_symbol_all("words", np.zeros(3), 3, 1)


def no_file(layout: SdkLayout) -> None:
    layout.create_code_region("absent.csl", "absent", 1, 1)


def same_name(layout: SdkLayout) -> None:
    layout.create_code_region("sender.csl", "one", 1, 1)
    layout.create_code_region("sender.csl", "one", 1, 1)


def missing_param(layout: SdkLayout) -> None:
    layout.create_code_region("receiver.csl", "receiver", 1, 1)
    layout.compile()


REFUSALS: list[tuple[Callable[[SdkLayout], None], str]] = [
    (unequal_sizes, "output port 'sender.target' of region 'sender' carries 8 wavelets, .* carries 12"),
    (unequal_edges, "spans 2 PEs, .* spans 1"),
    (swapped, "is not an output port"),
    (connected_twice, "connected to receiver.source already"),
    (wide_stream, "spans 2 PEs, a stream reaches one"),
    (overlap, r"'sender' and 'receiver' overlap at PE \(1, 0\)"),
    (unplaced, "without a place: 'sender', 'receiver'"),
    (unconnected, "'sender.target' of region 'sender' is not connected"),
    (stream_inside_a_region, r"PE \(0, 0\) is not free"),
    (nothing_there, r"no neighbours of PE \(3, 3\) take color 'lost' from it"),
    (port_with_both, "must have output routes and no input routes"),
    (paint_outside, r"PE \(2, 0\) is not in region 'receiver' of 2 by 1 PEs"),
    (one_color_both_ways, "another port of the same color"),
    (wrong_block, "has 16 bytes, the data for one PE 12"),
    (float_block, "float64 data for elements of type u32"),
    (uneven_block, "can't be split over 2 by 1 PEs"),
    (no_file, "no such file"),
    (same_name, "there is a region 'one' already"),
    (missing_param, r"error\(s\) in the CSL code"),
]


@pytest.mark.parametrize(("build", "message"), REFUSALS, ids=[build.__name__ for build, _ in REFUSALS])
def test_what_can_not_be_built_is_refused(build: Callable[[SdkLayout], None], message: str) -> None:
    with pytest.raises(HostError, match=message) as caught:
        build(SdkLayout(SdkTarget.WSE3))
    assert caught.value.remedy


def test_errors_in_the_csl_code_name_the_place(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HostError):
        missing_param(SdkLayout(SdkTarget.WSE3))
    assert "receiver.csl:2:7: error: param 'count' is not bound" in capfd.readouterr().err


def test_warnings_are_not_counted_as_errors(capfd: pytest.CaptureFixture[str]) -> None:
    layout = SdkLayout(SdkTarget.WSE3)
    layout.create_code_region("receiver.csl", "alone", 1, 1).set_param_all("cuont", 4)
    with pytest.raises(HostError, match=r"2 error\(s\) in the CSL code"):
        layout.compile("out")
    told = capfd.readouterr().err
    assert "warning: 'receiver.csl' has no param named 'cuont'" in told
    assert told.count("error:") == 2


def test_misused_streams_are_refused() -> None:
    layout = SdkLayout(SdkTarget.WSE3)
    to_device, to_host = loop_back(layout)
    runtime = run(layout, "wse3")
    words = np.zeros(COUNT, dtype=np.uint32)
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: runtime.send(to_host, words), "is a d2h stream"),
        (lambda: runtime.receive(to_device, words), "is a h2d stream"),
        (lambda: runtime.send("absent", words), "no stream 'absent'"),
        (lambda: runtime.send(to_device, words.astype(np.uint16)), "of 2 bytes"),
        (lambda: runtime.send(to_device, words, COUNT + 1), "5 words with an array of 4"),
        (lambda: runtime.receive(to_host, cast(Any, [0] * COUNT)), "is a list"),
    ]
    for call, message in calls:
        with pytest.raises(HostError, match=message):
            call()
    runtime.send(to_device, words)
    runtime.receive(to_host, words)
    runtime.stop()


def test_a_damaged_layout_file_is_one_clear_error() -> None:
    layout = SdkLayout(SdkTarget.WSE3)
    loop_back(layout)
    layout.compile()
    path = Path("out/bin/layout.json")
    path.write_text(path.read_text(encoding="utf-8").replace('"h2d"', '"up"'), encoding="utf-8")
    with pytest.raises(FabricaError, match="damaged layout file"):
        SdkRuntime("out")
