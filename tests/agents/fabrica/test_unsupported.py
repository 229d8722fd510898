"""What the lowering doesn't understand is named with its line."""

from __future__ import annotations

import pytest
from fabrica_agent.analyst import find_entry
from fabrica_agent.cuda.source import parse
from fabrica_agent.cuda.translator import BufferArgument, ParamArgument, Translator
from fabrica_agent.lowering.fold import i32
from fabrica_agent.lowering.ir import Ty, UnsupportedError

LAUNCH = 'extern "C" void go(float* x, int n) { k<<<1, 32>>>(x, n); }'


def translate(text: str) -> None:
    source = parse(text)
    arguments = {"x": BufferArgument("x", Ty.F32, i32(32)), "n": ParamArgument("n", 32)}
    Translator(source).translate(find_entry(source), arguments)


@pytest.mark.parametrize(
    ("kernel", "line", "what"),
    [
        ("\n__global__ void k(float* x, int n) {\n  goto out;\nout:\n  x[0] = 1; }", 3, "goto"),
        ("__global__ void k(float* x, int n) {\n  x[0] = atan2f(x[1], x[2]); }", 2, "atan2"),
        ("__device__ int f(int a) { return a ? f(a - 1) : 0; }\n__global__ void k(float* x, int n) { x[f(n)] = 1; }", 1,
         "recursion"),
        ("__global__ void k(float* x, int n) {\n  __shared__ float s[4]; float* p;\n  x[0] > 0 ? (p = x) : (p = s);\n}",
         3, "moving a pointer to another array"),
        ("__global__ void k(float* x, int n) {\n  __shared__ float s[4]; float* p = s;\n  x[0] > 0 && (p = x);\n}",
         3, "moving a pointer to another array"),
        ("__global__ void k(float* x, int n) {\n  __shared__ float s[4]; float* p = x[0] > 0 ? x : s;\n"
         "  x[1] = p < x;\n}",
         3, "comparing pointers"),
        ("__device__ float* f(float* x) {\n  if (x[0] > 0) return nullptr;\n  return x; }\n"
         "__global__ void k(float* x, int n) { f(x)[0] = 1; }", 2, "null pointer"),
        ("__global__ void k(float* x, int n) {\n  float a[1], b[1], c[1], d[1], *p = x;\n"
         "  for (int i = 0; i < n; ++i) {\n"
         "    if (x[i] == 1) p = a; else if (x[i] == 2) p = b; else if (x[i] == 3) p = c; else if (x[i] == 4) p = d;\n"
         "    *p = x[i]; } }", 3, "more than 4 arrays"),
        ("__global__ void k(float* x, int n) {\n  x[0] = ((char*)x)[1]; }", 2, "pointer cast"),
        ("union U { float f; short s; };\n__global__ void k(float* x, int n) {\n  U u; u.s = 1; x[0] = u.f; }", 3,
         "same width"),
    ],
)  # fmt: skip
def test_the_construct_and_its_line_are_named(kernel: str, line: int, what: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        translate(f"{kernel}\n{LAUNCH}")
    assert what in str(caught.value)
    assert f"kernel.cu:{line}" in str(caught.value)


def test_syntax_errors_name_their_line() -> None:
    with pytest.raises(UnsupportedError, match=r"kernel\.cu:2"):
        parse("__global__ void k(float* x) {\n  x[0] = ;\n}")


def test_unknown_headers_are_named() -> None:
    with pytest.raises(UnsupportedError, match="cub/cub"):
        parse("#include <cub/cub.cuh>\n")


def test_a_source_without_a_launcher_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no host function launches"):
        find_entry(parse("__global__ void k(float* x) { x[0] = 1; }"))


def test_an_unknown_block_size_is_refused() -> None:
    text = "__global__ void k(float* x, int n) { x[0] = n; }\n"
    text += 'extern "C" void go(float* x, int n) { int b = (int)x[0]; k<<<1, b>>>(x, n); }'
    with pytest.raises(UnsupportedError, match="block size"):
        translate(text)
