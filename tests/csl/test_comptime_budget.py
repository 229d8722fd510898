"""The default budget of comptime work ends a bomb within seconds, and lets every layout of a wafer through."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from helpers.csl_eval import HEAD, ONE_PE, TAIL, compile_text, error_messages
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabrica_bench.csl import types as t
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.sema import arith, limits
from fabrica_bench.csl.values import Const

CPU_SECONDS = 30
"""Ceiling of a bomb under the default budget; on a quiet machine of 2026 they take 2 to 5."""
MAIN = "fn main() void { y += 1; sys_mod.unblock_cmd_stream(); }" + TAIL
BOMBS = {
    "a loop": "comptime { var n: u32 = 0; while (n < 0xffffffff) : (n += 1) {} }",
    "a loop in a function": (
        "fn count() u32 { var n: u32 = 0; while (n < 0xffffffff) : (n += 1) {} return n; } const z = count();"
        "comptime { @comptime_assert(z > 0); }"
    ),
    "a loop of many statements": (
        "comptime { var n: u32 = 0; while (n < 0xffffffff) : (n += 1) {" + " n = n + 1 - 1;" * 400 + " } }"
    ),
    "a tree of calls": (
        "fn fib(n: u32) u32 { if (n < 2) { return n; } return fib(n - 1) + fib(n - 2); } const z = fib(40);"
        "comptime { @comptime_assert(z > 0); }"
    ),
    "floats": "comptime { var n: f32 = 0.0; while (n < 1000.0) : (n *= 1.0) {} }",
    "copies of arrays": "comptime { var a = @zeros([40000]u16); while (true) { var b = a; a = b; } }",
    "strings": 'comptime { var n: u32 = 0; while (true) : (n += 1) { const s = @strcat("0123456789abcdef", "xyz"); } }',
}
QUICK = ("a tree of calls", "copies of arrays")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in BOMBS]
)
def test_a_bomb_ends_soon(name: str, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    with pytest.raises(CslError) as caught:
        compile_text(tmp_path, f"{HEAD}var y: u32 = 0; {BOMBS[name]} {MAIN}", layout=ONE_PE)
    assert error_messages(caught.value)[0] == f"comptime evaluation exceeded {limits.COMPTIME_STEPS} steps"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < CPU_SECONDS


def test_each_pe_of_a_layout_adds_to_the_budget(tmp_path: Path) -> None:
    layout = """
    layout {
      @set_rectangle(40, 30);
      for (@range(u16, 40)) |x| {
        for (@range(u16, 30)) |y| {
          @set_tile_code(x, y, "pe.csl");
          for (@range(u16, 4)) |c| {
            @set_color_config(x, y, @get_color(c), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });
          }
        }
      }
    }
    """
    pe = "task t() void {} comptime { @bind_local_task(t, @get_local_task_id(9)); @activate(@get_local_task_id(9)); }"
    assert compile_text(tmp_path, pe, layout=layout, max_comptime_steps=2_000).program.width == 40


def test_a_pe_adds_enough_for_the_params_of_the_libraries(tmp_path: Path) -> None:
    """As a layout of a whole wafer does, which only then fits into the default budget."""
    layout = """
    const collectives = @import_module("<collectives_2d/params>");
    const memcpy = @import_module("<memcpy/get_params>", .{ .width = 40, .height = 30 });
    layout {
      @set_rectangle(40, 30);
      for (@range(u16, 40)) |x| {
        for (@range(u16, 30)) |y| {
          const unused = collectives.get_params(x, y, .{
            .x_colors = .{ @get_color(0), @get_color(1) },
            .x_entrypoints = .{ @get_local_task_id(10), @get_local_task_id(11) },
            .y_colors = .{ @get_color(4), @get_color(5) },
            .y_entrypoints = .{ @get_local_task_id(12), @get_local_task_id(13) },
          });
          @set_tile_code(x, y, "pe.csl", .{ .memcpy_params = memcpy.get_params(x) });
        }
      }
    }
    """
    program = compile_text(tmp_path, HEAD, layout=layout, max_comptime_steps=2_000).program
    assert (program.width, program.height) == (40, 30)
    wafer = 750 * 994
    assert wafer * limits.STEPS_PER_PE < limits.COMPTIME_STEPS * limits.MOST_EARNED


def test_the_code_of_all_programs_counts_together(tmp_path: Path) -> None:
    """Ten programs of which each is well below the limit, but not all of them together."""
    layout = """
    layout {
      @set_rectangle(10, 1);
      for (@range(u16, 10)) |x| { @set_tile_code(x, 0, "pe.csl", .{ .x = x }); }
    }
    """
    body = " y = y * 3 + x;" * 800
    pe = f"param x: u16; var y: u16 = 0; fn main() void {{{body}}} comptime {{ @export_symbol(main); }}"
    named = layout.replace("layout {", 'layout { @export_name("main", fn()void);')
    assert len(compile_text(tmp_path, pe, layout=named).program.images) == 10
    with pytest.raises(CslError) as caught:
        compile_text(tmp_path, pe, layout=named, max_comptime_steps=200)
    assert error_messages(caught.value)[0] == "comptime evaluation exceeded 30200 steps for 10 distinct PE programs"


_TYPES = (t.COMPTIME_INT, t.U8, t.I16, t.U32, t.I64)
_NUMBERS = st.one_of(st.integers(-3, 3), st.integers(-(1 << 70), 1 << 70))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.sampled_from(sorted(arith.IR_OPS | arith.CMP_OPS)),
    st.sampled_from(_TYPES),
    st.sampled_from(_TYPES),
    _NUMBERS,
    _NUMBERS,
)
def test_the_short_way_of_integers_says_what_the_general_rules_say(
    op: str, left: t.Type, right: t.Type, a: int, b: int
) -> None:
    first, second = (
        Const(kind, kind.wrap(n) if isinstance(kind, t.IntType) else n) for kind, n in ((left, a), (right, b))
    )
    short = arith._known_integers(op, first, second)
    if short is not None:
        arith_general = arith.general_binary(None, op, first, second, None)  # type: ignore[arg-type]
        assert arith_general == short
