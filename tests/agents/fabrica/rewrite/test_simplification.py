"""Loop simplification and fused multiply-adds: where they apply, that the results stay, where they must not apply."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.agents.fabrica.rewrite.test_rewrites import after_run, check, numbers, program, rewritten

LOOPS = "loop simplification"
FUSED = "fused multiply-add"
SIZES = {"m": 6, "n": 10}
ARRAYS = {"A": ("m * n", "f32"), "c": ("3", "f32"), "y": ("m * n", "f32")}
DATA = {"A": numbers(60), "c": numbers(3, seed=2), "y": np.zeros(60, np.float32)}


def test_what_a_loop_does_not_change_is_computed_before_it(tmp_path: Path) -> None:
    body = """  for (@range(u16, m)) |i| {
    var j: u16 = 0;
    while (j < n) : (j += 1) {
      if (j > 0) { y[i * n + j] = c[0] * A[i * n + j] + c[2]; } else { y[i * n] = c[2]; }
    }
  }"""
    a, c = DATA["A"].reshape(6, 10).astype(np.float64), DATA["c"].astype(np.float64)
    want = c[0] * a + c[2]
    want[:, 0] = c[2]
    text = program(SIZES, ARRAYS, body)
    check(LOOPS, text, SIZES, DATA, {"y": want.ravel()}, tmp_path)
    changed = rewritten(LOOPS, text, SIZES)
    assert changed is not None
    # The product changes with i, the coefficients with nothing.
    assert changed.index("= c[0];") < changed.index("for (@range") < changed.index("= i * n;") < changed.index("while")


@pytest.mark.parametrize(
    "body",
    [
        # The loop writes what it reads.
        "  for (@range(u16, n)) |j| { c[0] = c[0] * A[j]; }",
        # It may write it: a pointer leads there.
        "  const q: [*]f32 = &c;\n  for (@range(u16, n)) |j| { q[1] = A[j] * c[1]; }",
        # A parameter of the same name is meant.
        "  work(&y, &y);",
        # It calls what writes it.
        "  for (@range(u16, n)) |j| { bump(); y[j] = c[0]; }",
        # A bulk operation writes it.
        "  for (@range(u16, n)) |j| { @fadds(c_dsd, c_dsd, 1.0); y[j] = c[0]; }",
        # It isn't read at all if the loop has no turn, and the place might not exist.
        "  for (@range(u16, last)) |j| { y[j] = A[last]; }",
        # A division might fail.
        "  for (@range(u16, last)) |j| { y[j] = @as(f32, n / last); }",
        # Known to the compiler anyway.
        "  for (@range(u16, n)) |j| { y[j] = A[m * n - 1 - j]; }",
    ],
    ids=["written", "pointer", "local", "call", "bulk", "place", "division", "comptime"],
)
def test_loops_that_are_left_alone(body: str) -> None:
    extra = """var last: u16 = 0;
const c_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> c[i] });
fn bump() void {
  c[0] += 1.0;
}
fn work(c: [*]f32, d: [*]f32) void {
  for (@range(u16, n)) |j| {
    d[0] = c[0] * A[j];
  }
}"""
    assert rewritten(LOOPS, program(SIZES, ARRAYS, body, extra), SIZES) is None


def test_what_stands_before_a_loop_on_its_line_stays_before_it(tmp_path: Path) -> None:
    body = "  var k: u16 = 1; k = 3; for (@range(u16, m)) |i| { y[i] = A[k * n + i]; }"
    text = program(SIZES, ARRAYS, body)
    check(LOOPS, text, SIZES, DATA, {"y": np.concatenate([DATA["A"][30:36], np.zeros(54)])}, tmp_path)


FUSING = """
var product = @zeros([n]f32);
var scale: f32 = 0.0;
const product_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> product[i] });
const a_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> A[i] });
const c_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> c[i] });
const y_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> y[i] });
const next_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> A[i + 1] });
"""
FUSING_ARRAYS = {"A": ("n + 1", "f32"), "c": ("n", "f32"), "y": ("n", "f32")}


@pytest.mark.parametrize(
    ("total", "sign"),
    [
        ("@fadds(y_dsd, c_dsd, product_dsd)", 1),
        ("@fadds(y_dsd, product_dsd, c_dsd)", 1),
        ("@fsubs(y_dsd, c_dsd, product_dsd)", -1),
    ],
)
def test_a_product_that_is_only_added_becomes_a_multiply_add(total: str, sign: int, tmp_path: Path) -> None:
    text = program(
        {"n": 40}, FUSING_ARRAYS, f"  scale = A[n];\n  @fmuls(product_dsd, scale, a_dsd);\n  {total};", FUSING
    )
    data = {"A": numbers(41), "c": numbers(40, seed=2), "y": np.zeros(40, np.float32)}
    a = data["A"].astype(np.float64)
    check(FUSED, text, {"n": 40}, data, {"y": data["c"] + sign * a[40] * a[:40]}, tmp_path)
    changed = rewritten(FUSED, text, {"n": 40})
    assert changed is not None
    assert "product" not in changed


def test_a_sum_in_place_becomes_a_multiply_add(tmp_path: Path) -> None:
    text = program(
        {"n": 40}, FUSING_ARRAYS, "  @fmuls(product_dsd, a_dsd, 0.5);\n  @fadds(a_dsd, c_dsd, product_dsd);", FUSING
    )
    data = {"A": numbers(41), "c": numbers(40, seed=2), "y": np.zeros(40, np.float32)}
    want = data["A"].astype(np.float64)
    want[:40] = data["c"] + 0.5 * want[:40]
    changed = rewritten(FUSED, text, {"n": 40})
    assert changed is not None
    after, _ = after_run(changed, {"n": 40}, data, tmp_path)
    np.testing.assert_allclose(after["A"], want, rtol=2e-6)


@pytest.mark.parametrize(
    "body",
    [
        "  @fmuls(product_dsd, a_dsd, c_dsd);\n  @fadds(y_dsd, y_dsd, product_dsd);",
        "  @fmuls(product_dsd, a_dsd, scale);\n  @fadds(y_dsd, y_dsd, product_dsd);\n  y[0] = product[0];",
        "  @fmuls(product_dsd, a_dsd, scale);\n  scale = 0.0;\n  @fadds(y_dsd, y_dsd, product_dsd);",
        "  @fmuls(product_dsd, a_dsd, scale);\n  @fsubs(y_dsd, product_dsd, y_dsd);",
        "  @fmuls(product_dsd, a_dsd, scale);\n  @fadds(next_dsd, c_dsd, product_dsd);",
        "  @fmuls(product_dsd, a_dsd, scale);\n  @fadds(product_dsd, y_dsd, product_dsd);",
    ],
    ids=["two arrays", "used again", "not at once", "the other way round", "overlapping", "kept"],
)
def test_products_that_stay(body: str) -> None:
    assert rewritten(FUSED, program({"n": 40}, FUSING_ARRAYS, body, FUSING), {"n": 40}) is None
