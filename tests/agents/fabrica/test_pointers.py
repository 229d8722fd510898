"""Pointers that move: the kernel IR points where the CUDA program points, for every way through its code.

Each kernel starts with `s = 0`, and pointers move between `x`, `a` (1, 2, 3, ...) and `b` (0, 2, 4, ...). What it
leaves in `s` is compared with what the same program says in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from fabrica_agent.analyst import find_entry
from fabrica_agent.cuda.source import parse
from fabrica_agent.cuda.translator import BufferArgument, ParamArgument, Translator
from fabrica_agent.lowering.fold import i32
from fabrica_agent.lowering.interpreter import Interpreter
from fabrica_agent.lowering.ir import Program, Ty

A = [k + 1 for k in range(8)]
B = [2 * k for k in range(8)]
INPUTS = [np.array([*first, 3, 0, 5, 2], np.float32) for first in product((-1, 2), repeat=4)]
"""All signs of the first four elements, by which the kernels take their ways."""

Way = Callable[[npt.NDArray[np.float32]], int]


def translate(text: str) -> Program:
    source = parse(text)
    arrays = {name: BufferArgument(name, Ty.F32, i32(8)) for name in ("x", "y")}
    return Translator(source).translate(find_entry(source), {**arrays, "n": ParamArgument("n", 8)})


def on_device(code: str, before: str = "") -> str:
    """A program whose only thread runs the code."""
    return f"""{before}
__global__ void k(float* x, float* y, int n) {{
  float a[8], b[8];
  for (int i = 0; i < 8; ++i) {{ a[i] = i + 1; b[i] = 2 * i; }}
  int s = 0;
  {code}
  y[0] = s;
}}
extern "C" void go(float* x, float* y, int n) {{ k<<<1, 1>>>(x, y, n); }}
"""


def check(text: str, way: Way) -> None:
    program = translate(text)
    for x in INPUTS:
        arrays = {"x": x.copy(), "y": np.zeros(8, np.float32)}
        Interpreter(program, arrays, {}).run()
        assert arrays["y"][0] == way(x), list(x)


def _null_until_set(x: npt.NDArray[np.float32]) -> int:
    return int(x[0] + x[1] + x[2])


def _last_positive(x: npt.NDArray[np.float32]) -> int:
    positive = [k for k in range(4) if x[k] > 0]
    return 100 if not positive else int(x[positive[-1] + 1])


@pytest.mark.parametrize(
    ("code", "way"),
    [
        ("float* p = nullptr; for (int k = 0; k < 4; ++k) { if (p) s += (int)*p; p = x + k; }", _null_until_set),
        ("float* p; p = nullptr; int k = 0; while (k < 4) { if (p != nullptr) s += (int)*p; p = x + k; ++k; }",
         _null_until_set),
        ("float* p = nullptr; int k = 0; do { s += p ? (int)*p : 0; p = x + k; } while (++k < 4);", _null_until_set),
        ("struct S { float* p; } h = {nullptr}; for (int k = 0; k < 4; ++k) { if (h.p) s += (int)*h.p; h.p = x + k; }",
         _null_until_set),
        ("float* p = nullptr; int k = 0; do { if (x[k] > 0) p = x + k; } while (!p && ++k < 4); s = p ? k : 9;",
         lambda x: next((k for k in range(4) if x[k] > 0), 9)),
        ("float *p = nullptr, *q = nullptr; for (int k = 0; k < 4; ++k) { q = p; p = x + k; } s = (int)*q;",
         lambda x: int(x[2])),
        ("float *p, *q = a; for (int k = 0; k < 4; ++k) { if (k > 0) q = p; p = x + k; } s = (int)*q;",
         lambda x: int(x[2])),
        ("float* p = nullptr; for (int k = 0; k < (int)x[0]; ++k) p = a + k; s = p ? (int)*p : 100;",
         lambda x: 2 if x[0] > 0 else 100),
        ("float* p = nullptr; switch ((int)x[0]) { case 2: p = a; break; } s = p ? (int)*p : 100;",
         lambda x: 1 if x[0] > 0 else 100),
        ("float* p = nullptr; for (int k = 0; k < 4; ++k) { if (x[k] > 0) p = x + k + 1; } s = p ? (int)*p : 100;",
         _last_positive),
    ],
)  # fmt: skip
def test_a_pointer_is_null_until_a_turn_sets_it(code: str, way: Way) -> None:
    check(on_device(code), way)


def test_a_null_argument_can_be_replaced_by_the_function() -> None:
    device = "__device__ int first(float* p, float* x) { if (!p) p = x; return (int)*p; }"
    check(on_device("s = first(nullptr, x + 1);", device), lambda x: int(x[1]))
    program = """
__global__ void k(float* p, float* x, float* y) { if (!p) p = x + 1; y[0] = *p; }
extern "C" void go(float* x, float* y, int n) { k<<<1, 1>>>(nullptr, x, y); }
"""
    check(program, lambda x: int(x[1]))


def test_a_null_pointer_of_the_host_is_set_by_a_turn() -> None:
    program = """
__global__ void add(float* p, float* y) { y[0] += p[0]; }
extern "C" void go(float* x, float* y, int n) {
  float* p = nullptr;
  for (int k = 0; k < (int)x[4]; ++k) { if (p) add<<<1, 1>>>(p, y); p = x; }
  int k = 0;
  p = nullptr;
  while (k < 3) { if (p) add<<<1, 1>>>(p, y); p = x + 1; ++k; }
}
"""
    check(program, lambda x: int(2 * x[0] + 2 * x[1]))
