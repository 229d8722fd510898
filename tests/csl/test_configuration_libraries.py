"""<tile_config> and <dsd_ops>: every function compiles on both architectures, and the visible effects are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.csl_eval import compile_body, errors_of
from helpers.csl_programs import ARCHES, PE_HEAD, Host, compile_files, uniform_layout

from fabrica_bench.compat import cslc
from fabrica_bench.wse.machine import Machine

DSD_OPS = (
    PE_HEAD
    + """
const ops = @import_module("<dsd_ops>");
var a = [4]f32{ 1.0, -2.0, 3.0, -4.0 };
var b = @zeros([4]f32);
var h = @zeros([4]f16);
var i = [4]i16{ 1, 2, 3, 4 };
var b_ptr: [*]f32 = &b;
var i_ptr: [*]i16 = &i;
const a_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> a[k] });
const b_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> b[k] });
const h_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> h[k] });
const i_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> i[k] });
fn main() void {
  ops.mov(f32, b_dsd, a_dsd, .{});            // a
  ops.mul(f32, b_dsd, b_dsd, a_dsd, .{});     // a*a
  ops.add(f32, f32, b_dsd, b_dsd, a_dsd, .{});
  ops.fmac(f32, f32, b_dsd, b_dsd, a_dsd, 2.0, .{});
  ops.sub(f32, b_dsd, b_dsd, a_dsd, .{});     // a*a + 2a
  ops.neg(f32, b_dsd, b_dsd, .{});
  ops.abs(f32, b_dsd, b_dsd, .{});
  ops.max(f32, b_dsd, b_dsd, a_dsd, .{});
  ops.convert(f16, f32, h_dsd, b_dsd, .{});
  ops.convert(f32, f16, b_dsd, h_dsd, .{});
  ops.add(i16, i16, i_dsd, i_dsd, i_dsd, .{});
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(b_ptr, "b"); @export_symbol(i_ptr, "i"); @export_symbol(main); }
"""
)


@pytest.mark.parametrize("arch", ARCHES)
def test_typed_dsd_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"layout.csl": uniform_layout(1, 1, {"b": "[*]f32", "i": "[*]i16"}), "pe.csl": DSD_OPS}
    host = Host(compile_files(tmp_path, files, arch, (1, 1)), (1, 1))
    host.launch()
    assert host.get("b", 4).ravel().tolist() == [3, 0, 15, 8]
    assert host.get("i", 4, np.int16).ravel().tolist() == [2, 4, 6, 8]
    host.stop()


CONFIGURATION = (
    PE_HEAD
    + """
const config = @import_module("<tile_config>");
const colors = config.color_config;
const switches = config.switch_config;
const c: color = @get_color(4);
const iq = @get_input_queue(3);
const oq = @get_output_queue(3);
var seen = @zeros([4]u16);
var seen_ptr: [*]u16 = &seen;
fn main() void {
  const address = colors.get_color_config_addr(c);
  colors.reset_routes(address, .{ .rx = WEST, .tx = [2]direction{ EAST, RAMP } });
  colors.set_io_direction(c, colors.fabric_io.TX_NORTH);
  colors.toggle_io_direction(c, colors.fabric_io.TX_EAST);
  colors.clear_io_direction(c, colors.fabric_io.RX_WEST);
  switches.clear_current_position(c);
  switches.set_invalid_for_all_switch_positions(address);
  switches.set_ring_mode(c, true);
  switches.set_pop_mode(c, switches.pop_mode.POP_ON_ADVANCE);
  switches.set_rx_switch_pos1(c, RAMP);
  switches.set_tx_switch_pos2(c, EAST);
  switches.set_switch_pos(switches.switch_pos.POS3, c, WEST, switches.switch_select.INPUT);
  switches.set_current_switch_position(c, 1);
  seen[0] = config.get_fabric_coord(config.fabric_coord.X);
  const pending = config.teardown.get_pending();
  if (!config.teardown.is_pending(pending, c)) { seen[1] = 1; }
  config.teardown.exit(c);
  config.control_transform.set_mask(3);
  config.task_priority.update_task_priority(@get_local_task_id(9), config.task_priority.level.HIGH);
  config.main_thread_priority.update_main_thread_priority(config.main_thread_priority.level.HIGH);
  const status = config.input_queue_status.get();
  if (config.input_queue_status.is_empty(status, iq)) { seen[2] = 1; }
  if (!config.output_queue_status.is_full(config.output_queue_status.get(), oq)) { seen[3] = 1; }
  sys_mod.unblock_cmd_stream();
}
comptime {
  @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } }, .teardown = true });
  @initialize_queue(iq, .{ .color = c });
  if (@is_arch("wse3")) { @initialize_queue(oq, .{ .color = c }); }
  @export_symbol(seen_ptr, "seen");
  @export_symbol(main);
}
"""
)


@pytest.mark.parametrize("arch", ARCHES)
def test_configuration_at_run_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"layout.csl": uniform_layout(2, 1, {"seen": "[*]u16"}), "pe.csl": CONFIGURATION}
    host = Host(compile_files(tmp_path, files, arch, (2, 1)), (2, 1))
    host.launch()
    assert host.get("seen", 4, np.uint16)[0].tolist() == [[0, 1, 1, 1], [1, 1, 1, 1]]
    host.stop()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("", None),
        ("config.exceptions.set_exception_mask(0);", "not supported: exceptions can't be unmasked"),
        ("config.filters.set_state(0, config.filters.counter_filter_state.DROP);", "not supported: how WSE-3 filters"),
        ("config.filters.set_pass_count(0, 4);", "not supported: how WSE-3 filters count"),
        ("const a = config.addresses.TIMESTAMP_COUNTER;", "not_supported_because_the_map_of_the_registers"),
        ("time.get_perf_cntr(&stamp, 1);", "get_perf_cntr is not supported"),
    ],
)
def test_what_is_missing_says_so_at_compile_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], use: str, message: str | None
) -> None:
    body = f"""
const config = @import_module("<tile_config>");
const time = @import_module("<time>");
var stamp = @zeros([3]u16);
fn main() void {{ {use} sys_mod.unblock_cmd_stream(); }}
comptime {{ @export_symbol(main); }}
"""
    (tmp_path / "layout.csl").write_text(uniform_layout(1, 1, {}), encoding="utf-8")
    (tmp_path / "pe.csl").write_text(PE_HEAD + body, encoding="utf-8")
    flags = ["--fabric-dims=8,3", "--fabric-offsets=4,1", "--memcpy", "-o", str(tmp_path / "out")]
    status = cslc.main([str(tmp_path / "layout.csl"), *flags])
    errors = capsys.readouterr().err
    assert status == (0 if message is None else 1), errors
    assert (message or "") in errors
    assert message is None or "pe.csl:" in errors, "the place in the program is named"


SETTINGS = """
const config = @import_module("<tile_config>");
const layout_library = @import_module("<layout>");
fn main() void { sys_mod.unblock_cmd_stream(); }
"""


def test_settings_at_comptime_are_part_of_the_program(tmp_path: Path) -> None:
    block = """comptime {
      config.control_transform.set_mask(3);
      config.task_priority.set_task_priority(@get_local_task_id(9));
      config.main_thread_priority.update_main_thread_priority(config.main_thread_priority.level.MEDIUM_HIGH);
    }"""
    program = compile_body(tmp_path, SETTINGS + block).program
    (image,) = program.images
    assert image.settings == [("control_transform_mask", (3,)), ("task_priority", (9, 1)), ("main_priority", (2,))]
    pe = Machine(program).pe(0, 0)
    assert pe.transform_mask == 3
    assert pe.tasks.high == 1 << 9


def test_what_only_a_running_pe_knows_is_refused_at_comptime(tmp_path: Path) -> None:
    block = "comptime { @comptime_assert(layout_library.get_x_coord() == 0); }"
    assert errors_of(tmp_path, SETTINGS + block) == ["this is only possible at run time"]
