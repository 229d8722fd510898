"""Reference of GELU-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """x [n] in f32, between -6 and 6."""
    n = size["n"]
    x = rng.uniform(-6.0, 6.0, n) if distribution == "wide" else draw(rng, n, distribution)
    return {"x": np.clip(x, -6.0, 6.0).astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The function's values."""
    x = inputs["x"].astype(np.float64)
    return {"out": 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """|x|."""
    return {"out": np.abs(inputs["x"].astype(np.float64))}
