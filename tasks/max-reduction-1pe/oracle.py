"""Reference of Max-Reduction-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """x [n] in f32."""
    n = size["n"]
    x = draw(rng, n, "normal" if distribution in ("crest", "last") else distribution).astype(np.float32)
    if distribution in ("crest", "last"):
        place = n - 1 if distribution == "last" else int(rng.integers(n))
        x[place] = np.nextafter(x.max(), np.float32(np.inf))
    return {"x": x}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The largest element."""
    return {"result": np.array([inputs["x"].astype(np.float64).max()])}
