"""Reference of Tensor-Transpose-021 in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """A [ax1, ax2, ax3] in f32."""
    shape = (size["ax1"], size["ax2"], size["ax3"])
    if distribution == "count":
        return {"A": (rng.permutation(int(np.prod(shape))).reshape(shape) + 1.001).astype(np.float32)}
    return {"A": draw(rng, shape, distribution).astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """B[i, k, j] = A[i, j, k], on every PE."""
    swapped = inputs["A"].astype(np.float64).transpose(0, 2, 1)
    return {"B": np.tile(swapped, (size["height"], size["width"], 1, 1, 1))}
