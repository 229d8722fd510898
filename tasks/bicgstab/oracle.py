"""Reference of BiCGSTAB in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """stencil_coeff [height, width, 7], b and x [height, width, k], tol, max_ite: converges before max_ite."""
    shape = (size["height"], size["width"], size["k"])
    kind = distribution if distribution in ("skewed", "structured", "impulse") else "normal"
    data = {
        "stencil_coeff": _operator(rng, size, distribution),
        "b": (draw(rng, shape, kind) / 16).astype(np.float32),
        "x": np.zeros(shape, np.float32) if kind == "impulse" else (draw(rng, shape, kind) / 256).astype(np.float32),
        "tol": np.zeros(1, np.float32),
        "max_ite": np.array([size["max_ite"] + (0 if distribution == "normal" else rng.integers(1, 4))], np.uint16),
    }
    first = _solve({**data, "max_ite": np.zeros(1, np.uint16)}, np.float64)[1][0]
    data["tol"] = np.array([first * 1e-4], np.float32)
    data["tol"] = _tolerance(rng, _solve(data, np.float64)[1], "early")
    return data


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """x after the last iteration."""
    return {"x": _solve(inputs, np.float64)[0]}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """How far f32 arithmetic lies from float64 in the worst of some orders of summation, and one rounding."""
    exact = _solve(inputs, np.float64)[0]
    spread = 2.0**-24 * np.abs(exact).max()
    for order in range(4):
        spread = max(spread, np.abs(_solve(inputs, np.float32, order)[0].astype(np.float64) - exact).max())
    return {"x": np.full(exact.shape, spread)}


def _operator(rng: np.random.Generator, size: dict[str, int], distribution: str) -> np.ndarray:
    """Coefficients center, west, east, south, north, bottom, top: not symmetric, the center outweighs the others."""
    shape = (size["height"], size["width"])
    if distribution == "structured":  # the Laplacian, a drift to the east, and a multiple of 1/8
        around = -np.ones((*shape, 6))
        drift = rng.integers(1, 5) / 8
        around[..., 0] -= drift
        around[..., 1] += drift
        shift = np.full(shape, rng.integers(1, 9) / 8)
    else:
        around = -rng.lognormal(0, 1.0 if distribution == "mixed" else 0.25, (*shape, 6))
        shift = rng.uniform(0.25, 1.0, shape) * (4.0 if distribution == "mixed" else 1.0)
    center = shift + np.abs(around).sum(axis=2)
    return np.concatenate([center[..., None], around], axis=2).astype(np.float32)


def _solve(inputs: dict[str, np.ndarray], kind: type, order: int = 0) -> tuple[np.ndarray, list[float]]:
    """x, and |r| before each iteration and after the last (van der Vorst 1992)."""
    coefficients, b, x, tol = (inputs[name].astype(kind) for name in ("stencil_coeff", "b", "x", "tol"))
    r = first = p = b - _product(coefficients, x)
    rho = norm = _dot(r, r, order)
    seen = [np.sqrt(norm)]
    for _ in range(int(inputs["max_ite"][0])):
        if norm <= tol[0] * tol[0]:
            break
        v = _product(coefficients, p)
        alpha = rho / _dot(first, v, order)
        s = r - alpha * v
        t = _product(coefficients, s)
        omega = _dot(t, s, order) / _dot(t, t, order)
        x = x + alpha * p + omega * s
        r = s - omega * t
        rho, old = _dot(first, r, order), rho
        norm = _dot(r, r, order)
        p = r + (rho / old) * (alpha / omega) * (p - omega * v)
        seen.append(np.sqrt(norm))
    return x, seen


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
