"""Reference of Histogram-1PE in float64."""

from __future__ import annotations

import numpy as np


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """input [n] in u32."""
    n, buckets, width = size["n"], size["n_buckets"], size["bucket_size"]
    values = rng.integers(0, 3 * buckets * width, n)
    if distribution == "spread":
        values = rng.integers(0, 2**32, n)
    elif distribution == "hot":
        rare = rng.uniform(size=n) < 0.05
        values = np.where(rare, values, width * int(rng.integers(buckets)) + rng.integers(0, 2 * width, n))
    elif distribution == "edges":
        values = np.maximum(rng.integers(0, 3 * buckets, n) * width + rng.integers(-1, 1, n), 0)
    elif distribution == "empty":
        values = values // width // 2 * 2 * width + rng.integers(0, width, n)
    return {"input": values.astype(np.uint32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """Number of values in each bucket."""
    bucket = inputs["input"].astype(np.int64) // size["bucket_size"] % size["n_buckets"]
    return {"hist": np.bincount(bucket, minlength=size["n_buckets"]).astype(np.float64)}
