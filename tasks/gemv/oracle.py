"""Reference of GEMV in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """A [matrix_rows, matrix_cols], x [matrix_cols] and b [matrix_rows] in f32."""
    rows, cols = size["matrix_rows"], size["matrix_cols"]
    dense = "normal" if distribution == "impulse" else distribution
    return {
        "A": draw(rng, (rows, cols), dense).astype(np.float32),
        "x": draw(rng, cols, distribution).astype(np.float32),
        "b": draw(rng, rows, dense).astype(np.float32),
    }


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """y = A x + b."""
    a, x, b = (inputs[name].astype(np.float64) for name in ("A", "x", "b"))
    return {"y": a @ x + b}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """|A| |x| + |b|."""
    a, x, b = (np.abs(inputs[name].astype(np.float64)) for name in ("A", "x", "b"))
    return {"y": a @ x + b}
