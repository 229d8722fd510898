"""Reference of SAXPY-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """alpha [1], x [n] and y [n] in f32; alpha is never near 0 or 1, and of either sign."""
    alpha = rng.uniform(1.25, 4.0) * rng.choice([-1.0, 1.0])
    return {
        "alpha": np.array([alpha], dtype=np.float32),
        "x": draw(rng, size["n"], distribution).astype(np.float32),
        "y": draw(rng, size["n"], distribution).astype(np.float32),
    }


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """y = alpha * x + y."""
    alpha, x, y = (inputs[name].astype(np.float64) for name in ("alpha", "x", "y"))
    return {"y": alpha[0] * x + y}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """|alpha * x| + |y|."""
    alpha, x, y = (np.abs(inputs[name].astype(np.float64)) for name in ("alpha", "x", "y"))
    return {"y": alpha[0] * x + y}
