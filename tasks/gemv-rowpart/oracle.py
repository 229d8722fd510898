"""Reference of GEMV-RowPart in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """A [Py * rows_per_pe, N] and x [N] in f32."""
    rows, cols = size["Py"] * size["rows_per_pe"], size["N"]
    a = draw(rng, (rows, cols), "normal" if distribution == "impulse" else distribution)
    return {"A": a.astype(np.float32), "x": draw(rng, cols, distribution).astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """y = A x."""
    return {"y": inputs["A"].astype(np.float64) @ inputs["x"].astype(np.float64)}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """|A| |x|."""
    return {"y": np.abs(inputs["A"].astype(np.float64)) @ np.abs(inputs["x"].astype(np.float64))}
