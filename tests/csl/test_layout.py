"""The layout block: rectangle, code, routes, names, and which PEs share an image."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from helpers.csl_eval import compile_text, layout_errors

from fabrica_bench.csl import ir
from fabrica_bench.csl.diagnostics import CslError, Diagnostic

PE = "param n: i16 = 0; param memcpy_params = {};\n"


def test_equal_code_and_params_share_an_image(tmp_path: Path) -> None:
    layout = """
    layout {
      @set_rectangle(4, 2);
      for (@range(u16, 4)) |x| {
        for (@range(u16, 2)) |y| {
          if (x == 0) { @set_tile_code(x, y, "edge.csl"); }
          else { @set_tile_code(x, y, "pe.csl", .{ .n = @as(i16, x % 2) }); }
        }
      }
    }
    """
    program = compile_text(tmp_path, PE, layout=layout, files={"edge.csl": ""}).program
    assert (program.width, program.height) == (4, 2)
    assert program.tiles == [[0, 1, 2, 1], [0, 1, 2, 1]]
    assert len(program.images) == 3


def test_color_configurations_are_converted_and_merged_with_local_ones(tmp_path: Path) -> None:
    layout = """
    const c = @get_color(1);
    fn routes(from: direction) comptime_struct { return .{ .rx = .{ from }, .tx = .{ RAMP, EAST } }; }
    layout {
      @set_rectangle(1, 1);
      @set_tile_code(0, 0, "pe.csl");
      @set_color_config(0, 0, c, .{
        .routes = routes(WEST),
        .switches = .{ .pos1 = .{ .tx = SOUTH }, .pos2 = .{ .rx = RAMP }, .pos3 = .{ .invalid = true },
                       .current_switch_pos = 1, .ring_mode = true, .pop_mode = .{ .pop_on_advance = true } },
        .filter = .{ .kind = .{ .range = true }, .min_idx = 2, .max_idx = 5 },
        .teardown = true,
      });
    }
    """
    local = """
    const routes = .{ .rx = RAMP, .tx = [2]direction{ RAMP, SOUTH } };
    comptime {
      @set_local_color_config(@get_color(2), .{ .routes = routes });
      @comptime_assert(@get_filter_id(@get_color(1)) == 0);
      @comptime_assert(@get_rectangle().width == 1 and @get_rectangle().offsets.width == 4);
    }
    """
    program = compile_text(tmp_path, PE + local, layout=layout).program
    first, second = program.colors[0][0][1], program.colors[0][0][2]
    assert (first.rx, first.tx) == (ir.WEST, ir.RAMP | ir.EAST)
    assert first.positions == (
        ir.SwitchPosition(tx=ir.SOUTH),
        ir.SwitchPosition(rx=ir.RAMP),
        ir.SwitchPosition(invalid=True),
    )
    assert (first.current, first.ring_mode, first.pop_mode, first.teardown) == (1, True, "pop_on_advance", True)
    assert first.filter == ir.FilterConfig("range", min_idx=2, max_idx=5)
    assert second == ir.ColorConfig(rx=ir.RAMP, tx=ir.RAMP | ir.SOUTH)


def test_params_colors_and_stream_colors(tmp_path: Path) -> None:
    layout = """
    color data;
    param IN_ID: i16;
    param depth: u16 = 7;
    const in = @get_color(IN_ID);
    const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1, .MEMCPYH2D_1 = in,
                                                           .MEMCPYD2H_1 = data });
    layout {
      @set_rectangle(1, 1);
      @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0), .unused = 1 });
    }
    """
    output = compile_text(tmp_path, PE, layout=layout, params={"IN_ID": 4, "typo": 1}, colors={"data": 5})
    assert output.program.stream_colors == {4: "h2d", 5: "d2h"}
    assert output.program.params == {"IN_ID": "4", "depth": "7"}
    assert sorted(warning.message.split("' has ")[1] for warning in output.warnings) == [
        "no param named 'typo' (given on the command line)",
        "no param named 'unused'",
    ]


def test_a_misspelt_param_is_warned_of_with_the_name_that_was_meant(tmp_path: Path) -> None:
    layout = """
    param depth: u16 = 7;
    const other = @import_module("other.csl", .{ .lenght = 3 });
    layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", .{ .sise = 1 }); }
    """
    (tmp_path / "other.csl").write_text("param length: i16 = 2;\nparam width: i16 = 2;\n", encoding="utf-8")
    pe = "param size: i16 = 4;\n"
    output = compile_text(tmp_path, pe, layout=layout, params={"dept": 4, "xyz": 1})
    assert {warning.message.split("named ")[1]: warning.hint for warning in output.warnings} == {
        "'dept' (given on the command line)": "did you mean 'depth'?",
        "'xyz' (given on the command line)": None,
        "'lenght'": "did you mean 'length'?",
        "'sise'": "did you mean 'size'?",
    }


def test_a_file_can_be_layout_and_code_at_once(tmp_path: Path) -> None:
    layout = """
    param x: i16 = 0;
    task t() void {}
    comptime { @bind_local_task(t, @get_local_task_id(9)); }
    layout { @set_rectangle(2, 1); @set_tile_code(0, 0); @set_tile_code(1, 0, "layout.csl", .{ .x = 1 }); }
    """
    program = compile_text(tmp_path, layout=layout).program
    assert [image.tasks for image in program.images] == [[ir.TaskBinding("local", 9, "t")]] * 2


SET = 'layout {{ @set_rectangle(2, 1); @set_tile_code(0, 0, "pe.csl"); @set_tile_code(1, 0, "pe.csl"); {} }}'
ROUTE = "@set_color_config(0, 0, @get_color(1), {});"


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("const a = 1;", "'layout.csl' has no layout block"),
        ("layout { }", "the layout block does not call @set_rectangle"),
        ("layout { @set_rectangle(0, 1); }", "the rectangle must be at least 1 PE wide and high, got 0"),
        ("layout { @set_rectangle(1, 1); @set_rectangle(1, 1); }", "@set_rectangle may be called only once"),
        ('layout { @set_tile_code(0, 0, "pe.csl"); }', "the rectangle is not set yet"),
        (
            'layout { @set_rectangle(1, 1); @set_tile_code(1, 0, "pe.csl"); }',
            "PE (1, 0) is outside of the 1x1 rectangle",
        ),
        (
            'layout { @set_rectangle(3, 2); @set_tile_code(0, 0, "pe.csl"); }',
            "5 PE(s) have no code, the first is (1, 0)",
        ),
        (
            'layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl"); @set_tile_code(0, 0, "pe.csl"); }',
            "PE (0, 0) already has code",
        ),
        (
            'layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "absent.csl"); }',
            "unable to open 'absent.csl': no such file",
        ),
        (
            'const m = @import_module("<absent>"); layout { @set_rectangle(1, 1); }',
            "unable to open module '<absent>': no such library",
        ),
        (SET.format(ROUTE.format(".{ .routes = .{ .rx = RAMP } }") * 2), "color 1 of PE (0, 0) is configured twice"),
        (SET.format(ROUTE.format(".{}")), "the color configuration has no field 'routes'"),
        (SET.format(ROUTE.format(".{ .routes = .{ .rx = .{ RAMP, RAMP } } }")), "'rx' names a direction twice"),
        (
            SET.format(ROUTE.format(".{ .routes = .{ .rx = 1 } }")),
            "'rx' must be a direction or a tuple of directions, got: 'comptime_int'",
        ),
        (SET.format(ROUTE.format(".{ .route = .{} }")), "unknown field 'route' in the color configuration"),
        (
            SET.format(ROUTE.format(".{ .routes = .{}, .switches = .{ .pos1 = .{ .rx = RAMP, .tx = EAST } } }")),
            "'pos1' must give exactly one of 'rx', 'tx' and 'invalid'",
        ),
        (SET.format(ROUTE.format(".{ .routes = .{}, .filter = .{ .min_idx = 2 } }")), "the filter has no field 'kind'"),
        (SET.format('@export_name("a", [*]f32);'), "the export of 'a' must say whether the host may write it"),
        (SET.format('@export_name("a", [4]f32, true);'), "cannot export name with type '[4]f32'"),
        (
            SET.format('@export_name("a", [*]f32, true); @export_name("a", [*]f32, true);'),
            "the name 'a' is exported twice",
        ),
        ("param n: u8; layout { @set_rectangle(n, 1); }", "value 300 does not fit in type 'u8'"),
        ("param m: u16; layout { @set_rectangle(m, 1); }", "param 'm' is not bound to a value"),
        ("layout { } layout { }", "a file has at most one layout block"),
        ("layout { @set_rectangle(1, 1); var x: i16 = 1.5; }", "expected type 'i16', got: 'comptime_float'"),
    ],
)
def test_wrong_layouts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert layout_errors(tmp_path, layout, PE, params={"n": 300})[0] == message


def test_an_unbound_param_says_where_its_value_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def diagnostic(layout: str, pe: str = PE) -> Diagnostic:
        with pytest.raises(CslError) as caught:
            compile_text(tmp_path, pe, layout=layout)
        return caught.value.diagnostics[0]

    number = diagnostic("param m: u16; layout { @set_rectangle(m, 1); }")
    assert number.hint == "give it on the command line: --params=m:NUMBER"
    link = diagnostic("param link: color; layout { @set_rectangle(@get_int(link), 1); }")
    assert link.hint == "give it on the command line: --colors=link:NUMBER"
    inner = diagnostic(SET.format(""), "param n: u16; comptime { @comptime_assert(n > 0); }")
    assert inner.hint == "bind it where the module is used"
    ((text, span),) = inner.notes
    assert (text, span.file.path) == ("used here", "layout.csl")


def test_wse3_has_switches_on_some_colors_only(tmp_path: Path) -> None:
    layout = SET.format(
        "@set_color_config(0, 0, @get_color(10),"
        " .{ .routes = .{ .tx = RAMP }, .switches = .{ .pos1 = .{ .rx = RAMP } } });"
    )
    assert layout_errors(tmp_path, layout, PE, arch="wse3") == ["color 10 has no switches on wse3"]
    compile_text(tmp_path, PE, layout=layout, arch="wse2")


def test_flat_routes_are_accepted_with_a_warning(tmp_path: Path) -> None:
    layout = SET.format(ROUTE.format(".{ .rx = RAMP, .tx = RAMP }"))
    output = compile_text(tmp_path, PE, layout=layout)
    assert output.program.colors[0][0][1].tx == ir.RAMP
    assert "deprecated" in output.warnings[0].message


def test_errors_inside_of_a_called_function_name_the_call(tmp_path: Path) -> None:
    layout = """
    fn check(n: i16) void { @comptime_assert(n < 3, "too many"); }
    layout { @set_rectangle(1, 1); check(4); }
    """
    from fabrica_bench.csl.diagnostics import CslError

    with pytest.raises(CslError) as caught:
        compile_text(tmp_path, layout=layout)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == "comptime_assert failed: too many"
    ((note, span),) = diagnostic.notes
    assert note == "in the call of 'check' here"
    assert span.file.position(span.start)[0] == 3


def test_a_large_grid_is_laid_out_in_seconds(tmp_path: Path) -> None:
    layout = """
    const c = @get_color(1);
    layout {
      @set_rectangle(100, 100);
      for (@range(i16, 100)) |x| {
        for (@range(i16, 100)) |y| {
          @set_tile_code(x, y, "pe.csl", .{ .n = x % 2 });
          @set_color_config(x, y, c, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ EAST } } });
        }
      }
    }
    """
    before = time.process_time()
    program = compile_text(tmp_path, PE, layout=layout).program
    assert len(program.images) == 2
    # Measured: 0.9 s of processor time; the limit leaves room for slow machines.
    assert time.process_time() - before < 10
