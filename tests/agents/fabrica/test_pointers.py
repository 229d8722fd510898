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
from fabrica_agent.lowering.ir import Program, Ty, UnsupportedError

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


def _positive(x: npt.NDArray[np.float32], count: int = 4) -> bool:
    return any(x[k] > 0 for k in range(count))


def _read_each_turn(x: npt.NDArray[np.float32]) -> int:
    found, p = 0, B
    for k in range(4):
        found += p[3]
        p = A if x[k] > 0 else B
    return found


@pytest.mark.parametrize(
    ("code", "way"),
    [
        ("float* p = b; for (int k = 0; k < 4; ++k) { p = a; if (x[k] > 0) break; p = b; } s = (int)p[3];",
         lambda x: A[3] if _positive(x) else B[3]),
        ("float* p = b; int k = 0; while (k < 4) { p = a; if (x[k++] > 0) break; p = b; } s = (int)p[3];",
         lambda x: A[3] if _positive(x) else B[3]),
        ("float* p = b; int k = 0; do { p = a; if (x[k] > 0) break; p = b; } while (++k < 4); s = (int)p[3];",
         lambda x: A[3] if _positive(x) else B[3]),
        ("float* p = b; switch (n) { case 8: p = a; if (x[0] > 0) break; p = b; break; case 9: p = x; } s = (int)p[3];",
         lambda x: A[3] if x[0] > 0 else B[3]),
        ("float* p = b; for (int k = 0; k < 4; ++k) { s += (int)p[3]; p = a; if (x[k] > 0) continue; p = b; }",
         _read_each_turn),
        ("float* p = b; for (int k = 0; k < 4; s += 0 * (int)p[0], ++k) {\n"
         "  s += (int)p[3]; switch (k % 2) { case 0: p = a; if (x[k] > 0) continue; p = b; break;\n"
         "  default: p = a; if (x[k] > 0) break; p = b; } }", _read_each_turn),
        ("float *p, *q = b; for (int k = 0; k < 4; ++k) { p = a; if (x[k] > 0) break; p = b + 1; } s = (int)p[3];",
         lambda x: A[3] if _positive(x) else B[4]),
    ],
)  # fmt: skip
def test_a_pointer_points_where_a_jump_leaves_it(code: str, way: Way) -> None:
    check(on_device(code), way)


@pytest.mark.parametrize(
    ("body", "call", "way"),
    [
        ("p = a; if (x[0] > 0) return; p = b;", "move(p, a, b, x);", lambda x: A[3] if x[0] > 0 else B[3]),
        ("for (int k = 0; k < 4; ++k) { p = a; if (x[k] > 0) return; p = b; }", "move(p, a, b, x);",
         lambda x: A[3] if _positive(x) else B[3]),
        ("if (x[0] > 0) { p = a; return; } if (x[1] > 0) return; p = b;", "move(p, a, b, x);",
         lambda x: A[3] if x[0] > 0 else int(x[3]) if x[1] > 0 else B[3]),
        ("p = a; if (x[0] > 0) return; p = b;", "for (int k = 0; k < 3; ++k) move(p, a, b, x + k);",
         lambda x: A[3] if x[2] > 0 else B[3]),
        ("", "auto go = [&]() { p = a; if (x[0] > 0) return; p = b; }; go();", lambda x: A[3] if x[0] > 0 else B[3]),
    ],
)  # fmt: skip
def test_a_pointer_points_where_an_early_return_leaves_it(body: str, call: str, way: Way) -> None:
    function = f"__device__ void move(float*& p, float* a, float* b, float* x) {{ {body} }}"
    check(on_device(f"float* p = x; {call} s = (int)p[3];", function), way)


@pytest.mark.parametrize(
    ("code", "way"),
    [
        ("int c = 1, k = 0; do { if (x[k] > 0) break; c = 5; } while (++k < 4); s = c;",
         lambda x: 1 if x[0] > 0 else 5),
        ("int c = 1, k = 0; do { if (x[k] > 0) continue; c = 5; } while (++k < 4 && c < 5); s = 10 * k + c;",
         lambda x: next((10 * (k + 1) + 5 for k in range(4) if x[k] < 0), 41)),
        ("int c = 1, k = 0; for (; k < 4; k += c) { if (x[k] > 0) continue; c = 2; } s = 10 * k + c;",
         lambda x: _steps(x)),
        ("int c = 1; set(c, x); s = c;", lambda x: 2 if x[0] > 0 else 5),
        ("int c = 1; each(x, [&]() { c += 2; }); s = c;", lambda x: 1 + 2 * sum(x[:4] > 0)),
        ("s = sign(x[0]) + 3 * sign(x[1]);", lambda x: (1 if x[0] > 0 else -1) + 3 * (1 if x[1] > 0 else -1)),
        ("P v = pair(x); s = v.u + 10 * v.w;", lambda x: 21 if x[0] > 0 else 43),
        ("int c = 1; auto put = [&]() { c = 2; if (x[0] > 0) return; c = 5; }; put(); s = c;",
         lambda x: 2 if x[0] > 0 else 5),
    ],
)  # fmt: skip
def test_a_number_is_known_only_where_every_way_gives_it(code: str, way: Way) -> None:
    functions = """
struct P { int u, w; };
template <class F> __device__ void each(float* x, F f) { for (int k = 0; k < 4; ++k) if (x[k] > 0) f(); }
__device__ void set(int& c, float* x) { c = 2; if (x[0] > 0) return; c = 5; }
__device__ int sign(float v) { if (v > 0) return 1; return -1; }
__device__ P pair(float* x) { if (x[0] > 0) return P{1, 2}; return P{3, 4}; }
"""
    check(on_device(code, functions), way)


def _steps(x: npt.NDArray[np.float32]) -> int:
    c, k = 1, 0
    while k < 4:
        c = c if x[k] > 0 else 2
        k += c
    return 10 * k + c


@pytest.mark.parametrize(
    ("code", "way"),
    [
        ("for (int k = 0; k < 4; ++k) { p = x; if (x[k] > 0) break; p = x + 1; }",
         lambda x: int(x[0] if _positive(x) else x[1])),
        ("for (int k = 0; k < 4; ++k) { add<<<1, 1>>>(p, y); p = x; if (x[k] > 0) continue; p = z; }",
         lambda x: int(sum(x[0] if x[k] > 0 else 4 for k in range(3)) + 4 + (x[0] if x[3] > 0 else 4))),
        ("move(p, x, z);", lambda x: int(x[0]) if x[0] > 0 else 4),
        ("for (int k = 0; k < 3; ++k) { move(p, x + k, z); add<<<1, 1>>>(p, y); }",
         lambda x: int(sum(x[k] if x[k] > 0 else 4 for k in (0, 1, 2, 2)))),
    ],
)  # fmt: skip
def test_a_pointer_of_the_host_points_where_a_jump_leaves_it(code: str, way: Way) -> None:
    program = f"""
__global__ void add(float* p, float* y) {{ y[0] += p[0]; }}
__global__ void fill(float* z) {{ z[threadIdx.x] = 4; }}
void move(float*& p, float* x, float* z) {{ p = x; if (x[0] > 0) return; p = z; }}
extern "C" void go(float* x, float* y, int n) {{
  float *z, *p;
  cudaMalloc(&z, n * sizeof(float));
  fill<<<1, 8>>>(z);
  p = z;
  {code}
  add<<<1, 1>>>(p, y);
}}
"""
    check(program, way)


@pytest.mark.parametrize(
    ("code", "way"),
    [
        ("P v = {0, 1}; for (int k = 0; k < 8; ++k) v = {v.w, v.u + v.w}; s = v.u + 100 * v.w;",
         lambda x: 21 + 100 * 34),
        ("P v = {1, 2}; v.u += (int)x[0]; v = P{v.w, v.u}; s = v.u + 10 * v.w;", lambda x: 2 + 10 * (1 + int(x[0]))),
        ("T v = {{1, 2}, 3}; v.p.u += (int)x[0]; v = T{{v.p.w, v.z}, v.p.u}; s = v.p.u + 10 * v.p.w + 100 * v.z;",
         lambda x: 2 + 30 + 100 * (1 + int(x[0]))),
        ("S v = {a, b + 1}; if (x[0] > 0) v.u = a + 2; v = S{v.v, v.u}; s = (int)v.u[1] + 100 * (int)v.v[0];",
         lambda x: B[2] + 100 * (A[2] if x[0] > 0 else A[0])),
        ("S v = {a, b + 1}; for (int k = 0; k < 3; ++k) v = S{v.v, v.u + k}; s = (int)v.u[1] + 100 * (int)v.v[0];",
         lambda x: B[3] + 100 * A[2]),
        ("float *p = a, *q = b + 1; for (int k = 0; k < 4; ++k) { if (x[k] > 0) std::swap(p, q); s += (int)p[1]; }",
         lambda x: sum(B[2] if sum(x[: k + 1] > 0) % 2 else A[1] for k in range(4))),
    ],
)  # fmt: skip
def test_what_changes_places_is_read_before_it_is_written(code: str, way: Way) -> None:
    structs = "struct P { int u, w; };\nstruct T { P p; int z; };\nstruct S { float *u, *v; };"
    check(on_device(code, f"#include <utility>\n{structs}"), way)


@pytest.mark.parametrize(
    ("code", "way"),
    [
        ("int k = 0; while (k < (int)x[4]) { std::swap(p, q); ++k; }", lambda x: int(x[1])),
        ("int k = 0; while (k < (int)x[4]) { std::swap(p, q); ++k; } std::swap(p, q); q = x + 2;",
         lambda x: int(x[0])),
        ("float* r = nullptr; for (int k = 0; k < (int)x[4]; ++k) std::swap(q, r); if (!q) p = x + 3;",
         lambda x: int(x[3])),
    ],
)  # fmt: skip
def test_pointers_of_the_host_are_swapped_wherever_they_point(code: str, way: Way) -> None:
    program = f"""
#include <utility>
__global__ void first(float* p, float* y) {{ y[0] = p[0]; }}
extern "C" void go(float* x, float* y, int n) {{
  float *p = x, *q = x + 1;
  {code}
  first<<<1, 1>>>(p, y);
}}
"""
    check(program, way)


@pytest.mark.parametrize(
    ("code", "way"),
    [
        ("if (x[0] > 0) at = x + 1; if (!at) at = x + 2;", lambda x: int(x[1] if x[0] > 0 else x[2])),
        ("for (int k = 0; k < 4; ++k) { if (at) break; if (x[k] > 0) at = x + k + 1; } if (!at) at = x;",
         lambda x: int(next((x[k + 1] for k in range(4) if x[k] > 0), x[0]))),
        ("put(x); if (!at) at = x + 2;", lambda x: int(x[1] if x[0] > 0 else x[2])),
        ("at = held; if (x[0] > 0) at = x;", lambda x: int(x[0]) if x[0] > 0 else 0),
    ],
)  # fmt: skip
def test_a_pointer_at_file_scope_is_null_until_it_is_set(code: str, way: Way) -> None:
    program = f"""
static float* at;
static float store[8];
static float* held = store;
static void put(float* x) {{ if (x[0] > 0) at = x + 1; }}
__global__ void first(float* p, float* y) {{ y[0] = p[0]; }}
extern "C" void go(float* x, float* y, int n) {{
  {code}
  first<<<1, 1>>>(at, y);
}}
"""
    check(program, way)


def test_an_operand_that_moves_a_pointer_is_not_chosen_between() -> None:
    program = """
__global__ void first(float* p, float* y) { y[0] = p[0]; }
extern "C" void go(float* x, float* y, int n) {
  float* p = y;
  (x[0] > 0 ? *(p = x) : y[1]) = 5;
  first<<<1, 1>>>(p, y);
}
"""
    with pytest.raises(UnsupportedError, match=r"kernel\.cu:5: choosing between these two places"):
        translate(program)


def _written(x: npt.NDArray[np.float32]) -> int:
    p = [A, B]
    for k in range(4):
        p[int(x[k] > 0)] = list(x[k:])
    return int(p[0][1] + 100 * p[1][1])


def _levels(x: npt.NDArray[np.float32]) -> int:
    counts = [1, 2, 3]
    for k in range(4):
        counts[(k + int(x[k] > 0)) % 3] += k
    return A[counts[0] % 8] + 10 * B[counts[1] % 8] + 100 * counts[2]


@pytest.mark.parametrize(
    ("code", "way"),
    [
        ("float* p[2] = {a, b + 1}; s = (int)p[0][2] + 100 * (int)p[1][2];", lambda x: A[2] + 100 * B[3]),
        ("float* p[3] = {a, b, x}; for (int k = 0; k < 3; ++k) s += (int)p[k][k];",
         lambda x: A[0] + B[1] + int(x[2])),
        ("const float* const p[2] = {a, b}; s = (int)*p[x[0] > 0];", lambda x: B[0] if x[0] > 0 else A[0]),
        ("float* p[2] = {a, b}; for (int k = 0; k < 4; ++k) p[x[k] > 0] = x + k; s = (int)(p[0][1] + 100 * p[1][1]);",
         lambda x: _written(x)),
        ("float* p[2]; p[0] = a; p[1] = b; float* t = p[0]; p[0] = p[1]; p[1] = t; s = (int)(p[0][1] + 100 * p[1][1]);",
         lambda x: B[1] + 100 * A[1]),
        ("float* p[2] = {a, b}; int c = x[0] > 0; float* t = p[c]; p[c] = p[1 - c]; p[1 - c] = t; s = (int)p[0][3];",
         lambda x: B[3]),
        ("float* p[2] = {a, b}; *p = x; *(1 + p) += 2; s = (int)(**p + 100 * **(p + 1));",
         lambda x: int(x[0]) + 100 * B[2]),
        ("float* p[4] = {a}; if (x[0] > 0) p[2] = b; s = p[2] ? (int)*p[2] + 7 : (int)*p[0];",
         lambda x: B[0] + 7 if x[0] > 0 else A[0]),
        ("float* p[2] = {a, b}; p[x[0] > 0] += 2; ++p[1]; s = (int)(*p[0] + 100 * *p[1]);",
         lambda x: A[0] + 100 * B[3] if x[0] > 0 else A[2] + 100 * B[1]),
        ("float* p[2][2] = {{a, b}, {x, a + 3}}; for (int i = 0; i < 2; ++i) for (int j = 0; j < 2; ++j)\n"
         "  s = 3 * s + (int)p[i][j][1];", lambda x: 27 * A[1] + 9 * B[1] + 3 * int(x[1]) + A[4]),
        ("L v[3] = {{a, 1}, {b, 2}, {a, 3}}; for (int k = 0; k < 4; ++k) v[(k + (x[k] > 0)) % 3].n += k;\n"
         "s = (int)(v[0].p[v[0].n % 8] + 10 * v[1].p[v[1].n % 8]) + 100 * v[2].n;", lambda x: _levels(x)),
        ("L v[2] = {{a, 1}, {b, 2}}; L w = v[x[0] > 0]; v[0] = w; s = (int)v[0].p[w.n];",
         lambda x: B[2] if x[0] > 0 else A[1]),
        ("struct { float* p[2]; } h; h.p[0] = a; h.p[1] = b; s = (int)h.p[x[0] > 0][3];",
         lambda x: B[3] if x[0] > 0 else A[3]),
        ("float* p[2] = {a, b}; int k = 0; while (k < 4) { if (x[k] > 0) { float* t = p[0]; p[0] = p[1]; p[1] = t; }\n"
         "  s += (int)p[0][1]; ++k; }",
         lambda x: sum((B if sum(x[: k + 1] > 0) % 2 else A)[1] for k in range(4))),
        ("float* p[2] = {a, b}; auto flip = [&]() { float* t = p[0]; p[0] = p[1]; p[1] = t; };\n"
         "  flip(); s = (int)p[0][3];", lambda x: B[3]),
        ("float* p[2] = {a, b}; put(p[x[0] > 0], x); s = (int)(p[0][2] + 100 * p[1][2]);",
         lambda x: int(A[2] + 100 * x[2] if x[0] > 0 else x[2] + 100 * B[2])),
    ],
)  # fmt: skip
def test_elements_of_an_array_of_pointers_are_pointers_of_their_own(code: str, way: Way) -> None:
    before = "struct L { float* p; int n; };\n__device__ void put(float*& p, float* x) { p = x; }"
    check(on_device(code, before), way)


@pytest.mark.parametrize(
    ("code", "way"),
    [
        ("for (int k = 0; k < 5; ++k) add<<<1, 1>>>(p[k % 2], y);", lambda x: int(3 * x[0] + 2 * x[1])),
        ("for (int k = 0; k < 7; ++k) { add<<<1, 1>>>(p[k % 3 == 0], y); p[0] = x + k; }",
         lambda x: int(3 * x[1] + x[0] + x[1] + x[3] + x[4])),
        ("for (int k = 0; k < 2; ++k) { cudaMalloc(&p[k], 8 * sizeof(float)); fill<<<1, 8>>>(p[k], 3 + k); }\n"
         "add<<<1, 1>>>(p[0], y); for (int k = 0; k < 10; ++k) add<<<1, 1>>>(p[1], y);", lambda x: 3 + 40),
        ("for (int k = 0; k < 2; ++k) { cudaMalloc((void**)(p + k), 32); fill<<<1, 8>>>(*(p + k), 3 + k); }\n"
         "add<<<1, 1>>>(p[0], y); for (int k = 0; k < 10; ++k) add<<<1, 1>>>(p[1], y);", lambda x: 3 + 40),
        ("int c = 0; for (int k = 0; k < (int)x[4]; ++k) { add<<<1, 1>>>(p[c], y); c ^= 1; }",
         lambda x: int(2 * x[0] + x[1])),
        ("int c = 0; while (c < 3) { add<<<1, 1>>>(p[c & 1], y); ++c; } std::swap(p[0], p[1]); add<<<1, 1>>>(p[0], y);",
         lambda x: int(2 * x[0] + 2 * x[1])),
        ("held[0] = x; if (x[0] > 0) held[1] = x + 2; add<<<1, 1>>>(held[1] ? held[1] : held[0], y);",
         lambda x: int(x[2] if x[0] > 0 else x[0])),
    ],
)  # fmt: skip
def test_the_host_launches_with_elements_of_an_array_of_pointers(code: str, way: Way) -> None:
    program = f"""
#include <utility>
static float* held[2];
__global__ void add(float* p, float* y) {{ y[0] += p[0]; }}
__global__ void fill(float* p, float v) {{ p[threadIdx.x] = v; }}
extern "C" void go(float* x, float* y, int n) {{
  float* p[2] = {{x, x + 1}};
  {code}
}}
"""
    check(program, way)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("float* p[2] = {a, b}; s = (int)*p[2];", "index 2 is outside the array"),
        ("float* p[2] = {a, b}; float** q = p; s = (int)*q[1];", "where an element of it is named"),
        ("float* p[17] = {a, b}; s = (int)p[0][0];", "of no known length up to 16"),
        ("float* p[2][2] = {a, b, x, y}; s = (int)p[0][0][0];", "without inner braces"),
    ],
)
def test_what_is_not_supported_of_arrays_of_pointers_is_said(code: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"kernel\.cu:\d+: .*{message}"):
        translate(on_device(code))
