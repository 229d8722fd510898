"""Reference of Mandelbrot in float64."""

from __future__ import annotations

import numpy as np

_UNIT = 4096
"""Coordinates are multiples of 1/4096: so pixels are exact in f32 however they are computed."""

_VIEWS = {
    # real and imaginary part of the middle, and the width; all but the first are moved and scaled at random
    "normal": (-0.5, 0.0, 3.0),
    "valley": (-0.75, 0.125, 0.375),
    "antenna": (-1.5, 0.0, 0.75),
    "inside": (-0.125, 0.0, 0.875),
    "outside": (1.0, 1.0, 4.0),
}


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """region [4] in f32: real and imaginary part of the first pixel, distances of columns and rows; max_iters [1]."""
    real, imag, width = _VIEWS[distribution]
    if distribution != "normal":
        width *= rng.uniform(0.75, 1.5)
    steps = np.array([max(1, round(_UNIT * width / size[name])) for name in ("cols", "rows")])
    shift = rng.integers(-_UNIT // 32, _UNIT // 32, 2)
    corner = np.array([round(_UNIT * real), round(_UNIT * imag)]) + shift - steps * (size["cols"], size["rows"]) // 2
    extra = 0 if distribution == "normal" else int(rng.integers(-5, 6))
    return {
        "region": (np.concatenate([corner, steps]) / _UNIT).astype(np.float32),
        "max_iters": np.array([size["max_iters"] + extra], np.uint16),
    }


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """Steps z <- z^2 + c, from z = c on, before |z| >= 2; at most max_iters."""
    return {"iters": escape(inputs["region"], int(inputs["max_iters"][0]), size["rows"], size["cols"])[0]}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """By how many steps rounding errors could shift the escape: nothing for most pixels."""
    exact, fewest, most = escape(inputs["region"], int(inputs["max_iters"][0]), size["rows"], size["cols"])
    return {"iters": np.maximum(exact - fewest, most - exact)}


# shared: escape
def escape(region, max_iters, rows, cols):
    """Steps with |z| < 2 in float64, and the fewest and the most that roundings of f32 could make of them."""
    x, y, dx, dy = region.astype(np.float64)
    c = (x + dx * np.arange(cols)) + 1j * (y + dy * np.arange(rows))[:, None]
    z, error, unit = c.copy(), np.zeros(c.shape), 2.0**-24
    counts = np.zeros((3, *c.shape))  # exact, fewest, most
    inside = np.ones((3, *c.shape), dtype=bool)
    for _ in range(max_iters):
        size = np.abs(z)
        doubt = error + 4 * unit * size
        inside &= np.stack([size < 2.0, size + doubt < 2.0, size - doubt < 2.0])
        counts += inside
        moving = inside[2] & (size < 1e3)  # what is far outside stays in doubt if it is
        z = np.where(moving, z * z + c, z)
        grown = (2 * size + error) * error + 4 * unit * (size**2 + np.abs(z))
        error = np.where(moving, np.minimum(grown, 1e3), error)
    return counts


# end of shared: escape
