"""Reference of Softmax-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """x [n] in f32, values within 80 of each other."""
    n = size["n"]
    if distribution == "wide":
        values = rng.uniform(-40.0, 40.0, n)
    elif distribution == "high":
        values = 90.0 + draw(rng, n, "normal")
    else:
        values = 3.0 * draw(rng, n, distribution)
    return {"x": values.astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The softmax."""
    x = inputs["x"].astype(np.float64)
    powers = np.exp(x - x.max())
    return {"out": powers / powers.sum()}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The softmax times 1 + |x - max|."""
    x = inputs["x"].astype(np.float64)
    return {"out": expected(inputs, size)["out"] * (1.0 + x.max() - x)}
