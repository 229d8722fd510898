"""Reference of Stencil7pt-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """x [Nz * Ny * Nx] in f32."""
    return {"x": draw(rng, size["Nz"] * size["Ny"] * size["Nx"], distribution).astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """y = 6 x - the face neighbours."""
    x = inputs["x"].astype(np.float64)
    return {"y": 6.0 * x - _neighbours(x, size)}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """6 |x| + the face neighbours' absolute values."""
    x = np.abs(inputs["x"].astype(np.float64))
    return {"y": 6.0 * x + _neighbours(x, size)}


def _neighbours(x: np.ndarray, size: dict[str, int]) -> np.ndarray:
    ring = np.pad(x.reshape(size["Nz"], size["Ny"], size["Nx"]), 1)
    inner = slice(1, -1)
    total = ring[2:, inner, inner] + ring[:-2, inner, inner] + ring[inner, 2:, inner] + ring[inner, :-2, inner]
    return (total + ring[inner, inner, 2:] + ring[inner, inner, :-2]).ravel()
