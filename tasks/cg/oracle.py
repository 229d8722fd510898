"""Reference of CG in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """A symmetric positive definite stencil_coeff [height, width, 7], b and x [height, width, k], tol, max_ite."""
    coefficients = _symmetric_operator(rng, size, distribution)
    shape = (size["height"], size["width"], size["k"])
    kind = distribution if distribution in ("skewed", "structured", "impulse") else "normal"
    data = {
        "stencil_coeff": coefficients,
        "b": (draw(rng, shape, kind) / 16).astype(np.float32),
        "x": np.zeros(shape, np.float32) if kind == "impulse" else (draw(rng, shape, kind) / 256).astype(np.float32),
        "tol": np.zeros(1, np.float32),
        "max_ite": np.array([size["max_ite"] + (0 if distribution == "normal" else rng.integers(1, 4))], np.uint16),
    }
    data["tol"] = _tolerance(rng, [np.sqrt(rho) for rho in _solve(data, np.float64)[2]], distribution)
    return data


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """x and |r|^2 after the last iteration."""
    x, rho, _ = _solve(inputs, np.float64)
    return {"x": x, "rho": np.array([rho])}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """How far f32 arithmetic lies from float64 in the worst of some orders of summation, and one rounding."""
    exact = expected(inputs, size)
    spread = {name: 2.0**-24 * np.abs(values).max() for name, values in exact.items()}
    for order in range(4):
        x, rho, _ = _solve(inputs, np.float32, order)
        for name, values in (("x", x), ("rho", np.array([rho]))):
            spread[name] = max(spread[name], np.abs(values.astype(np.float64) - exact[name]).max())
    return {name: np.full(values.shape, spread[name]) for name, values in exact.items()}


def _solve(inputs: dict[str, np.ndarray], kind: type, order: int = 0) -> tuple[np.ndarray, float, list[float]]:
    """x, |r|^2, and the |r|^2 before each iteration and after the last (Golub and Van Loan, 10.2.1)."""
    coefficients, b, x, tol = (inputs[name].astype(kind) for name in ("stencil_coeff", "b", "x", "tol"))
    r = b - _product(coefficients, x)
    p = r
    rho = _dot(r, r, order)
    seen = [rho]
    for _ in range(int(inputs["max_ite"][0])):
        if rho <= tol[0] * tol[0]:
            break
        w = _product(coefficients, p)
        alpha = rho / _dot(p, w, order)
        x = x + alpha * p
        r = r - alpha * w
        rho, old = _dot(r, r, order), rho
        p = r + rho / old * p
        seen.append(rho)
    return x, rho, seen


# shared: symmetric operator
def _symmetric_operator(rng: np.random.Generator, size: dict[str, int], distribution: str) -> np.ndarray:
    """Coefficients center, west, east, south, north, bottom, top: symmetric, and positive definite by dominance."""
    height, width = size["height"], size["width"]
    if distribution == "structured":  # the Laplacian and a multiple of 1/8
        links = [-np.ones(shape) for shape in ((height, width - 1), (height - 1, width), (height, width))]
        shift = np.full((height, width), rng.integers(1, 9) / 8)
    else:
        spread = 1.5 if distribution == "mixed" else 0.25
        shapes = ((height, width - 1), (height - 1, width), (height, width))
        links = [-rng.lognormal(0, spread, shape) for shape in shapes]
        shift = rng.uniform(0.25, 1.0, (height, width)) * (4.0 if distribution == "mixed" else 1.0)
    coefficients = np.zeros((height, width, 7))
    coefficients[:, :-1, 2] = coefficients[:, 1:, 1] = links[0]
    coefficients[:-1, :, 3] = coefficients[1:, :, 4] = links[1]
    coefficients[..., 5] = coefficients[..., 6] = links[2]
    coefficients = coefficients.astype(np.float32)
    coefficients[..., 0] = shift - coefficients.sum(axis=2)
    return coefficients


# end of shared: symmetric operator


# shared: stop
def _tolerance(rng: np.random.Generator, residuals: list[float], distribution: str) -> np.ndarray:
    """A bound for the residual that stops the iteration early, or never for `normal`.

    Where it stops must not depend on roundings: the bound lies in the middle between two residuals that differ by at
    least a fifth, or below all of them.
    """
    lowest = np.minimum.accumulate(residuals)
    stops = [j for j in range(1, len(lowest)) if lowest[j] < 0.8 * lowest[j - 1] and residuals[j] == lowest[j]]
    if distribution == "normal" or not stops:
        return np.array([lowest[-1] / 8], np.float32)
    stop = stops[int(rng.integers(len(stops) // 2, len(stops)))]
    return np.array([np.sqrt(lowest[stop] * lowest[stop - 1])], np.float32)


# end of shared: stop


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
