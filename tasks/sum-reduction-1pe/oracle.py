"""Reference of Sum-Reduction-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """x [n] in f32."""
    return {"x": draw(rng, size["n"], distribution).astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The sum of x."""
    return {"result": np.array([inputs["x"].astype(np.float64).sum()])}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The sum of |x|."""
    return {"result": np.array([np.abs(inputs["x"].astype(np.float64)).sum()])}
