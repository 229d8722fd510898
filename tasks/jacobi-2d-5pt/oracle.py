"""Reference of Jacobi-2D-5pt in float64, on the whole grid at once."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """tile [height, width, Mt*Nt] in f32, iters [1] in u16."""
    shape = (size["height"], size["width"], size["Mt"] * size["Nt"])
    extra = 0 if distribution == "normal" else int(rng.integers(1, 3))
    return {
        "tile": draw(rng, shape, distribution).astype(np.float32),
        "iters": np.array([size["iters"] + extra], dtype=np.uint16),
    }


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The grid after iters Jacobi steps."""
    return {"new_tile": _run(inputs["tile"].astype(np.float64), int(inputs["iters"][0]), size)}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """iters times the same steps of the absolute values."""
    iters = int(inputs["iters"][0])
    return {"new_tile": iters * _run(np.abs(inputs["tile"].astype(np.float64)), iters, size)}


def _run(tiles: np.ndarray, iters: int, size: dict[str, int]) -> np.ndarray:
    height, width, rows, cols = (size[name] for name in ("height", "width", "Mt", "Nt"))
    grid = tiles.reshape(height, width, rows, cols).transpose(0, 2, 1, 3).reshape(height * rows, width * cols)
    for _ in range(iters):
        old = grid
        grid = old.copy()
        grid[1:-1, 1:-1] = 0.25 * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])
    return grid.reshape(height, rows, width, cols).transpose(0, 2, 1, 3).reshape(height, width, rows * cols)
