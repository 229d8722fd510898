"""Reference of Single-Tile-Matvec in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """A [tile_size, tile_size] and x [tile_size] in f32, iters [1] in u16."""
    edge = size["tile_size"]
    tile = draw(rng, (edge, edge), distribution)
    if distribution == "normal":
        tile = tile / np.sqrt(edge)  # keeps repeated application from growing
    extra = 0 if distribution == "normal" else int(rng.integers(1, 4))
    return {
        "A": tile.astype(np.float32),
        "x": draw(rng, edge, distribution).astype(np.float32),
        "iters": np.array([size["iters"] + extra], dtype=np.uint16),
    }


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """A applied iters times to x, the same on every PE."""
    tile, vector = inputs["A"].astype(np.float64), inputs["x"].astype(np.float64)
    for _ in range(int(inputs["iters"][0])):
        vector = tile @ vector
    return {"y": np.tile(vector, (size["height"], size["width"], 1))}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """iters * |A|^iters |x|."""
    iters = int(inputs["iters"][0])
    tile, vector = np.abs(inputs["A"].astype(np.float64)), np.abs(inputs["x"].astype(np.float64))
    for _ in range(iters):
        vector = tile @ vector
    return {"y": np.tile(iters * vector, (size["height"], size["width"], 1))}
