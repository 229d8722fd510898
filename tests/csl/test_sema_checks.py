"""Warnings about programs that would wait for ever."""

from __future__ import annotations

from pathlib import Path

from helpers.csl_eval import HEAD, compile_body, compile_text, errors_of

BODY = """
const c = @get_color(3);
const out = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c, .output_queue = @get_output_queue(2) });
fn main() void { @mov32(out, 1, .{ .async = true, .activate = @get_local_task_id(9) }); }
"""


def test_a_queue_without_color_and_a_task_id_without_task_are_noticed(tmp_path: Path) -> None:
    messages = [warning.message for warning in compile_body(tmp_path, BODY, arch="wse3").warnings]
    assert messages == [
        "output queue 2 is used but never initialized",
        "local task id 9 is activated, but no task is bound to it",
    ]
    assert [warning.message for warning in compile_body(tmp_path, BODY, arch="wse2").warnings] == messages[1:]


def test_what_another_pe_with_the_same_source_has_is_not_missing(tmp_path: Path) -> None:
    layout = """
    layout {
      @set_rectangle(2, 1);
      for (@range(u16, 2)) |x| { @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = .{}, .first = x == 0 }); }
      @export_name("main", fn()void);
    }
    """
    body = """
    param first: bool;
    task t() void {}
    comptime {
      if (first) {
        @initialize_queue(@get_output_queue(2), .{ .color = c });
        @bind_local_task(t, @get_local_task_id(9));
      }
      @export_symbol(main);
    }
    """
    assert compile_text(tmp_path, HEAD + BODY + body, layout=layout, arch="wse3").warnings == []


def test_an_asynchronous_operation_needs_a_queue(tmp_path: Path) -> None:
    body = """
    var x: f32;
    const in = @get_dsd(fabin_dsd, .{ .extent = 1, .fabric_color = @get_color(3) });
    fn main() void { @fmovs(&x, in); @fmovs(&x, in, .{ .async = true }); }
    """
    assert errors_of(tmp_path, body) == ["an asynchronous operation needs the 'input_queue' of its fabin_dsd"]
