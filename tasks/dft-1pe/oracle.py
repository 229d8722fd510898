"""Reference of DFT-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """x [N], and the tables cosT and sinT [N * N], in f32."""
    n = size["N"]
    angle = 2.0 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n).ravel()
    x = draw(rng, n, distribution).astype(np.float32)
    return {"x": x, "cosT": np.cos(angle).astype(np.float32), "sinT": -np.sin(angle).astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """Products of the tables with x."""
    x, cosines, sines = (inputs[name].astype(np.float64) for name in ("x", "cosT", "sinT"))
    n = size["N"]
    return {"Xre": cosines.reshape(n, n) @ x, "Xim": sines.reshape(n, n) @ x}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The same with absolute values."""
    return expected({name: np.abs(array) for name, array in inputs.items()}, size)
