"""Reference of Power-Method in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """stencil_coeff [height, width, 7], x [height, width, k] and max_ite."""
    columns = (size["height"], size["width"])
    kind = "normal" if distribution == "impulse" else distribution
    coefficients = draw(rng, (*columns, 7), kind)
    coefficients[..., 0] += np.where(coefficients[..., 0] < 0, -1.0, 1.0)  # no column loses what it has
    extra = 0 if distribution == "normal" else int(rng.integers(1, 4))
    return {
        "stencil_coeff": coefficients.astype(np.float32),
        "x": draw(rng, (*columns, size["k"]), distribution).astype(np.float32),
        "max_ite": np.array([size["max_ite"] + extra], np.uint16),
    }


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """x after the last iteration."""
    return {"x": _iterate(inputs, np.float64)}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """How far f32 arithmetic lies from float64 in the worst of some orders of summation, and one rounding."""
    exact = _iterate(inputs, np.float64)
    spread = 2.0**-24 * np.abs(exact).max()
    for order in range(4):
        spread = max(spread, np.abs(_iterate(inputs, np.float32, order).astype(np.float64) - exact).max())
    return {"x": np.full(exact.shape, spread)}


def _iterate(inputs: dict[str, np.ndarray], kind: type, order: int = 0) -> np.ndarray:
    coefficients, x = (inputs[name].astype(kind) for name in ("stencil_coeff", "x"))
    for _ in range(int(inputs["max_ite"][0])):
        product = _product(coefficients, x)
        x = product / np.sqrt(_dot(product, product, order))
    return x


# shared: summation
def _dot(u: np.ndarray, v: np.ndarray, order: int) -> float:
    """Inner product, in f32 one term after the other: as stored, from the end, row by row, or layer by layer."""
    terms = u * v
    if terms.dtype == np.float64:
        return terms.sum()
    terms = (terms, terms[::-1, ::-1, ::-1], terms.swapaxes(0, 1), terms.transpose(2, 0, 1))[order]
    return np.cumsum(terms.ravel(), dtype=np.float32)[-1]


# end of shared: summation


# shared: operator
def _product(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The seven-point operator of each column [row, column, z]: center, west, east, south, north, bottom, top."""
    ring = np.pad(x, 1)  # zeros outside
    center, west, east, south, north, bottom, top = np.moveaxis(coefficients[..., None], 2, 0)
    return np.asarray(
        center * x
        + west * ring[1:-1, :-2, 1:-1]
        + east * ring[1:-1, 2:, 1:-1]
        + south * ring[2:, 1:-1, 1:-1]
        + north * ring[:-2, 1:-1, 1:-1]
        + bottom * ring[1:-1, 1:-1, :-2]
        + top * ring[1:-1, 1:-1, 2:]
    )


# end of shared: operator
