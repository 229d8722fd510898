"""Reference of GEMM-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """A [M, K] and B [K, N] in f32."""
    m, k, n = size["M"], size["K"], size["N"]
    a = draw(rng, (m, k), distribution).astype(np.float32)
    b = draw(rng, (k, n), "normal" if distribution == "impulse" else distribution).astype(np.float32)
    return {"A": a, "B": b}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """C = A B."""
    return {"C": inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """|A| |B|."""
    return {"C": np.abs(inputs["A"].astype(np.float64)) @ np.abs(inputs["B"].astype(np.float64))}
