"""How each validation program is run and which figure of it is compared: one function per program.

A function takes a point and returns cycles, after it has checked the program's result where the program has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from validation.examples import example_cycles
from validation.harness import Run
from validation.points import Point

Vector = npt.NDArray[Any]
Case = Callable[[Point], float]
CASES: Final[dict[str, Case]] = {}


class WrongResult(Exception):
    """A validation program computed something else than it should; its cycles would mean nothing."""


def _case(function: Case) -> Case:
    CASES[function.__name__.removeprefix("_")] = function
    return function


def _data(seed: int, *shape: int) -> Vector:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _check(point: Point, name: str, found: Vector, expected: Any) -> None:
    if not np.allclose(found, expected, rtol=2e-3, atol=2e-3):
        raise WrongResult(f"{point.id}: {name} is wrong")


# ------------------------------------------------------------------------------------------------------ one PE


@_case
def _loops(point: Point) -> float:
    n = point.number("n")
    x, y, w = (_data(seed, n) for seed in (1, 2, 3))
    run = Run(point.program, point.arch, point.numbers)
    for name, values in (("x", x), ("y", y), ("w", w)):
        run.put(name, values)
    run.launch(point.measure)
    expected = _loop_result(point.measure, x, y, w)
    target = "y" if point.measure == "saxpy" else "out"
    _check(point, target, run.get(target, expected.size).ravel(), expected)
    return run.longest()


def _loop_result(name: str, x: Vector, y: Vector, w: Vector) -> Vector:
    exp = np.exp(x - x.max())
    results: dict[str, Any] = {
        "sum": x.sum(),
        "max": x.max(),
        "prefix": np.cumsum(x),
        "dot": x @ y,
        "saxpy": 2.5 * x + y,
        "mse": np.mean((x - y) ** 2),
        "relu": np.maximum(x, 0),
        "sigmoid": 1 / (1 + np.exp(-x)),
        "silu": x / (1 + np.exp(-x)),
        "gelu": 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
        "l2norm": x / np.sqrt(np.sum(x * x)),
        "rmsnorm": x / np.sqrt(np.mean(x * x) + 1e-6) * w,
        "softmax": exp / exp.sum(),
        "cross_entropy": np.log(exp.sum()) - (x[7] - x.max()),
    }
    return np.atleast_1d(results[name])


@_case
def _histogram(point: Point) -> float:
    n, buckets, width = (point.number(name) for name in ("n", "buckets", "width"))
    values = np.random.default_rng(1).integers(0, buckets * width, n).astype(np.uint32)
    run = Run(point.program, point.arch, point.numbers)
    run.put("values", values)
    run.launch("main")
    expected = np.bincount(values // width % buckets, minlength=buckets)
    _check(point, "counts", run.get("counts", buckets, np.uint32).ravel(), expected)
    return run.longest()


@_case
def _gemm_loop(point: Point) -> float:
    m, k, n = (point.number(name) for name in ("m", "k", "n"))
    a, b = _data(1, m, k), _data(2, k, n)
    run = Run(point.program, point.arch, point.numbers)
    run.put("A", a.ravel())
    run.put("B", b.ravel())
    run.launch("main")
    _check(point, "C", run.get("C", m * n).reshape(m, n), a @ b)
    return run.longest()


@_case
def _dft_loop(point: Point) -> float:
    n = point.number("n")
    x = _data(1, n)
    angle = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n
    run = Run(point.program, point.arch, point.numbers)
    run.put("x", x)
    run.put("cosines", np.cos(angle).astype(np.float32).ravel())
    run.put("sines", (-np.sin(angle)).astype(np.float32).ravel())
    run.launch("main")
    expected = np.fft.fft(x)
    _check(point, "re", run.get("re", n).ravel(), expected.real)
    _check(point, "im", run.get("im", n).ravel(), expected.imag)
    return run.longest()


@_case
def _transpose(point: Point) -> float:
    n = point.number("n")
    a = _data(1, n, n, n)
    run = Run(point.program, point.arch, point.numbers)
    run.put("A", a.ravel())
    run.launch("main")
    _check(point, "B", run.get("B", n**3).reshape(n, n, n), a.transpose(0, 2, 1))
    return run.longest()


@_case
def _stencil7(point: Point) -> float:
    n = point.number("n")
    x = _data(1, n, n, n)
    run = Run(point.program, point.arch, point.numbers)
    run.put("x", x.ravel())
    run.launch("main")
    p = np.pad(x, 1)
    neighbours = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1]
    neighbours = neighbours + p[1:-1, 2:, 1:-1] + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:]
    _check(point, "y", run.get("y", n**3).reshape(n, n, n), 6 * x - neighbours)
    return run.longest()


@_case
def _spmv(point: Point) -> float:
    rows, nnz = point.number("rows"), point.number("nnz")
    places = np.sort(np.random.default_rng(7).choice(rows * rows, nnz, replace=False))
    row, column = places // rows, places % rows
    value, x = _data(1, nnz), _data(2, rows)
    run = Run(point.program, point.arch, point.numbers)
    run.put("row_start", np.searchsorted(row, np.arange(rows + 1)).astype(np.uint32))
    run.put("column", column.astype(np.uint32))
    run.put("value", value)
    run.put("x", x)
    run.launch("main")
    expected = np.bincount(row, value * x[column], minlength=rows)
    _check(point, "y", run.get("y", rows).ravel(), expected)
    return run.longest()


@_case
def _pdft_loop(point: Point) -> float:
    grid, n = point.number("ngrid"), point.number("ncas")
    orbital, weights = _data(1, grid, n), _data(2, n * n, n * n)
    run = Run(point.program, point.arch, point.numbers)
    run.put("orbital", orbital.ravel())
    run.put("weights", weights.ravel())
    run.launch("main")
    k = np.einsum("gi,gj->gij", orbital, orbital).reshape(grid, n * n)
    _check(point, "result", run.get("result", grid).ravel(), np.einsum("gi,ij,gj->g", k, weights, k))
    return run.longest()


@_case
def _fma_forms(point: Point) -> float:
    run = Run(point.program, point.arch, point.numbers)
    run.launch(point.measure)
    return run.longest()


@_case
def _stream(point: Point) -> float:
    run = Run(point.program, point.arch, {**point.numbers, "half": int(point.measure.endswith("f16"))})
    run.launch(point.measure)
    return run.longest()


@_case
def _ramp_loop(point: Point) -> float:
    run = Run(point.program, point.arch, point.numbers)
    run.launch("main")
    return run.longest()


@_case
def _matvec(point: Point) -> float:
    n, pad, iters = (point.number(name) for name in ("n", "pad", "iters"))
    a, x = _data(1, n, n), _data(2, n)
    stored = np.zeros(n * pad + 1, dtype=np.float32)
    stored[1:].reshape(n, pad)[:, :n] = a.T
    run = Run(point.program, point.arch, point.numbers)
    run.put("A", stored)
    run.put("x", x)
    run.launch("main")
    _check(point, "y", run.get("y", n).ravel(), iters * (a @ x))
    return run.longest()


# ------------------------------------------------------------------------------------------------- several PEs


@_case
def _stencil_cell(point: Point) -> float:
    grid = point.number("grid")

    def cycles(steps: int) -> int:
        run = Run(point.program, point.arch, point.numbers, (grid, grid))
        run.launch("main", steps)
        return run.longest()

    return (cycles(80) - cycles(40)) / 40


@_case
def _stencil_tile(point: Point) -> float:
    width, height = point.number("width"), point.number("height")
    start = _data(1, 3 * height, 3 * width)

    def cycles(steps: int) -> int:
        run = Run(point.program, point.arch, point.numbers, (3, 3))
        cells = np.zeros((3, 3, height + 2, width + 2), dtype=np.float32)
        cells[:, :, 1:-1, 1:-1] = start.reshape(3, height, 3, width).transpose(0, 2, 1, 3)
        run.put("cells", cells.reshape(3, 3, -1))
        run.launch("main", steps)
        found = run.get("cells", (height + 2) * (width + 2)).reshape(3, 3, height + 2, width + 2)
        grid = found[:, :, 1:-1, 1:-1].transpose(0, 2, 1, 3).reshape(3 * height, 3 * width)
        _check(point, "cells", grid, _stepped(start, steps))
        return run.longest()

    return (cycles(4) - cycles(2)) / 2


def _stepped(grid: Vector, steps: int) -> Vector:
    """Steps of the star stencil with zeros around the grid."""
    for _ in range(steps):
        p = np.pad(grid, 1)
        grid = 0.5 * grid + 0.125 * (p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1])
    return grid


@_case
def _summa(point: Point) -> float:
    p, t = point.number("P"), point.number("t")
    a, b = _data(1, p * t, p * t), _data(2, p * t, p * t)
    run = Run(point.program, point.arch, point.numbers, (p, p))
    run.put("A", _tiles(a, p, t))
    run.put("B", _tiles(b, p, t))
    run.launch("main")
    _check(point, "C", run.get("C", t * t), _tiles(a @ b, p, t))
    return run.whole()


def _tiles(matrix: Vector, p: int, t: int) -> Vector:
    """Column-major tiles, [row of PEs, column of PEs, element]."""
    return matrix.reshape(p, t, p, t).transpose(0, 2, 3, 1).reshape(p, p, t * t)


@_case
def _chain_reduce(point: Point) -> float:
    if point.measure == "per_pe":
        return (_row_sum(point, {"width": 24, "n": 1}) - _row_sum(point, {"width": 8, "n": 1})) / 16
    return _row_sum(point, point.numbers)


@_case
def _two_phase(point: Point) -> float:
    return _row_sum(point, point.numbers)


def _row_sum(point: Point, params: dict[str, int]) -> int:
    """Cycles of the PE that ends up with the sum of a row of vectors."""
    width, n = params["width"], params["n"]
    data = _data(1, 1, width, n)
    run = Run(point.program, point.arch, params, (width, 1))
    run.put("data", data)
    run.launch("main")
    _check(point, "data", run.get("data", n)[0, 0], data.sum(axis=1)[0])
    return run.windows()[0].cycles


@_case
def _hop(point: Point) -> float:
    def cycles(width: int) -> int:
        run = Run(point.program, point.arch, {"width": width, "n": 1}, (width, 1))
        run.launch("main")
        return run.windows()[-1].cycles

    return (cycles(20) - cycles(10)) / 10


@_case
def _par_strip(point: Point) -> float:
    width, n = 4, point.number("n")
    x, y = _data(1, 1, width, n), _data(2, 1, width, n)
    run = Run(point.program, point.arch, {"n": n}, (width, 1))
    run.put("x", x)
    run.put("y", y)
    run.launch(point.measure)
    if point.measure == "scale":
        _check(point, "out", run.get("out", n), 2.5 * x)
    else:
        expected = x.sum() if point.measure == "sum" else (x * y).sum()
        _check(point, "out", run.get("out", 1)[0, 0], expected)
    return run.windows()[0].cycles


@_case
def _saxpy_task(point: Point) -> float:
    width, height, m, h, n = (point.number(name) for name in ("X", "Y", "M", "H", "N"))
    rows, cols = m // height, h // width
    a, b = _data(1, m, h), _data(2, h, n)
    run = Run(point.program, point.arch, point.numbers, (width, height))
    run.put("A", a.reshape(height, rows, width, cols).transpose(0, 2, 3, 1).reshape(height, width, -1))
    run.put("B", b.reshape(width, cols, height, n // height).transpose(2, 0, 3, 1).reshape(height, width, -1))
    run.launch("main")
    found = run.get("C", rows * n // width).reshape(height, width, n // width, rows)
    _check(point, "C", found.transpose(0, 3, 1, 2).reshape(m, n), a @ b)
    return run.longest()


# ------------------------------------------------------------------------------------------------------ traffic


class _Forwards:
    """A trace sink that keeps when the routers of one PE forwarded each color."""

    def __init__(self, x: int) -> None:
        self.x = x
        self.cycles: dict[int, list[int]] = {}

    def forward(
        self, cycle: int, x: int, y: int, color: int, port: int, queue: int, mask: int, word: int, control: bool
    ) -> None:
        """Keep it if it is of the PE in question."""
        if x == self.x:
            self.cycles.setdefault(color, []).append(cycle)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _ignore  # the other events


def _ignore(*args: object, **named: object) -> None:
    """An event that is of no interest here."""


@_case
def _data_task(point: Point) -> float:
    words, passed, n = 0, 1, 12
    trace = _Forwards(x=1)
    run = Run(point.program, point.arch, {"n": n}, (3, 1), trace=trace)
    run.launch("main")
    if point.measure == "latency":
        return trace.cycles[passed][0] - trace.cycles[words][0]
    sent = trace.cycles[passed]
    return (sent[-1] - sent[2]) / (len(sent) - 3)


class _Delivery:
    """A trace sink that keeps when the first PE's send issued its first word and when the second one's task began."""

    def __init__(self) -> None:
        self.issued = self.finished = -1

    def inject(self, cycle: int, x: int, y: int, color: int, queue: int, word: int, control: bool) -> None:
        """A word entered an output queue."""
        if x == 0 and self.issued < 0:
            self.issued = cycle

    def task_start(self, cycle: int, x: int, y: int, name: str, kind: str) -> None:
        """A task began."""
        if x == 1 and name == "finish":
            self.finished = cycle

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _ignore  # the other events


@_case
def _send_words(point: Point) -> float:
    """From the send, its registers loaded, to the first instruction of the task behind the receive, a link further."""
    trace = _Delivery()
    Run("hop", point.arch, {"width": 2, "n": point.number("n")}, (2, 1), trace=trace).launch("main")
    return trace.finished - trace.issued


@_case
def _example(point: Point) -> float:
    layout = str(point.params.get("device_layout", ""))
    iterations = point.numbers.get("iterations", 0)
    return example_cycles(str(point.params["name"]), point.arch, point.measure, layout, iterations)
