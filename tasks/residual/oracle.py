"""Reference of Residual in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """A [rows, cols], x [cols] and b [rows] in f32."""
    rows, cols = size["height"] * size["LOCAL_OUT_SZ"], size["width"] * size["LOCAL_IN_SZ"]
    name = "normal" if distribution in ("solved", "last") else distribution
    A, x, b = (draw(rng, shape, name).astype(np.float32) for shape in ((rows, cols), cols, rows))
    if distribution == "solved":
        b = A.astype(np.float64) @ x.astype(np.float64) + 0.01 * b
    elif distribution == "last":
        b[-size["LOCAL_OUT_SZ"] :] += 100.0
    return {"A": A, "x": x, "b": b.astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The largest element of |b - A x|."""
    A, x, b = (inputs[name].astype(np.float64) for name in ("A", "x", "b"))
    return {"nrm": np.array([np.abs(b - A @ x).max()])}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The largest element of |b| + |A| |x|."""
    A, x, b = (np.abs(inputs[name].astype(np.float64)) for name in ("A", "x", "b"))
    return {"nrm": np.array([(b + A @ x).max()])}
