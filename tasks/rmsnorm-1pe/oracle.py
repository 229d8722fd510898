"""Reference of RMSNorm-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """x and weight [n] in f32."""
    n = size["n"]
    x = 1e-4 * draw(rng, n, "normal") if distribution == "small" else draw(rng, n, distribution)
    return {"x": x.astype(np.float32), "weight": rng.uniform(0.5, 2.0, n).astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """out[i] = x[i] / sqrt(mean(x^2) + 1e-6) * weight[i]."""
    x = inputs["x"].astype(np.float64)
    scaled = x / np.sqrt(np.mean(x**2) + 1e-6)
    return {"out": scaled * inputs["weight"].astype(np.float64)}
