"""Checks of whole programs: queues without a color, activations without a task, routes that lead nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_eval import HEAD, compile_body, compile_text, errors_of

from fabrica_bench.csl.diagnostics import CslError

BODY = """
const c = @get_color(3);
const out = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c, .output_queue = @get_output_queue(2) });
fn main() void { @mov32(out, 1, .{ .async = true, .activate = @get_local_task_id(9) }); }
"""


LOOPBACK = """
comptime {
  @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });
  if (@is_arch("wse3")) { @initialize_queue(@get_output_queue(2), .{ .color = c }); }
}
"""


def messages(tmp_path: Path, body: str, arch: str) -> list[str]:
    return [warning.message for warning in compile_body(tmp_path, body, arch=arch).warnings]


def test_a_queue_without_color_is_refused_where_queues_carry_colors(tmp_path: Path) -> None:
    assert errors_of(tmp_path, BODY, arch="wse3") == ["output queue 2 is used but never initialized"]
    compile_body(tmp_path, BODY + LOOPBACK, arch="wse2")


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_a_task_id_without_task_is_noticed(tmp_path: Path, arch: str) -> None:
    assert messages(tmp_path, BODY + LOOPBACK, arch) == ["local task id 9 is activated, but no task is bound to it"]


@pytest.mark.parametrize(
    ("arch", "body", "remedy"),
    [
        (
            "wse2",
            "comptime { @initialize_queue(@get_input_queue(0), .{ .color = @get_color(2) }); }",
            "use another number than 0",
        ),
        (
            "wse3",
            "comptime { @initialize_queue(@get_input_queue(1), .{ .color = @get_color(2) }); }",
            "use another number than 0, 1",
        ),
        ("wse3", "task t() void {} comptime { @bind_local_task(t, @get_local_task_id(28)); }", "than 27, 28, 30"),
        (
            "wse3",
            "const kept = @get_color(22);\n"
            "comptime { @set_local_color_config(kept, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } }); }",
            "than 21, 22, 23",
        ),
    ],
)
def test_the_remedy_for_a_reserved_number_names_those_that_are_taken(
    tmp_path: Path, arch: str, body: str, remedy: str
) -> None:
    with pytest.raises(CslError, match="is reserved for the host I/O layer") as problem:
        compile_body(tmp_path, body, arch=arch)
    assert (problem.value.diagnostics[0].hint or "").endswith(remedy)


def test_what_another_pe_with_the_same_source_has_is_not_missing(tmp_path: Path) -> None:
    layout = """
    layout {
      @set_rectangle(2, 1);
      for (@range(u16, 2)) |x| { @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = .{}, .first = x == 0 }); }
      @set_color_config(0, 0, @get_color(3), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });
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


@pytest.mark.parametrize(
    ("format_", "value", "largest"),
    # numpy.finfo(...).max; cb16 has no NumPy type: (2 - 2**-9) * 2**(62 - 42) by its documented field widths
    [("f16", "1e6", 65504.0), ("f32", "1e39", 3.4028234663852886e38), ("cb16", "1e7", 2095104.0)],
)
@pytest.mark.parametrize(
    "form", ["const h: {0} = {1}; comptime {{ @comptime_assert(h > 0.0); }}", "const h = @as({0}, {1});"]
)
def test_a_float_that_becomes_infinite_is_noticed(
    tmp_path: Path, format_: str, value: str, largest: float, form: str
) -> None:
    body = form.format(format_, value) + " var y: u16 = 0; fn main() void { if (h > 0.0) { y = 1; } }"
    warnings = compile_body(tmp_path, body, arch="wse3", fp16=format_ if format_ != "f32" else "f16").warnings
    expected = f"value {float(value)} does not fit in type '{format_}': it becomes infinity"
    assert [(item.message, item.hint) for item in warnings] == [(expected, f"the largest finite value is {largest}")]
