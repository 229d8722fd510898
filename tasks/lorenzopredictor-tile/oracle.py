"""Reference of LorenzoPredictor-Tile in float64, on the whole grid at once."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """tile [height, width, Mt*Nt] in f32."""
    height, width, rows, cols = (size[name] for name in ("height", "width", "Mt", "Nt"))
    shape = (height, width, rows * cols)
    if distribution != "smooth":
        return {"tile": draw(rng, shape, distribution).astype(np.float32)}
    i, j = np.mgrid[: height * rows, : width * cols]
    phase, slope = rng.uniform(0.0, 6.0, 2), rng.uniform(0.02, 0.2, 2)
    field = 10.0 * np.sin(slope[0] * i + phase[0]) + 5.0 * np.cos(slope[1] * j + phase[1])
    field += 0.01 * rng.standard_normal(field.shape)
    return {"tile": _tiles(field, size).astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """Each cell minus its prediction from north, west and north-west."""
    ring = _ring(inputs["tile"].astype(np.float64), size)
    return {"residual": _tiles(ring[1:, 1:] - (ring[:-1, 1:] + ring[1:, :-1] - ring[:-1, :-1]), size)}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The sum of the four absolute values."""
    ring = _ring(np.abs(inputs["tile"].astype(np.float64)), size)
    return {"residual": _tiles(ring[1:, 1:] + ring[:-1, 1:] + ring[1:, :-1] + ring[:-1, :-1], size)}


def _ring(tiles: np.ndarray, size: dict[str, int]) -> np.ndarray:
    """The grid with a row of zeros to the north and a column of zeros to the west."""
    height, width, rows, cols = (size[name] for name in ("height", "width", "Mt", "Nt"))
    grid = tiles.reshape(height, width, rows, cols).transpose(0, 2, 1, 3).reshape(height * rows, width * cols)
    return np.pad(grid, ((1, 0), (1, 0)))


def _tiles(grid: np.ndarray, size: dict[str, int]) -> np.ndarray:
    height, width, rows, cols = (size[name] for name in ("height", "width", "Mt", "Nt"))
    return grid.reshape(height, rows, width, cols).transpose(0, 2, 1, 3).reshape(height, width, rows * cols)
