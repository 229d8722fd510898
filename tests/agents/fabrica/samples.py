"""CUDA samples of many styles with NumPy oracles: what the lowering is measured on.

Each sample is a file under `cuda/`, launcher of the same name. `arrays` makes its arrays, `sizes` its integer
parameters, `expected` the outputs in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
CUDA = Path(__file__).parent / "cuda"


@dataclass(frozen=True)
class Sample:
    """One CUDA file.

    Attributes:
        name: File stem and launcher name.
        sizes: Integer parameters that become compile-time sizes.
        arrays: Initial arrays by parameter name, outputs included.
        outputs: Arrays to compare.
        expected: From initial arrays and sizes.
        scalars: Floating-point arguments of the entry.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
    """

    name: str
    sizes: Mapping[str, int]
    arrays: Callable[[np.random.Generator, Mapping[str, int]], Arrays]
    outputs: tuple[str, ...]
    expected: Callable[[Arrays, Mapping[str, int]], Arrays]
    scalars: Mapping[str, float] = field(default_factory=dict)
    rtol: float = 1e-5
    atol: float = 1e-5

    @property
    def text(self) -> str:
        """The CUDA source."""
        return (CUDA / f"{self.name}.cu").read_text(encoding="utf-8")


def _make(**makers: Any) -> Callable[[np.random.Generator, Mapping[str, int]], Arrays]:
    """Arrays from makers: callables of generator and sizes."""

    def build(rng: np.random.Generator, sizes: Mapping[str, int]) -> Arrays:
        out: Arrays = {}
        for name, maker in makers.items():
            out[name] = np.asarray(maker(rng, sizes))
        return out

    return build


def _normal(*shape: str | int) -> Callable[[np.random.Generator, Mapping[str, int]], Array]:
    def make(rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        extents = [sizes[s] if isinstance(s, str) else s for s in shape]
        return rng.standard_normal(extents).astype(np.float32)

    return make


def _ints(low: int, high: int, *shape: str | int, dtype: Any = np.int32) -> Callable[..., Array]:
    def make(rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        extents = [sizes[s] if isinstance(s, str) else s for s in shape]
        return rng.integers(low, high, extents).astype(dtype)

    return make


def _empty(*shape: str | int, dtype: Any = np.float32) -> Callable[..., Array]:
    def make(_: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        extents = [sizes[s] if isinstance(s, str) else s for s in shape]
        return np.full(extents, 7, dtype)

    return make


def _d(a: Array) -> Array:
    return a.astype(np.float64)


def _jacobi(a: Arrays, s: Mapping[str, int]) -> Arrays:
    u = _d(a["u"])
    for _ in range(s["iterations"]):
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1])
        u = new
    return {"u": u}


def _csr(rng: np.random.Generator, sizes: Mapping[str, int]) -> Arrays:
    rows = sizes["rows"]
    counts = rng.integers(0, 5, rows)
    pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    total = int(pointers[-1])
    return {
        "row_ptr": pointers,
        "col_idx": rng.integers(0, rows, total).astype(np.int32),
        "values": rng.standard_normal(total).astype(np.float32),
        "x": rng.standard_normal(rows).astype(np.float32),
        "y": np.full(rows, 7, np.float32),
    }


def _spmv(a: Arrays, s: Mapping[str, int]) -> Arrays:
    y = np.zeros(s["rows"])
    for r in range(s["rows"]):
        part = slice(a["row_ptr"][r], a["row_ptr"][r + 1])
        y[r] = np.dot(_d(a["values"][part]), _d(a["x"])[a["col_idx"][part]])
    return {"y": y}


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def _compact(a: Arrays, s: Mapping[str, int]) -> Arrays:
    kept = a["in"][a["in"] > 0]
    out = np.zeros_like(a["in"])
    out[: kept.size] = kept
    return {"out": out, "count": np.array([kept.size])}


def _mandelbrot(_: Arrays, s: Mapping[str, int]) -> Arrays:
    out = np.zeros((s["height"], s["width"]), np.int32)
    one = np.float32
    for y in range(s["height"]):
        for x in range(s["width"]):
            cr = one(-2) + one(3) * one(x) / one(s["width"])
            ci = one(-1) + one(2) * one(y) / one(s["height"])
            zr = zi = one(0)
            k = 0
            while k < s["limit"]:
                r2, i2 = zr * zr, zi * zi
                if r2 + i2 > 4:
                    break
                zi = one(2) * zr * zi + ci
                zr = r2 - i2 + cr
                k += 1
            out[y, x] = k
    return {"out": out}


def _mix(h: Array) -> Array:
    h = h.astype(np.uint64)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint64(shift)
        h = h * np.uint64(factor) & np.uint64(0xFFFFFFFF)
    return (h ^ (h >> np.uint64(16))).astype(np.uint32)


def _collatz(v: int) -> int:
    count = 0
    while v != 1:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        count += 1
    return count


def _life(a: Arrays, s: Mapping[str, int]) -> Arrays:
    cells = a["in"]
    around = sum(np.roll(cells, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - cells
    return {"out": ((around == 3) | ((cells == 1) & (around == 2))).astype(np.int32)}


def _switch(a: Arrays, s: Mapping[str, int]) -> Arrays:
    x = _d(a["x"])
    return {"y": np.choose(a["mode"], [x, x * x, np.clip(x, -1, 1)])}


def _poly(a: Arrays, s: Mapping[str, int]) -> Arrays:
    own = _d(a["coefficients"]) * np.arange(1, 6)
    return {"y": sum(own[k] * _d(a["x"]) ** k for k in range(5))}


def _unit(a: Arrays, s: Mapping[str, int]) -> Arrays:
    v = _d(a["v"])
    return {"unit": v / np.sqrt((v * v).sum(axis=1, keepdims=True) + 1e-3)}


def _blur(a: Arrays, s: Mapping[str, int]) -> Arrays:
    weights = np.array([0.0625, 0.25, 0.375, 0.25, 0.0625])
    padded = np.pad(_d(a["img"]), 2, mode="edge")
    rows = sum(w * padded[k : k + s["rows"]] for k, w in enumerate(weights))
    return {"res": sum(w * rows[:, k : k + s["cols"]] for k, w in enumerate(weights))}


def _scramble(a: Arrays, s: Mapping[str, int]) -> Arrays:
    words = []
    for k, seed in enumerate(a["seed"].tolist()):
        v = seed | 1
        for _ in range(s["rounds"]):
            v ^= v << 13 & 0xFFFFFFFF
            v ^= v >> 17
            v ^= v << 5 & 0xFFFFFFFF
            match v & 3:
                case 0:
                    v = (v << 7 | v >> 25) & 0xFFFFFFFF
                case 1:
                    v = v + 0x9E3779B9 & 0xFFFFFFFF
                case 2:
                    v = ~v & 0xFFFFFFFF ^ k
                case _:
                    v ^= k
        words.append(v)
    return {"word": np.array(words), "ones": np.array([v.bit_count() - (v >> 31) for v in words])}


def _narrow(a: Arrays, s: Mapping[str, int]) -> Arrays:
    x = a["x"]
    byte, half = x.astype(np.int8), x.astype(np.int16).astype(np.int32)
    product = (half * half).astype(np.uint16).astype(np.int32)
    wide = (x.astype(np.int64) * 1000003 >> 20).astype(np.int32)
    shifts = (x.astype(np.uint8) >> 3).astype(np.int32) + (byte >> 2)
    return {"y": ((byte.astype(np.int32) * 3).astype(np.int8) + product + shifts) ^ wide}


def _taken(a: Arrays, s: Mapping[str, int]) -> Arrays:
    zeros = np.array([32 - int(v).bit_length() for v in a["clz"]])
    return {
        "position": np.exp(_d(a["math"])) + zeros, "i": 2 * _d(a["window"]) + 1,
        "i1": _d(a["i0"])[:, None] + _d(a["window"]),
    }  # fmt: skip


def _tridiagonal(a: Arrays, s: Mapping[str, int]) -> Arrays:
    solved = []
    for lower, main, upper, right in zip(_d(a["a"]), _d(a["b"]), _d(a["c"]), _d(a["d"]), strict=True):
        solved.append(np.linalg.solve(np.diag(main) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1), right))
    return {"x": np.array(solved)}


def _tiles(a: Arrays, s: Mapping[str, int]) -> Arrays:
    warps = _d(a["x"]).reshape(-1, 32)
    return {"out": warps.sum(1) + warps[:, :16].max(1)}


def _cases(a: Arrays, s: Mapping[str, int]) -> Arrays:
    x = _d(a["x"])
    return {"y": np.choose(a["op"], [np.where(x < 0, -x, 2 * x), x + 1, -x, -x, np.full_like(x, 9)])}


def _segmented(a: Arrays, s: Mapping[str, int]) -> Arrays:
    sums: list[int] = []
    for value, first in zip(a["x"].tolist(), a["f"].tolist(), strict=True):
        sums.append(value if first or not sums else sums[-1] + value)
    return {"y": np.array(sums)}


def _wave(a: Arrays, s: Mapping[str, int]) -> Arrays:
    past = now = _d(a["x"])
    for _ in range(s["steps"]):
        later = np.zeros_like(now)
        later[1:-1] = 2 * now[1:-1] - past[1:-1] + 0.1 * (now[:-2] - 2 * now[1:-1] + now[2:])
        past, now = now, later
    return {"y": now}


def _levels(a: Arrays, s: Mapping[str, int]) -> Arrays:
    found = {0: 0}
    todo = [0]
    for v in todo:
        for w in np.flatnonzero(a["adj"][v]).tolist():
            if w not in found:
                found[w] = found[v] + 1
                todo.append(w)
    return {"dist": np.array([found.get(v, -1) for v in range(s["n"])])}


def _smooth(a: Arrays, s: Mapping[str, int]) -> Arrays:
    y = _d(a["x"])
    for _ in range(s["steps"]):
        y = np.convolve(y, [0.25, 0.5, 0.25], "same")
    return {"y": y}


def _grids(a: Arrays, s: Mapping[str, int]) -> Arrays:
    grids = [_smooth(a, {"steps": s["steps"] - k})["y"] for k in range(2)]
    even, odd = grids if s["steps"] % 2 else grids[::-1]
    return {"y": _d(a["x"]) - 2 * even + 4 * odd}


def _branches(a: Arrays, s: Mapping[str, int]) -> Arrays:
    x, y = _d(a["a"]), _d(a["b"])
    for it in range(s["steps"]):
        if it % 2:
            x = 0.5 * np.roll(y, -it) + 1
        else:
            y = 0.5 * np.roll(x, -it) + 1
    turned = False
    for it in range(1, s["steps"] + 1):
        turned ^= it % 2 == 0
        if turned:
            x = 0.5 * np.roll(y, -2) + 1
        else:
            y = 0.5 * np.roll(x, -2) + 1
    return {"a": x, "b": y}


def _counted_late(a: Arrays, s: Mapping[str, int]) -> Arrays:
    now = _d(a["x"])
    for t in (*range(int(a["count"][0])), 3, 2, 1):
        now = 0.5 * now + t
    return {"y": now}


def _select(a: Arrays, s: Mapping[str, int]) -> Arrays:
    n = s["n"]
    x, y = _d(a["x"]), _d(a["y"])
    low, high = _d(a["low"]), _d(a["high"])
    for i in range(n):
        out = low if i % 2 else high
        out[i + 1] = 2 * max(x[i], y[i]) + (y[1] if i > n // 2 else x[0])
        (low if y[i] > 0 else high)[i + n + 1] = x[i] if x[i] < 0 else y[i % 8]
        high[i + 2 * n + 1] = (x[i], y[i + 1], x[i + 2])[i % 3] + (i % 3 == 2)
        (low if i % 4 < 2 else high)[0] += 1
        high[0] += x[0] if i % 5 == 0 else y[0] if i % 5 == 3 else y[i // 8 * 8]
        last = -1.0
        for k in range(4):
            if x[(i + k) % n] > 1:
                last = (x if k % 2 else y)[k]
            if y[(i + k) % n] > 1.5:
                break
        low[i + 2 * n + 1] = last
    return {"low": low, "high": high}


SAMPLES: tuple[Sample, ...] = (
    Sample(
        "vector_add", {"n": 300}, _make(a=_normal("n"), b=_normal("n"), c=_empty("n")), ("c",),
        lambda a, s: {"c": _d(a["a"]) + a["b"]},
    ),
    Sample(
        "relu_template", {"n": 300}, _make(x=_normal("n"), out=_empty("n")), ("out",),
        lambda a, s: {"out": np.maximum(_d(a["x"]), 0)},
    ),
    Sample(
        "leaky_relu", {"n": 250}, _make(x=_normal("n"), y=_empty("n")), ("y",),
        lambda a, s: {"y": np.where(a["x"] > 0, _d(a["x"]), 0.01 * _d(a["x"]))},
    ),
    Sample(
        "saxpy_float4", {"n": 200}, _make(x=_normal("n"), y=_normal("n")), ("y",),
        lambda a, s: {"y": 1.25 * _d(a["x"]) + a["y"]}, scalars={"a": 1.25},
    ),
    Sample(
        "sum_tree", {"n": 300}, _make(x=_normal("n"), total=_empty(1)), ("total",),
        lambda a, s: {"total": np.array([_d(a["x"]).sum()])}, atol=1e-4,
    ),
    Sample(
        "sum_shuffle", {"n": 700}, _make(x=_normal("n"), total=_empty(1)), ("total",),
        lambda a, s: {"total": np.array([_d(a["x"]).sum()])}, atol=1e-4,
    ),
    Sample(
        "dot_two_kernels", {"n": 300}, _make(h_a=_normal("n"), h_b=_normal("n"), h_result=_empty(1)), ("h_result",),
        lambda a, s: {"h_result": np.array([np.dot(_d(a["h_a"]), _d(a["h_b"]))])}, atol=1e-4,
    ),
    Sample(
        "max_cas", {"n": 100}, _make(x=_normal("n"), result=_empty(1)), ("result",),
        lambda a, s: {"result": np.array([a["x"].max()])},
    ),
    Sample(
        "scan_blelloch", {"n": 300}, _make(x=_normal("n"), out=_empty("n")), ("out",),
        lambda a, s: {"out": np.cumsum(_d(a["x"]))}, atol=1e-4,
    ),
    Sample(
        "scan_double_buffer", {"n": 128}, _make(x=_normal("n"), out=_empty("n")), ("out",),
        lambda a, s: {"out": np.cumsum(_d(a["x"]))}, atol=1e-4,
    ),
    Sample(
        "scan_warp", {"n": 200}, _make(x=_normal("n"), out=_empty("n")), ("out",),
        lambda a, s: {"out": np.cumsum(_d(a["x"]))}, atol=1e-4,
    ),
    Sample(
        "matvec_row_thread", {"rows": 40, "cols": 24},
        _make(A=_normal("rows", "cols"), x=_normal("cols"), y=_empty("rows")), ("y",),
        lambda a, s: {"y": _d(a["A"]) @ _d(a["x"])},
    ),
    Sample(
        "matvec_row_warp", {"rows": 22, "cols": 50},
        _make(A=_normal("rows", "cols"), x=_normal("cols"), y=_empty("rows")), ("y",),
        lambda a, s: {"y": _d(a["A"]) @ _d(a["x"])},
    ),
    Sample(
        "gemm_naive", {"M": 10, "N": 12, "K": 9},
        _make(A=_normal("M", "K"), B=_normal("K", "N"), C=_normal("M", "N")), ("C",),
        lambda a, s: {"C": 1.5 * (_d(a["A"]) @ _d(a["B"])) + 0.5 * a["C"]},
    ),
    Sample(
        "gemm_tiled", {"M": 12, "N": 20, "K": 10},
        _make(A=_normal("M", "K"), B=_normal("K", "N"), C=_empty("M", "N")), ("C",),
        lambda a, s: {"C": _d(a["A"]) @ _d(a["B"])},
    ),
    Sample(
        "transpose_padded", {"width": 20, "height": 24},
        lambda rng, s: {
            "in": rng.standard_normal((s["height"], s["width"])).astype(np.float32),
            "out": np.zeros((s["width"], s["height"]), np.float32),
        },
        ("out",), lambda a, s: {"out": a["in"].T},
    ),
    Sample(
        "stencil_1d", {"n": 150},
        lambda rng, s: {
            "in": rng.standard_normal(s["n"] + 6).astype(np.float32), "out": np.zeros(s["n"], np.float32)
        },
        ("out",), lambda a, s: {"out": np.convolve(_d(a["in"]), np.ones(7), "valid")},
    ),
    Sample(
        "jacobi_swap", {"ny": 9, "nx": 14, "iterations": 5}, _make(u=_normal("ny", "nx")), ("u",), _jacobi,
    ),
    Sample(
        "histogram_shared", {"n": 300}, _make(data=_ints(-2, 18, "n"), bins=_empty(16, dtype=np.int32)), ("bins",),
        lambda a, s: {"bins": np.bincount(a["data"][(a["data"] >= 0) & (a["data"] < 16)], minlength=16)},
    ),
    Sample(
        "softmax_rows", {"rows": 5, "cols": 70}, _make(x=_normal("rows", "cols"), out=_empty("rows", "cols")), ("out",),
        lambda a, s: {"out": _softmax(_d(a["x"]))},
    ),
    Sample(
        "silu_double", {"n": 120}, _make(x=_normal("n"), y=_empty("n")), ("y",),
        lambda a, s: {"y": _d(a["x"]) / (1 + np.exp(-_d(a["x"])))},
    ),
    Sample(
        "gelu_erf", {"n": 120}, _make(x=_normal("n"), y=_empty("n")), ("y",),
        lambda a, s: {"y": 0.5 * _d(a["x"]) * (1 + special.erf(_d(a["x"]) / np.sqrt(2)))}, atol=2e-6,
    ),
    Sample(
        "rmsnorm", {"n": 100}, _make(out=_empty("n"), x=_normal("n"), weight=_normal("n")), ("out",),
        lambda a, s: {"out": a["weight"] * _d(a["x"]) / np.sqrt((_d(a["x"]) ** 2).mean() + 1e-5)},
    ),
    Sample("spmv_csr", {"rows": 40}, _csr, ("y",), _spmv),
    Sample(
        "bitonic_sort", {"n": 64}, _make(x=_normal("n")), ("x",), lambda a, s: {"x": np.sort(a["x"])},
    ),
    Sample(
        "conv1d_constant", {"n": 100}, _make(x=_normal("n"), taps=_normal(5), y=_empty("n")), ("y",),
        lambda a, s: {"y": np.convolve(_d(a["x"]), _d(a["taps"])[::-1], "same")},
    ),
    Sample(
        "complex_multiply", {"n": 50}, _make(a=_normal("n", 2), b=_normal("n", 2), c=_empty("n", 2)), ("c",),
        lambda a, s: {
            "c": (lambda z: np.stack([z.real, z.imag], 1))(
                (a["a"] @ np.array([1, 1j])) * (a["b"] @ np.array([1, 1j]))
            )
        },
    ),
    Sample(
        "compact_ballot", {"n": 100},
        lambda rng, s: {
            "in": rng.integers(-5, 6, s["n"]).astype(np.int32), "out": np.full(s["n"], 7, np.int32),
            "count": np.full(1, 7, np.int32),
        },
        ("out", "count"), _compact,
    ),
    Sample(
        "mandelbrot", {"width": 12, "height": 10, "limit": 20}, _make(out=_empty("height", "width", dtype=np.int32)),
        ("out",), _mandelbrot,
    ),
    Sample(
        "hash_uint", {"n": 80},
        lambda rng, s: {
            "in": rng.integers(0, 1 << 32, s["n"], dtype=np.uint64).astype(np.uint32),
            "out": np.zeros(s["n"], np.uint32),
        },
        ("out",), lambda a, s: {"out": _mix((a["in"].astype(np.uint64) + 17 * 2654435761).astype(np.uint32))},
    ),
    Sample(
        "collatz", {"n": 40}, _make(start=_ints(1, 100, "n"), count=_empty("n", dtype=np.int32)), ("count",),
        lambda a, s: {"count": np.array([_collatz(int(v)) for v in a["start"]])},
    ),
    Sample(
        "argmin_struct", {"n": 150}, _make(x=_normal("n"), where=_empty(1, dtype=np.int32)), ("where",),
        lambda a, s: {"where": np.array([a["x"].argmin()])},
    ),
    Sample(
        "life_int", {"h": 10, "w": 9},
        lambda rng, s: {
            "in": rng.integers(0, 2, (s["h"], s["w"])).astype(np.int32), "out": np.zeros((s["h"], s["w"]), np.int32)
        },
        ("out",), _life,
    ),
    Sample(
        "activation_switch", {"n": 70}, _make(x=_normal("n"), mode=_ints(0, 3, "n"), y=_empty("n")), ("y",), _switch,
    ),
    Sample(
        "polynomial_register_array", {"n": 70}, _make(coefficients=_normal(5), x=_normal("n"), y=_empty("n")), ("y",),
        _poly, rtol=1e-4, atol=1e-3,
    ),
    Sample(
        "last_block_sum", {"n": 200}, _make(x=_normal("n"), total=_empty(1)), ("total",),
        lambda a, s: {"total": np.array([_d(a["x"]).sum()])}, atol=1e-4,
    ),
    Sample(
        "lambda_device", {"n": 100}, _make(x=_normal("n"), y=_empty("n")), ("y",),
        lambda a, s: {"y": 3 * _d(a["x"])[::-1]},
    ),
    Sample(
        "pointer_walk", {"rows": 9, "cols": 13}, _make(x=_normal("rows", "cols"), y=_empty("rows")), ("y",),
        lambda a, s: {"y": a["x"].max(axis=1)},
    ),
    Sample(
        "half_scale", {"n": 90},
        lambda rng, s: {"x": rng.standard_normal(s["n"]).astype(np.float16), "y": np.zeros(s["n"], np.float16)},
        ("y",), lambda a, s: {"y": 2.5 * _d(a["x"])}, rtol=1e-3,
    ),
    Sample(
        "returns_value", {"n": 60}, _make(x=_normal("n"), result=_empty(1)), ("result",),
        lambda a, s: {"result": np.array([np.sqrt((_d(a["x"]) ** 2).sum())])},
    ),
    Sample(
        "fast_rsqrt_union", {"n": 150}, _make(v=_normal("n", 3), unit=_empty("n", 3)), ("unit",), _unit, rtol=1e-4,
    ),
    Sample(
        "box_blur_constant", {"rows": 11, "cols": 19}, _make(img=_normal("rows", "cols"), res=_empty("rows", "cols")),
        ("res",), _blur,
    ),
    Sample(
        "welford_struct", {"rows": 5, "cols": 77},
        _make(x=_normal("rows", "cols"), mean=_empty("rows"), variance=_empty("rows")), ("mean", "variance"),
        lambda a, s: {"mean": _d(a["x"]).mean(axis=1), "variance": _d(a["x"]).var(axis=1)},
    ),
    Sample(
        "functor_transform_reduce", {"n": 210}, _make(x=_normal("n"), energy=_empty(1), spread=_empty(1)),
        ("energy", "spread"),
        lambda a, s: {
            "energy": np.array([(_d(a["x"]) ** 2).sum()]), "spread": np.array([np.abs(_d(a["x"]) - 0.25).max()])
        },
        scalars={"center": 0.25}, atol=1e-4,
    ),
    Sample(
        "lfsr_bits", {"n": 50, "rounds": 6},
        _make(
            seed=_ints(0, 1 << 32, "n", dtype=np.uint32), word=_empty("n", dtype=np.uint32),
            ones=_empty("n", dtype=np.int32),
        ),
        ("word", "ones"), _scramble, rtol=0, atol=0.5,
    ),
    Sample(
        "narrow_integers", {"n": 50}, _make(x=_ints(-(1 << 31), 1 << 31, "n"), y=_empty("n", dtype=np.int32)), ("y",),
        _narrow, rtol=0, atol=0.5,
    ),
    Sample(
        "dot_packed_bytes", {"n": 16},
        _make(
            a=_ints(0, 1 << 32, "n", dtype=np.uint32), b=_ints(0, 1 << 32, "n", dtype=np.uint32),
            out=_empty("n", dtype=np.int32),
        ),
        ("out",),
        lambda a, s: {"out": (_d(a["a"].view(np.int8)) * a["b"].view(np.int8)).reshape(-1, 4).sum(1)},
        rtol=0, atol=0.5,
    ),
    Sample(
        "taken_names", {"n": 40},
        _make(
            clz=_ints(0, 1 << 32, "n", dtype=np.uint32), math=_normal("n"), position=_empty("n"), i=_empty("n"),
            window=_normal("n"), i1=_empty("n", "n"), i0=_normal("n"),
        ),
        ("position", "i", "i1"), _taken,
    ),
    Sample(
        "gemm_double_buffer", {"m": 8, "n": 8, "k": 12},
        _make(A=_normal("m", "k"), B=_normal("k", "n"), C=_empty("m", "n")), ("C",),
        lambda a, s: {"C": _d(a["A"]) @ _d(a["B"])},
    ),
    Sample(
        "tridiagonal", {"sys": 5, "n": 8},
        lambda rng, s: {
            k: (rng.standard_normal((s["sys"], s["n"])) + 4 * (k == "b")).astype(np.float32) for k in "abcdx"
        },
        ("x",), _tridiagonal, rtol=1e-4,
    ),
    Sample("tiles_cooperative", {"n": 128}, _make(x=_normal("n"), out=_empty(4)), ("out",), _tiles, atol=1e-4),
    Sample(
        "switch_early_break", {"n": 40}, _make(x=_normal("n"), op=_ints(0, 5, "n"), y=_empty("n")), ("y",), _cases,
    ),
    Sample(
        "do_while_continue", {"n": 30}, _make(x=_ints(1, 60, "n"), y=_empty("n", dtype=np.int32)), ("y",),
        lambda a, s: {"y": np.array([sum(k for k in range(1, v + 1) if k % 3) for v in a["x"].tolist()])},
    ),
    Sample(
        "argmin_shared_struct", {"n": 32}, _make(x=_normal("n"), v=_empty(1), at=_empty(1, dtype=np.int32)),
        ("v", "at"), lambda a, s: {"v": np.array([a["x"].min()]), "at": np.array([a["x"].argmin()])},
    ),
    Sample(
        "byte_counters", {"n": 20}, _make(x=_ints(0, 300, "n"), y=_empty("n", dtype=np.int32)), ("y",),
        lambda a, s: {"y": a["x"] % 256},
    ),
    Sample(
        "axpy_half2", {"n": 32},
        lambda rng, s: {k: rng.standard_normal(s["n"]).astype(np.float16) for k in "xy"},
        ("y",), lambda a, s: {"y": 0.5 * _d(a["x"]) + a["y"]}, rtol=2e-3, atol=2e-3,
    ),
    Sample(
        "struct_tables", {"n": 20}, _make(x=_ints(0, 3, "n"), y=_empty("n")), ("y",),
        lambda a, s: {"y": np.array([3.0, 10.0, -18.0])[a["x"]]},
    ),
    Sample(
        "constant_scalars", {"n": 20}, _make(x=_normal("n"), y=_empty("n"), last=_empty(1)), ("y", "last"),
        lambda a, s: {"y": 1.5 * _d(a["x"]) + s["n"], "last": np.array([1.5])},
    ),
    Sample(
        "scan_segmented", {"n": 64},
        _make(x=_ints(0, 5, "n"), f=_ints(0, 2, "n"), y=_empty("n", dtype=np.int32)), ("y",), _segmented,
    ),
    Sample(
        "sign_bits", {"n": 30}, _make(x=_normal("n"), z=_empty("n")), ("z",),
        lambda a, s: {"z": np.fmod(10 * _d(a["x"]), 3) + np.copysign(1.5, a["x"]) + np.signbit(a["x"])}, atol=1e-4,
    ),
    Sample(
        "bits_of_constant", {"n": 40}, _make(x=_normal("n"), y=_empty("n", dtype=np.int32)), ("y",),
        lambda a, s: {"y": (0x3F800000 - a["x"].view(np.uint32)).astype(np.int32)}, rtol=0, atol=0.5,
    ),
    Sample(
        "wave_three_buffers", {"n": 20, "steps": 8}, _make(x=_normal("n"), y=_empty("n")), ("y",), _wave, atol=1e-4,
    ),
    Sample(
        "bfs_levels", {"n": 10},
        lambda rng, s: {
            "adj": (rng.random((s["n"], s["n"])) < 0.2).astype(np.int32), "dist": np.full(s["n"], 7, np.int32)
        },
        ("dist",), _levels, rtol=0, atol=0.5,
    ),
    Sample("pingpong_parity", {"n": 20, "steps": 12}, _make(x=_normal("n"), y=_empty("n")), ("y",), _smooth),
    Sample("pingpong_branches", {"n": 40, "steps": 11}, _make(a=_normal("n"), b=_normal("n")), ("a", "b"), _branches),
    Sample(
        "pingpong_counted_late", {"n": 20},
        _make(x=_normal("n"), y=_empty("n"), count=lambda rng, s: np.array([5], np.int32)), ("y",), _counted_late,
    ),
    Sample(
        "pointer_select", {"n": 24},
        lambda rng, s: {
            **{name: rng.standard_normal(s["n"] + 4).astype(np.float32) for name in "xy"},
            **{name: np.zeros(3 * s["n"] + 2, np.float32) for name in ("low", "high")},
        },
        ("low", "high"), _select,
    ),
    Sample(
        "pointer_rotation", {"n": 32}, _make(x=_normal("n"), y=_empty("n")), ("y",),
        lambda a, s: {"y": np.cumsum(_d(a["x"]))},
    ),
    Sample("pointer_arrays", {"n": 24, "steps": 5}, _make(x=_normal("n"), y=_empty("n")), ("y",), _grids),
)  # fmt: skip

BY_NAME = {s.name: s for s in SAMPLES}
