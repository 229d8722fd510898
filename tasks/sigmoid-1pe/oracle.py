"""Reference of Sigmoid-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """x [n] in f32, between -40 and 40."""
    n = size["n"]
    x = rng.uniform(-40.0, 40.0, n) if distribution == "wide" else 3.0 * draw(rng, n, distribution)
    return {"x": np.clip(x, -40.0, 40.0).astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The function's values."""
    x = inputs["x"].astype(np.float64)
    return {"out": 1.0 / (1.0 + np.exp(-x))}
