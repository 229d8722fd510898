"""Reference of GEMM-Collectives-2D in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """A [P * Mt, P * Kt] and B [P * Kt, P * Nt] in f32."""
    rows, inner, cols = (size["P"] * size[name] for name in ("Mt", "Kt", "Nt"))
    a = draw(rng, (rows, inner), distribution)
    b = draw(rng, (inner, cols), "normal" if distribution == "impulse" else distribution)
    return {"A": a.astype(np.float32), "B": b.astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """C = A B."""
    return {"C": inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """|A| |B|."""
    return {"C": np.abs(inputs["A"].astype(np.float64)) @ np.abs(inputs["B"].astype(np.float64))}
