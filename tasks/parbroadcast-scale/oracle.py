"""Reference of ParBroadcast-Scale in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """x [width * n_per_pe] and alpha [1] in f32; alpha is never near 0 or 1, and of either sign."""
    alpha = rng.uniform(1.25, 4.0) * rng.choice([-1.0, 1.0])
    x = draw(rng, size["width"] * size["n_per_pe"], distribution).astype(np.float32)
    return {"x": x, "alpha": np.array([alpha], dtype=np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """out = alpha * x."""
    return {"out": inputs["alpha"].astype(np.float64)[0] * inputs["x"].astype(np.float64)}
