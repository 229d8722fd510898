"""Reference of Histogram in float64."""

from __future__ import annotations

import numpy as np


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """inputs [HIST_HEIGHT, HIST_WIDTH, INPUT_SIZE] in u32."""
    shape = (size["HIST_HEIGHT"], size["HIST_WIDTH"], size["INPUT_SIZE"])
    pes, per_pe = shape[0] * shape[1], size["NUM_BUCKETS"] * size["BUCKET_SIZE"]
    span = pes * per_pe
    values = rng.integers(0, 3 * span, shape)
    if distribution == "spread":
        values = rng.integers(0, 2**32, shape)
    elif distribution in ("hot", "one"):
        owned = int(rng.integers(pes)) * per_pe + rng.integers(0, per_pe, shape)
        rare = rng.uniform(size=shape) < (0.1 if distribution == "hot" else 0.0)
        values = np.where(rare, values, owned + span * rng.integers(0, 3, shape))
    elif distribution == "edges":
        values = np.maximum(values // size["BUCKET_SIZE"] * size["BUCKET_SIZE"] + rng.integers(-1, 1, shape), 0)
    elif distribution == "local":
        owned = np.arange(pes).reshape(*shape[:2], 1) * per_pe + rng.integers(0, per_pe, shape)
        values = np.where(rng.uniform(size=shape) < 0.2, values, owned)
    return {"inputs": values.astype(np.uint32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The number of values in each bucket, and in all."""
    shape = (size["HIST_HEIGHT"], size["HIST_WIDTH"], size["NUM_BUCKETS"])
    bucket = inputs["inputs"].astype(np.int64).ravel() // size["BUCKET_SIZE"] % int(np.prod(shape))
    counts = np.bincount(bucket, minlength=int(np.prod(shape))).astype(np.float64)
    return {"buckets": counts.reshape(shape), "result": np.array([counts.sum()])}
