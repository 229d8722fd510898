"""Task ids, binding, activation, blocking, exports, configuration registers."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_eval import ONE_PE, compile_body, compile_text, errors_of, layout_errors, run_body

from fabrica_bench.csl import ir
from fabrica_bench.csl.diagnostics import CslError


def test_bound_tasks_activations_and_blocks_are_in_the_image(tmp_path: Path) -> None:
    body = """
    const c = @get_color(3);
    const first_id = @get_local_task_id(9);
    const second_id = @get_local_task_id(10);
    task got(x: f32) void {}
    task first() void { @activate(second_id); }
    task second() void {}
    task control(x: u16) void {}
    fn bind(t: task () void, id: local_task_id) void { @bind_local_task(t, id); @activate(id); }
    comptime {
      @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });
      @bind_data_task(got, @get_data_task_id(c));
      bind(first, first_id);
      @bind_local_task(second, second_id);
      @bind_control_task(control, @get_control_task_id(40));
      @block(second_id);
      @unblock(c);
    }
    """
    image = compile_body(tmp_path, body).program.images[0]
    assert image.tasks == [
        ir.TaskBinding("data", 3, "got"),
        ir.TaskBinding("local", 9, "first"),
        ir.TaskBinding("local", 10, "second"),
        ir.TaskBinding("control", 40, "control"),
    ]
    assert image.activated == [9]
    assert image.blocked == [("task", 10)]
    assert image.unblocked == [("color", 3)]


def test_handlers_tables_and_rotating_tasks(tmp_path: Path) -> None:
    body = """
    const c = @get_color(3);
    const iq = @get_input_queue(2);
    task main_task(x: u32) void {}
    task other(x: u32) void {}
    fn on_teardown() void {}
    fn on_empty() void {}
    comptime {
      @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });
      @initialize_queue(iq, .{ .color = c, .ctrl_table_id = 1 });
      @set_teardown_handler(on_teardown, c);
      @set_empty_queue_handler(on_empty, iq);
      @set_control_task_table(.{ .instructions = 2, .stride = 3 });
      @bind_rotating_tasks(main_task, other, @get_data_task_id(iq), .{ .limit = 10 });
      @set_config(0x7e00, 5);
      @comptime_assert(@get_config(0x7e00) == 5);
    }
    """
    image = compile_body(tmp_path, body, arch="wse3").program.images[0]
    assert image.teardown_handlers == {3: "on_teardown"}
    assert image.empty_queue_handlers == [("input", 2, "on_empty")]
    assert image.control_table == (2, 3)
    assert image.rotating_tasks == [("main_task", "other", 2, 10, 0)]
    assert image.queues == [ir.QueueInit("input", 2, 3, "", 1)]
    assert image.config_words == {0x7E00: 5}


COMPTIME = "comptime {{ {} }}"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "@bind_local_task(t, @get_local_task_id(9)); @bind_local_task(u, @get_local_task_id(9));",
            "local task 'u' is bound to id 9, which task 't' has already",
        ),
        (
            "@bind_local_task(t, @get_local_task_id(3)); @bind_data_task(d, @get_data_task_id(@get_color(3)));",
            "data task 'd' is bound to id 3, which task 't' has already",
        ),
        ("@bind_local_task(d, @get_local_task_id(9));", "local task 'd' can't have parameters"),
        ("@bind_data_task(t, @get_data_task_id(@get_color(3)));", "data task 't' needs at least one parameter"),
        (
            "@bind_data_task(wide, @get_data_task_id(@get_color(3)));",
            "the parameters of task 'wide' take 64 bits, a wavelet carries 32",
        ),
        ("@bind_data_task(byte, @get_data_task_id(@get_color(3)));", "task 'byte' can't have a parameter of type 'u8'"),
        ("@bind_local_task(f, @get_local_task_id(9));", "expected a task, got: 'fn() void'"),
        ("@bind_local_task(t, @get_color(9));", "expected type 'local_task_id', got: 'color'"),
        ("@get_data_task_id(@get_input_queue(2));", "@get_data_task_id takes a 'color' on wse2, got: 'input_queue'"),
        ("@activate(@get_color(2));", "expected type 'local_task_id', got: 'color'"),
        ("@block(@get_input_queue(2));", "@block takes local_task_id, data_task_id, color on wse2, got: 'input_queue'"),
        ("@get_ut_id(1);", "'ut_id' does not exist on wse2"),
        ("@set_control_task_table();", "@set_control_task_table is not available on wse2"),
        ("@get_output_queue(6);", "output_queue 6 does not exist on wse2: legal numbers are 0 to 5"),
        ("@initialize_queue(@get_input_queue(2));", "input queue 2 needs a color"),
        ("@initialize_queue(@get_output_queue(2), .{ .color = @get_color(1) });", "unknown"),
        ("@set_teardown_handler(t, @get_color(2));", "expected a function of type 'fn() void', got: 'task() void'"),
        ("@export_symbol(t);", "task 't' can't be exported"),
        ('@export_symbol(3, "x");', "expected a global variable or a function"),
        ("@get_config(0x7e00);", "config register 0x7e00 has no value that is known at comptime"),
        ("@rpc(@get_data_task_id(@get_color(3)));", "@rpc is not supported"),
        (
            "@set_rectangle(1, 1);",
            "@set_rectangle is not allowed in a top-level comptime block of PE code; use it in the layout block",
        ),
    ],
)
def test_wrong_bindings_are_refused(tmp_path: Path, statement: str, message: str) -> None:
    body = """
    task t() void {}
    task u() void {}
    task d(x: f32) void {}
    task wide(x: f32, y: f32) void {}
    task byte(x: u8) void {}
    fn f() void {}
    """
    found = errors_of(tmp_path, body + COMPTIME.format(statement))
    if message == "unknown":
        message = "an output queue takes no configuration on wse2"
    assert found == [message]


def test_a_refused_dispatcher_says_what_to_do_instead(tmp_path: Path) -> None:
    with pytest.raises(CslError) as raised:
        compile_body(tmp_path, COMPTIME.format("@rpc(@get_data_task_id(@get_color(3)));"), arch="wse2")
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.hint is not None
    assert "bind a data task" in diagnostic.hint
    assert "isn't documented" in diagnostic.hint


def test_a_task_that_is_activated_must_be_bound(tmp_path: Path) -> None:
    body = """
    const queue = @get_output_queue(2);
    const out = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = @get_color(1), .output_queue = queue });
    task t() void {}
    fn main() void { @mov32(out, 1, .{ .async = true, .activate = t }); }
    """
    assert errors_of(tmp_path, body) == ["task 't' is activated or unblocked, but not bound to an id"]


def test_task_builtins_are_for_pe_code(tmp_path: Path) -> None:
    layout = "layout { @set_rectangle(1, 1); @activate(@get_local_task_id(9)); }"
    (message,) = layout_errors(tmp_path, layout)
    assert message.startswith("@activate is not allowed in the layout block")


def test_exports_must_agree_with_the_layout(tmp_path: Path) -> None:
    pe = "param memcpy_params; var a = @zeros([4]f32); const p: [*]f32 = &a; comptime {{ @export_symbol({}); }}"

    def check(export: str, names: str) -> list[str]:
        layout = ONE_PE.replace('@export_name("main", fn()void);', names)
        return layout_errors(tmp_path, layout, pe.format(export))

    assert check("p", "") == ["symbol 'p' has no @export_name in the layout"]
    assert check('p, "x"', '@export_name("x", [*]i32, true);') == ["symbol 'x': expected type '[*]i32', got: '[*]f32'"]
    assert check("p", '@export_name("p", [*]f32, true);') == [
        "symbol 'p' is a constant, but the layout exports it as mutable"
    ]
    layout = ONE_PE.replace('@export_name("main", fn()void);', '@export_name("p", [*]f32, false);')
    image = compile_text(tmp_path, pe.format("p"), layout=layout).program.images[0]
    assert image.exports["p"] == ir.ExportedSymbol("p", "var", "p", "[*]f32")
    pointer = image.globals["p"]
    assert pointer.init == image.globals["a"].address.to_bytes(2, "little")


def test_exported_functions_list_their_argument_types(tmp_path: Path) -> None:
    layout = ONE_PE.replace('@export_name("main", fn()void);', '@export_name("f", fn(f32, i16)void);')
    pe = "param memcpy_params; fn f(x: f32, n: i16) void {} comptime { @export_symbol(f); }"
    program = compile_text(tmp_path, pe, layout=layout).program
    assert program.exports == [ir.ExportName(0, "f", "fn", "void", False, ("f32", "i16"))]
    assert program.images[0].exports["f"].params == (ir.F32, ir.I16)


def test_extern_and_export_are_one_symbol(tmp_path: Path) -> None:
    body = """
    const m = @import_module("m.csl");
    extern var shared: i16;
    extern fn helper(i16) i16;
    export var result: i16 = 0;
    fn main() void { shared += 1; result = helper(shared); done(); }
    """
    files = {"m.csl": "export var shared: i16 = 4;\nexport fn helper(x: i16) i16 { return x * 10; }\n"}
    assert run_body(tmp_path, body, files=files).value("result", "<i2") == 50
    undefined = "extern var nowhere: i16; fn main() void { nowhere = 1; }"
    assert errors_of(tmp_path, undefined) == ["undefined symbol 'nowhere': no module exports this variable"]
