"""Reference of Dot-Product-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """x and y [n] in f32."""
    return {name: draw(rng, size["n"], distribution).astype(np.float32) for name in ("x", "y")}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The inner product."""
    return {"result": np.array([inputs["x"].astype(np.float64) @ inputs["y"].astype(np.float64)])}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The inner product of the absolute values."""
    return {"result": np.array([np.abs(inputs["x"].astype(np.float64)) @ np.abs(inputs["y"].astype(np.float64))])}
