"""Each rewrite of the catalogue: where it applies, that the program still computes the same, where it must not apply.

Programs run on one PE of the simulator, before and after; expected values come from NumPy in double precision.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from fabrica_agent.rewrite.catalogue import CATALOGUE, Source
from fabrica_agent.rewrite.search import search

from fabrica_bench.csl.diagnostics import CslError
from tests.agents.fabrica.bundles import copies, run_csl
from tests.agents.fabrica.samples import Array, Arrays, Sample

BY_NAME = {r.name: r for r in CATALOGUE}
BOXES = "loop nests to bulk operations over boxes"
VECTORS = "single loops to bulk operations"
WALK = "descriptor-offset chaining by registers"
GATHER = "gathered products by @map"
BANKS = "bank-class placement"
FUSION = "task fusion"
BUFFERS = "buffer removal"
PIECES = "larger pieces"


def program(sizes: dict[str, int], arrays: dict[str, tuple[str, str]], body: str, extra: str = "") -> str:
    """A compute file with one function and exported arrays, given as (length, element type)."""
    lines = ["param memcpy_params: comptime_struct;", *(f"param {n}: u16;" for n in sizes)]
    lines += ['const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);']
    lines += ['const window = @import_module("window.csl", .{ .unblock = sys_mod.unblock_cmd_stream });']
    lines += ['const math = @import_module("<math>");']
    lines += [f"var {n} = @zeros([{length}]{ty});" for n, (length, ty) in arrays.items()]
    lines += [f"var {n}_ptr: [*]{ty} = &{n};" for n, (_, ty) in arrays.items()]
    lines += [extra, "fn compute() void {", "  window.start();", body]
    lines += ["  window.end();", "  sys_mod.unblock_cmd_stream();", "}", "comptime {"]
    lines += [f'  @export_symbol({n}_ptr, "{n}");' for n in arrays]
    return "\n".join([*lines, "  @export_symbol(compute);", "}", ""])


def sample(sizes: dict[str, int]) -> Sample:
    return Sample("program", sizes, lambda *_: {}, (), lambda *_: {})


def after_run(text: str, sizes: dict[str, int], arrays: Arrays, folder: Path) -> tuple[Arrays, int]:
    return run_csl(sample(sizes), copies(arrays), text, folder)


def rewritten(name: str, text: str, sizes: dict[str, int]) -> str | None:
    found = BY_NAME[name].propose(Source(text, sizes))
    return found[0].text if found else None


def numbers(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check(name: str, text: str, sizes: dict[str, int], arrays: Arrays, expected: dict[str, Array], folder: Path) -> int:
    """The rewrite applies, the results stay right, and it saves cycles; how many it leaves."""
    changed = rewritten(name, text, sizes)
    assert changed is not None
    before, slow = after_run(text, sizes, arrays, folder)
    after, fast = after_run(changed, sizes, arrays, folder)
    for array, want in expected.items():
        np.testing.assert_allclose(before[array], want, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(after[array], want, rtol=2e-5, atol=2e-5)
    assert fast < slow
    return fast


MATVEC = """  for (@range(u16, M)) |i| {
    var sum: f32 = 0.0;
    var j: u16 = 0;
    while (j < N) : (j += 1) { sum += A[i * N + j] * x[j]; }
    y[i] = sum;
  }"""


def test_a_matrix_vector_product_becomes_multiply_adds_of_columns(tmp_path: Path) -> None:
    sizes = {"M": 12, "N": 9}
    text = program(sizes, {"A": ("M * N", "f32"), "x": ("N", "f32"), "y": ("M", "f32")}, MATVEC)
    arrays = {"A": numbers(108), "x": numbers(9, seed=2), "y": np.zeros(12, np.float32)}
    want = arrays["A"].reshape(12, 9).astype(np.float64) @ arrays["x"]
    check(BOXES, text, sizes, arrays, {"y": want}, tmp_path)
    changed = rewritten(BOXES, text, sizes)
    assert changed is not None
    assert "@fmacs(" in changed
    assert "while" not in changed


def test_conditions_on_loop_variables_become_smaller_boxes(tmp_path: Path) -> None:
    body = """  for (@range(u16, M)) |i| {
    for (@range(u16, N)) |j| {
      const k = i * N + j;
      const left = if (j > 0) x[k - 1] else x[k];
      if (i == 0 or i + 1 == M) {
        y[k] = x[k];
      } else {
        y[k] = 0.5 * (x[k - N] + x[k + N]) - left;
      }
    }
  }"""
    sizes = {"M": 7, "N": 6}
    text = program(sizes, {"x": ("M * N", "f32"), "y": ("M * N", "f32")}, body)
    x = numbers(42)
    grid = x.reshape(7, 6).astype(np.float64)
    left = np.hstack([grid[:, :1], grid[:, :-1]])
    want = grid.copy()
    want[1:-1] = 0.5 * (grid[:-2] + grid[2:]) - left[1:-1]
    check(BOXES, text, sizes, {"x": x, "y": np.zeros(42, np.float32)}, {"y": want.ravel()}, tmp_path)


def test_softmax_keeps_its_value_with_bulk_exponentials_and_folds(tmp_path: Path) -> None:
    body = """  var largest = x[0];
  for (@range(u16, 1, n, 1)) |i| { if (x[i] > largest) { largest = x[i]; } }
  var sum: f32 = 0.0;
  for (@range(u16, n)) |i| { const power = math.exp(x[i] - largest); y[i] = power; sum += power; }
  for (@range(u16, n)) |i| { y[i] = y[i] / sum; }"""
    text = program({"n": 150}, {"x": ("n", "f32"), "y": ("n", "f32")}, body)
    x = (20 * numbers(150)).astype(np.float32)
    powers = np.exp(x.astype(np.float64) - x.max())
    arrays = {"x": x, "y": np.zeros(150, np.float32)}
    check(BOXES, text, {"n": 150}, arrays, {"y": powers / powers.sum()}, tmp_path)


def test_reciprocals_of_either_sign(tmp_path: Path) -> None:
    text = program(
        {"n": 64}, {"x": ("n", "f32"), "y": ("n", "f32")}, "  for (@range(u16, n)) |i| { y[i] = 3.0 / x[i]; }"
    )
    x = np.concatenate([np.linspace(-900, -0.001, 32), np.geomspace(1e-6, 1e6, 32)]).astype(np.float32)
    changed = rewritten(BOXES, text, {"n": 64})
    assert changed is not None
    after, _ = after_run(changed, {"n": 64}, {"x": x, "y": np.zeros(64, np.float32)}, tmp_path)
    np.testing.assert_allclose(after["y"], 3.0 / x.astype(np.float64), rtol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "  for (@range(u16, 1, n, 1)) |i| { y[i] = y[i - 1] * 0.5 + x[i]; }",
        "  for (@range(u16, n)) |i| { y[@as(u16, z[i])] = x[i]; }",
        "  for (@range(u16, n)) |i| { if (x[i] > 0.0) { y[i] = x[i]; } }",
        "  for (@range(u16, n)) |i| { y[n - 1 - i] = y[i]; }",
    ],
    ids=["recurrence", "scatter", "choice by data", "reversal in place"],
)
def test_dependent_or_unknown_accesses_keep_their_loop(body: str) -> None:
    text = program({"n": 40}, {"x": ("n", "f32"), "y": ("n", "f32"), "z": ("n", "u32")}, body)
    assert rewritten(BOXES, text, {"n": 40}) is None


def test_a_loop_over_a_moving_column_becomes_a_walk(tmp_path: Path) -> None:
    extra = """const sums_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{M} -> y[i] });
const first_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{M} -> A[i] });"""
    body = """  var column = first_dsd;
  for (@range(u16, N)) |j| {
    @fmacs(sums_dsd, sums_dsd, column, -x[j]);
    column = @increment_dsd_offset(column, @as(i16, M), f32);
  }"""
    sizes = {"M": 8, "N": 5}
    text = program(sizes, {"A": ("M * N", "f32"), "x": ("N", "f32"), "y": ("M", "f32")}, body, extra)
    arrays = {"A": numbers(40), "x": numbers(5, seed=2), "y": np.zeros(8, np.float32)}
    want = -(arrays["A"].reshape(5, 8).T.astype(np.float64) @ arrays["x"])
    check(WALK, text, sizes, arrays, {"y": want}, tmp_path)
    other_step = text.replace("@as(i16, M), f32", "@as(i16, N), f32")
    assert rewritten(WALK, other_step, sizes) is None
    used_after = text.replace("  window.end();", "  @fmovs(sums_dsd, column);\n  window.end();")
    assert rewritten(WALK, used_after, sizes) is None


def test_gathered_products(tmp_path: Path) -> None:
    body = """  var row: u16 = 0;
  while (row < R) : (row += 1) {
    var sum: f32 = 0.0;
    var k = @as(u16, start[row]);
    const end = @as(u16, start[row + 1]);
    while (k < end) : (k += 1) { sum += val[k] * x[col[k]]; }
    y[row] = sum;
  }"""
    sizes = {"R": 6, "Z": 60}
    shapes = {"start": ("R + 1", "u32"), "col": ("Z", "u32"), "val": ("Z", "f32"), "x": ("R", "f32"), "y": ("R", "f32")}
    text = program(sizes, shapes, body)
    rng = np.random.default_rng(3)
    start = np.array([0, 10, 10, 25, 40, 41, 60], np.uint32)
    col = rng.integers(0, 6, 60).astype(np.uint32)
    arrays = {"start": start, "col": col, "val": numbers(60), "x": numbers(6, seed=2), "y": np.zeros(6, np.float32)}
    products = arrays["val"].astype(np.float64) * arrays["x"][col]
    want = np.array([products[a:b].sum() for a, b in pairwise(start)])
    check(GATHER, text, sizes, arrays, {"y": want}, tmp_path)
    assert rewritten(GATHER, text.replace("    y[row] = sum;", "    x[row] = sum;"), sizes) is None


def test_placement_separates_the_sources_of_an_operation(tmp_path: Path) -> None:
    extra = "\n".join(
        f"const {a}_dsd = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{n}} -> {a}[i] }});" for a in ("x", "y", "z")
    )
    text = program({"n": 128}, {a: ("n", "f32") for a in "xyz"}, "  @fadds(z_dsd, x_dsd, y_dsd);", extra)
    arrays = {"x": numbers(128), "y": numbers(128, seed=2), "z": np.zeros(128, np.float32)}
    aligned = re.sub(r"var (\w) = @zeros\(\[n\]f32\)", r"var \1: [n]f32 align(16) = @zeros([n]f32)", text)
    check(BANKS, aligned, {"n": 128}, arrays, {"z": arrays["x"].astype(np.float64) + arrays["y"]}, tmp_path)


def test_placement_leaves_arrays_alone_whose_length_is_in_a_pointer_type() -> None:
    extra = "\n".join(
        f"const {a}_dsd = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{n}} -> {a}[i] }});" for a in ("x", "y", "z")
    )
    extra += "\nfn first(v: *[n]f32) f32 {\n  return v.*[0];\n}"
    body = "  @fadds(z_dsd, x_dsd, y_dsd);\n  z[0] = first(&x) + first(&y);"
    text = program({"n": 128}, {a: ("n", "f32") for a in "xyz"}, body, extra)
    assert rewritten(BANKS, text, {"n": 128}) is None


def test_a_task_is_called_where_a_function_ends_by_activating_it(tmp_path: Path) -> None:
    text = """param memcpy_params: comptime_struct;
param n: u16;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const window = @import_module("window.csl", .{ .unblock = sys_mod.unblock_cmd_stream });
var y = @zeros([n]f32);
var y_ptr: [*]f32 = &y;
const next_id = @get_local_task_id(10);
fn compute() void {
  window.start();
  @activate(next_id);
}
task next() void {
  y[0] = 2.0;
  window.end();
  sys_mod.unblock_cmd_stream();
}
comptime {
  @bind_local_task(next, next_id);
  @export_symbol(y_ptr, "y");
  @export_symbol(compute);
}
"""
    arrays = {"y": np.zeros(2, np.float32)}
    changed = rewritten(FUSION, text, {"n": 2})
    assert changed is not None
    assert "@activate" not in changed
    after, _ = after_run(changed, {"n": 2}, arrays, tmp_path)
    assert after["y"].tolist() == [2.0, 0.0]
    blocked = text.replace("  @activate(next_id);", "  @block(next_id);\n  @activate(next_id);")
    assert rewritten(FUSION, blocked, {"n": 2}) is None
    looping = text.replace("  y[0] = 2.0;", "  y[0] = 2.0;\n  if (y[1] > 0.0) { compute(); }")
    assert rewritten(FUSION, looping, {"n": 2}) is None


def test_a_buffer_that_is_filled_and_read_once_goes(tmp_path: Path) -> None:
    extra = """var edge = @zeros([n]f32);
const edge_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> edge[i] });
const x_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> x[i * 2] });
const y_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> y[i] });"""
    body = "  @fmovs(edge_dsd, x_dsd);\n  @fadds(y_dsd, y_dsd, edge_dsd);"
    text = program({"n": 8}, {"x": ("2 * n", "f32"), "y": ("n", "f32")}, body, extra)
    arrays = {"x": numbers(16), "y": numbers(8, seed=2)}
    check(BUFFERS, text, {"n": 8}, arrays, {"y": arrays["y"] + arrays["x"][::2].astype(np.float64)}, tmp_path)
    changed_between = body.replace("\n", "\n  x[0] = 1.0;\n")
    kept = program({"n": 8}, {"x": ("2 * n", "f32"), "y": ("n", "f32")}, changed_between, extra)
    assert rewritten(BUFFERS, kept, {"n": 8}) is None


FORWARDED = """  if (wide) { @fmovs(sums_dsd, x_dsd); } else { @fadds(sums_dsd, x_dsd, x_dsd); }
  if (wide) {
    @fmovs(y_dsd, sums_dsd);
  } else {
    @fmovs(z_dsd, sums_dsd);
  }"""


def test_a_result_that_is_only_passed_on_is_computed_where_it_goes(tmp_path: Path) -> None:
    extra = "\n".join(
        f"const {a}_dsd = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{n}} -> {a}[i] }});"
        for a in ("x", "y", "z", "sums")
    )
    extra = f"param wide: bool = false;\nvar sums = @zeros([n]f32);\n{extra}"
    text = program({"n": 8}, {a: ("n", "f32") for a in "xyz"}, FORWARDED, extra)
    arrays = {"x": numbers(8), "y": np.zeros(8, np.float32), "z": np.zeros(8, np.float32)}
    name = "direct forwarding"
    check(name, text, {"n": 8}, arrays, {"z": 2 * arrays["x"].astype(np.float64), "y": arrays["y"]}, tmp_path)
    read_later = text.replace("  window.end();", "  y[0] = sums[0];\n  @fmovs(y_dsd, sums_dsd);\n  window.end();")
    assert rewritten(name, read_later, {"n": 8}) is None


def test_variables_that_never_change_become_constants(tmp_path: Path) -> None:
    extra = "var factor: f32 = 2.5;\nvar count: u16 = 0;"
    body = "  count += 1;\n  y[0] = x[0] * factor;\n  y[1] = x[1] * factor;"
    text = program({"n": 2}, {"x": ("n", "f32"), "y": ("n", "f32")}, body, extra)
    changed = rewritten("constant folding into comptime", text, {"n": 2})
    assert changed is not None
    assert "const factor" in changed
    assert "var count" in changed
    x = numbers(2)
    after, _ = after_run(changed, {"n": 2}, {"x": x, "y": np.zeros(2, np.float32)}, tmp_path)
    np.testing.assert_allclose(after["y"], 2.5 * x, rtol=1e-6)


def test_only_sizes_that_no_exported_array_depends_on_may_grow() -> None:
    extra = "param piece: u16;\nvar held = @zeros([piece]f32);"
    text = program({"n": 8}, {"x": ("n", "f32")}, "  held[0] = x[0];", extra)
    changed = rewritten(PIECES, text, {"n": 8, "piece": 2})
    assert changed is not None
    assert "@zeros([n]f32);" in changed.split("var held")[1]
    assert rewritten(PIECES, text, {"n": 2, "piece": 8}) is None


def test_names_don_t_matter() -> None:
    """The rewrites read what a program does: other names give the same program with other names."""
    sizes = {"M": 12, "N": 9}
    text = program(sizes, {"A": ("M * N", "f32"), "x": ("N", "f32"), "y": ("M", "f32")}, MATVEC)
    mapping = {
        "A": "kappa",
        "x": "lambda_v",
        "y": "mu_v",
        "M": "first_n",
        "N": "second_n",
        "sum": "total_v",
        "j": "q_i",
    }

    def renamed(t: str) -> str:
        return re.sub(r"\b(?:A|x|y|M|N)\b", lambda m: mapping[m.group(0)], t)

    one = rewritten(BOXES, text, sizes)
    two = rewritten(BOXES, renamed(text), {mapping[n]: v for n, v in sizes.items()})
    assert one is not None
    assert two is not None
    shape = re.compile(r"@\w+")
    assert shape.findall(one) == shape.findall(two)


def test_the_search_keeps_only_what_is_valid_and_faster() -> None:
    sizes = {"M": 12, "N": 9}
    text = program(sizes, {"A": ("M * N", "f32"), "x": ("N", "f32"), "y": ("M", "f32")}, MATVEC)
    assert search(text, 100, sizes, lambda *_: None).text == text
    assert search(text, 100, sizes, lambda *_: 100).steps == ()
    costs = iter([90, 95, 80])
    found = search(text, 100, sizes, lambda *_: next(costs, None))
    assert found.cycles == min(90, found.cycles)
    assert [s.after for s in found.steps] == sorted((s.after for s in found.steps), reverse=True)
    assert found.text != text


def test_every_entry_says_what_it_needs_and_what_it_does() -> None:
    assert len({r.name for r in CATALOGUE}) == len(CATALOGUE)
    assert all(r.precondition and r.effect for r in CATALOGUE)


@pytest.mark.parametrize("name", [BOXES, VECTORS])
def test_a_program_rewritten_for_one_size_is_refused_for_another(name: str, tmp_path: Path) -> None:
    """Right for the size at hand, and a compile error for others rather than a wrong result."""
    sizes = {"n": 60}
    body = "  for (@range(u16, n)) |i| { y[i] = x[i] * 2.0 + 1.0; }"
    text = program(sizes, {"x": ("n", "f32"), "y": ("n", "f32")}, body)
    changed = rewritten(name, text, sizes)
    assert changed is not None
    x = numbers(60)
    after, _ = after_run(changed, sizes, {"x": x, "y": numbers(60, seed=2)}, tmp_path)
    assert np.allclose(after["y"], x * 2 + 1, rtol=1e-6)
    with pytest.raises(CslError, match="made for other sizes"):
        after_run(changed, {"n": 61}, {"x": numbers(61), "y": numbers(61)}, tmp_path)
