"""Reference of 7pt-Stencil in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """stencil_coeff [height, width, 7] and x [height, width, k] in f32."""
    columns = (size["height"], size["width"])
    kind = "normal" if distribution == "impulse" else distribution
    return {
        "stencil_coeff": draw(rng, (*columns, 7), kind).astype(np.float32),
        "x": draw(rng, (*columns, size["k"]), distribution).astype(np.float32),
    }


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The product of the operator and x."""
    return {"y": _product(inputs["stencil_coeff"].astype(np.float64), inputs["x"].astype(np.float64))}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The sum of the absolute values of the seven terms."""
    coefficients, x = (np.abs(inputs[name].astype(np.float64)) for name in ("stencil_coeff", "x"))
    return {"y": _product(coefficients, x)}


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
