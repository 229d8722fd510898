"""Reference of Laplacian2D-Reduce in float64, on the whole grid at once."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """tile [height, width, Mt*Nt] in f32, iters [1] in u16."""
    shape = (size["height"], size["width"], size["Mt"] * size["Nt"])
    extra = 0 if distribution == "normal" else int(rng.integers(1, 3))
    tile = draw(rng, shape, "normal" if distribution == "south" else distribution)
    if distribution == "south":
        tile[-1] *= 16.0
    return {"tile": tile.astype(np.float32), "iters": np.array([size["iters"] + extra], dtype=np.uint16)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The largest change of the last step in each column of tiles."""
    old, new = _last_two(_grid(inputs["tile"].astype(np.float64), size), int(inputs["iters"][0]))
    return {"nrm": _largest(np.abs(new - old), size)}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """iters times the largest sum of the last two steps of the absolute values."""
    iters = int(inputs["iters"][0])
    old, new = _last_two(_grid(np.abs(inputs["tile"].astype(np.float64)), size), iters)
    return {"nrm": iters * _largest(new + old, size)}


def _grid(tiles: np.ndarray, size: dict[str, int]) -> np.ndarray:
    height, width, rows, cols = (size[name] for name in ("height", "width", "Mt", "Nt"))
    return tiles.reshape(height, width, rows, cols).transpose(0, 2, 1, 3).reshape(height * rows, width * cols)


def _last_two(grid: np.ndarray, iters: int) -> tuple[np.ndarray, np.ndarray]:
    """The grid before and after the last step."""
    old = grid
    for _ in range(iters):
        old = grid
        ring = np.pad(old, 1)
        grid = 0.25 * (ring[:-2, 1:-1] + ring[2:, 1:-1] + ring[1:-1, :-2] + ring[1:-1, 2:])
    return old, grid


def _largest(cells: np.ndarray, size: dict[str, int]) -> np.ndarray:
    """The largest cell of each column of tiles."""
    return cells.max(axis=0).reshape(size["width"], size["Nt"]).max(axis=1)
