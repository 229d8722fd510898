"""`<message_passing>`: messages between any two PEs, received with `recv_message` or a data task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.csl_programs import PE_HEAD, Host, compile_files, uniform_layout

from fabrica_bench.compat import cslc
from fabrica_bench.compat.sessions import SimulatorStopped

WIDTH, HEIGHT = 3, 2
PES = WIDTH * HEIGHT

# Every PE sends one message to the PE that lies point-symmetrically, and waits for one.
MIRROR = (
    PE_HEAD
    + """
const position = @import_module("<layout>");
const mp = @import_module("<message_passing>", .{ .input_queue_id = 2, .output_queue_id = 3, .enable_asserts = true });
const WIDTH = 3;
const HEIGHT = 2;
var outgoing = @zeros([32]u32);
var incoming = @zeros([32]u32);
var incoming_ptr: [*]u32 = &incoming;
var outgoing_ptr: [*]u32 = &outgoing;
const received_id = @get_local_task_id(10);
const unblocked_id = @get_local_task_id(11);
task received() void { incoming[31] += 1000; @activate(unblocked_id); }
task unblocked() void { incoming[31] += 1; sys_mod.unblock_cmd_stream(); }
fn main() void {
  mp.init();
  const x = position.get_x_coord();
  const y = position.get_y_coord();
  mp.recv_message(&incoming, .{ .activate = received_id });
  mp.send_message(WIDTH - 1 - x, HEIGHT - 1 - y, &outgoing, 2 + x + 10 * y, .{ .unblock = unblocked_id });
}
fn too_long() void {
  mp.init();
  mp.send_message(0, 0, &outgoing, 33, {});
  sys_mod.unblock_cmd_stream();
}
comptime {
  @bind_local_task(received, received_id);
  @bind_local_task(unblocked, unblocked_id);
  @block(unblocked_id);
  @export_symbol(outgoing_ptr, "outgoing");
  @export_symbol(incoming_ptr, "incoming");
  @export_symbol(main);
  @export_symbol(too_long);
}
"""
)


def mirror(folder: Path, output_queue: int = 3) -> Host:
    layout = uniform_layout(WIDTH, HEIGHT, {"outgoing": "[*]u32", "incoming": "[*]u32"}, ("main", "too_long"))
    code = MIRROR.replace(".output_queue_id = 3", f".output_queue_id = {output_queue}")
    return Host(compile_files(folder, {"layout.csl": layout, "pe.csl": code}, "wse3", (WIDTH, HEIGHT)), (WIDTH, HEIGHT))


@pytest.mark.parametrize("output_queue", [2, 3])
def test_messages_of_any_length_reach_their_pe_whole(
    tmp_path: Path, output_queue: int, capfd: pytest.CaptureFixture[str]
) -> None:
    host = mirror(tmp_path, output_queue)
    assert "warning" not in capfd.readouterr().err
    data = np.arange(1, PES * 32 + 1, dtype=np.uint32).reshape(HEIGHT, WIDTH, 32)
    host.put("outgoing", data)
    host.launch("main")
    got = host.get("incoming", 32, np.uint32)
    host.stop()
    for y in range(HEIGHT):
        for x in range(WIDTH):
            column, row = WIDTH - 1 - x, HEIGHT - 1 - y
            length = 2 + column + 10 * row
            assert got[y, x, :length].tolist() == data[row, column, :length].tolist()
            assert not got[y, x, length:31].any()
            assert got[y, x, 31] == 1001, "both the reception and the end of sending were reported"


def test_a_message_that_is_too_long_fails_the_library_s_assertion(tmp_path: Path) -> None:
    host = mirror(tmp_path)
    with pytest.raises(SimulatorStopped, match="assert"):
        host.launch("too_long")


# PE 0 of a row collects one message from each other PE with a data task, in the order in which they come.
COLLECT = (
    PE_HEAD
    + """
const position = @import_module("<layout>");
const mp = @import_module("<message_passing>", .{ .input_queue_id = 4, .output_queue_id = 4 });
var seen = @zeros([16]u32);
var seen_ptr: [*]u32 = &seen;
var count: u16 = 0;
var words = [3]u32{ 0, 0, 0 };
const take_id = @get_data_task_id(mp.mp_input_queue);
task take(word: u32) void {
  seen[count] = word;
  count += 1;
  if (count == 6) { sys_mod.unblock_cmd_stream(); }
}
fn main() void {
  mp.init();
  const x = position.get_x_coord();
  if (x > 0) {
    words[0] = 100 * @as(u32, x);
    words[1] = 100 * @as(u32, x) + 1;
    words[2] = 31 << 16;  // padding; as a control wavelet it starts no task
    mp.send_message(0, 0, &words, 3, {});
    sys_mod.unblock_cmd_stream();
  }
}
comptime {
  @bind_data_task(take, take_id);
  @export_symbol(seen_ptr, "seen");
  @export_symbol(main);
}
"""
)


def test_a_data_task_gets_header_and_all_words_but_the_last_and_messages_do_not_mix(tmp_path: Path) -> None:
    files = {"layout.csl": uniform_layout(3, 1, {"seen": "[*]u32"}), "pe.csl": COLLECT}
    host = Host(compile_files(tmp_path, files, "wse3", (3, 1)), (3, 1))
    host.launch("main")
    seen = host.get("seen", 16, np.uint32)[0, 0]
    host.stop()
    messages = {tuple(seen[k + 1 : k + 3].tolist()) for k in (0, 3)}
    assert messages == {(100, 101), (200, 201)}
    assert [int(seen[k]) & 0x3F for k in (0, 3)] == [3, 3]
    assert not seen[6:].any()


def test_the_library_is_refused_on_wse2(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = {"layout.csl": uniform_layout(3, 1, {"seen": "[*]u32"}), "pe.csl": COLLECT}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    flags = ["--arch=wse2", "--fabric-dims=10,3", "--fabric-offsets=4,1", "--memcpy", "-o", str(tmp_path / "out")]
    assert cslc.main([str(tmp_path / "layout.csl"), *flags]) == 1
    assert "<message_passing> needs WSE-3" in capfd.readouterr().err


def test_an_empty_struct_is_no_ending_of_a_message(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    layout = uniform_layout(3, 1, {"seen": "[*]u32"})
    files = {"layout.csl": layout, "pe.csl": COLLECT.replace("&words, 3, {}", "&words, 3, .{}")}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    flags = ["--arch=wse3", "--fabric-dims=10,3", "--fabric-offsets=4,1", "--memcpy", "-o", str(tmp_path / "out")]
    assert cslc.main([str(tmp_path / "layout.csl"), *flags]) == 1
    text = capfd.readouterr().err
    assert "what follows a message is .{ .activate = id }, .{ .unblock = id } or {}" in text
    assert text.count("error:") == 1
    assert "pe.csl" in text


# Two PEs swap half-precision and 16-bit integer buffers; what lies behind the received elements must stay as it was.
HALVES = (
    PE_HEAD
    + """
const position = @import_module("<layout>");
const mp = @import_module("<message_passing>", .{ .input_queue_id = 2, .output_queue_id = 3, .enable_asserts = true });
const integers_id = @get_local_task_id(10);
const floats_id = @get_local_task_id(11);
var box = [8]i16{ 1, -2, 3, -4, 5, -6, 7, -8 };
var got = @constants([8]i16, 99);
var floats = [4]f16{ 0.5, -1.5, 2.5, 6.0 };
var got_floats = @constants([4]f16, 9.0);
var one: i16 = 77;
var box_ptr: [*]i16 = &box;
var got_ptr: [*]i16 = &got;
var floats_ptr: [*]f16 = &floats;
var got_floats_ptr: [*]f16 = &got_floats;
fn main() void {
  const other = 1 - position.get_x_coord();
  box[0] += @as(i16, other) * 10;
  mp.recv_message(&got, .{ .activate = integers_id });
  mp.send_message(other, 0, &box, 5, {});
}
task integers() void {
  const other = 1 - position.get_x_coord();
  mp.recv_message(got_floats_ptr, .{ .activate = floats_id });
  mp.send_message(other, 0, floats_ptr, 3, {});
}
task floats_came() void { sys_mod.unblock_cmd_stream(); }
comptime {
  mp.init();
  @bind_local_task(integers, integers_id);
  @bind_local_task(floats_came, floats_id);
  @export_symbol(got_ptr, "got");
  @export_symbol(got_floats_ptr, "got_floats");
  @export_symbol(main);
}
"""
)


def halves(folder: Path, code: str = HALVES) -> Path:
    layout = uniform_layout(2, 1, {"got": "[*]i16", "got_floats": "[*]f16"})
    return compile_files(folder, {"layout.csl": layout, "pe.csl": code}, "wse3", (2, 1))


def test_buffers_of_16_bit_elements_travel_an_element_per_word_and_the_library_may_be_initialised_at_comptime(
    tmp_path: Path,
) -> None:
    host = Host(halves(tmp_path), (2, 1))
    host.launch("main")
    got, floats = host.get("got", 8, np.int16), host.get("got_floats", 4, np.float16)
    host.stop()
    assert got[0].tolist() == [[1, -2, 3, -4, 5, 99, 99, 99], [11, -2, 3, -4, 5, 99, 99, 99]]
    assert floats[0].tolist() == [[0.5, -1.5, 2.5, 9.0]] * 2


def test_a_buffer_of_bytes_is_refused_where_the_program_calls(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = HALVES.replace("var box = [8]i16{ 1, -2, 3, -4, 5, -6, 7, -8 }", "var box = @constants([8]u8, 1)")
    wrong = wrong.replace("box[0] += @as(i16, other) * 10;", "").replace("var box_ptr: [*]i16 = &box;", "")
    with pytest.raises(AssertionError):
        halves(tmp_path, wrong)
    text = capfd.readouterr().err
    assert "a buffer holds numbers of 16 or 32 bits" in text
    assert "in the call of 'send_message' here" in text
    assert "pe.csl" in text
