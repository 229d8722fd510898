"""Reference of GEMV-Checkerboard in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """A [matrix_rows, matrix_cols], x [matrix_cols] and b [matrix_rows] in f16; sums stay far from overflow."""
    rows, cols = size["matrix_rows"], size["matrix_cols"]
    dense = "normal" if distribution == "impulse" else distribution
    return {
        "A": _draw(rng, rows * cols, dense).reshape(rows, cols),
        "x": _draw(rng, cols, distribution),
        "b": _draw(rng, rows, dense),
    }


def _draw(rng: np.random.Generator, count: int, distribution: str) -> np.ndarray:
    if distribution == "mixed":
        values = rng.standard_normal(count) * np.exp2(rng.uniform(-4.0, 4.0, count))
    elif distribution == "skewed":
        values = np.minimum(draw(rng, count, "skewed") / 4.0, 16.0)
    else:
        values = draw(rng, count, distribution)
    return values.astype(np.float16)


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """y = A x + b."""
    a, x, b = (inputs[name].astype(np.float64) for name in ("A", "x", "b"))
    return {"y": a @ x + b}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """|A| |x| + |b|."""
    a, x, b = (np.abs(inputs[name].astype(np.float64)) for name in ("A", "x", "b"))
    return {"y": a @ x + b}
