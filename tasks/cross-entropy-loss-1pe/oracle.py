"""Reference of Cross-Entropy-Loss-1PE in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """logits [n_classes] in f32, within 80 of each other, and label [1] in u32."""
    n = size["n_classes"]
    if distribution == "wide":
        values = rng.uniform(-40.0, 40.0, n)
    elif distribution == "high":
        values = 90.0 + draw(rng, n, "normal")
    else:
        values = 3.0 * draw(rng, n, distribution)
    label = np.array([rng.integers(n)], dtype=np.uint32)
    return {"logits": values.astype(np.float32), "label": label}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The cross entropy."""
    logits, label = inputs["logits"].astype(np.float64), int(inputs["label"][0])
    return {"result": np.array([np.log(np.exp(logits - logits.max()).sum()) - (logits[label] - logits.max())])}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """1 + log(sum) + |logits[label] - max|."""
    logits, label = inputs["logits"].astype(np.float64), int(inputs["label"][0])
    spread = np.log(np.exp(logits - logits.max()).sum())
    return {"result": np.array([1.0 + spread + logits.max() - logits[label]])}
