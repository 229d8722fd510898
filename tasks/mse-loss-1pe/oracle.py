"""Reference of MSE-Loss-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """pred and target [n] in f32."""
    if distribution == "close":
        pred = draw(rng, size["n"], "normal")
        target = pred + 0.01 * draw(rng, size["n"], "normal")
    else:
        pred, target = draw(rng, size["n"], distribution), draw(rng, size["n"], distribution)
    return {"pred": pred.astype(np.float32), "target": target.astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The mean of the squared differences."""
    error = inputs["pred"].astype(np.float64) - inputs["target"].astype(np.float64)
    return {"result": np.array([np.mean(error**2)])}
