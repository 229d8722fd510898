"""Reference of Cholesky in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """tile [P * Nt, P * Nt] in f32: a symmetric positive definite matrix, well conditioned but for its scaling."""
    n = size["P"] * size["Nt"]
    scale = np.exp2(rng.uniform(-6.0, 6.0, n)) if distribution == "graded" else np.ones(n)
    if distribution == "banded":
        near = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 1 + n // 8
        matrix = np.where(near, draw(rng, (n, n), "structured"), 0.0)
        matrix = _dominant(rng, matrix + matrix.T)
    elif distribution == "negative":
        matrix = draw(rng, (n, n), "negative")
        matrix = _dominant(rng, matrix + matrix.T)
    else:
        factor = draw(rng, (n, 2 * n), "skewed" if distribution == "skewed" else "normal")
        matrix = factor @ factor.T / n + np.diag(rng.uniform(0.5, 1.5, n))
    matrix = scale[:, None] * matrix * scale
    return {"tile": np.tril(matrix).astype(np.float32) + np.tril(matrix, -1).astype(np.float32).T}


def _dominant(rng: np.random.Generator, matrix: np.ndarray) -> np.ndarray:
    """The same off the diagonal; on it more than the sum of the absolute values of the row."""
    off = matrix - np.diag(np.diag(matrix))
    return off + np.diag(np.abs(off).sum(axis=1) * rng.uniform(1.1, 2.0, len(off)) + 1.0)


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The lower triangular L with a positive diagonal and L L^T = A."""
    return {"tile": _factor(inputs)}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """|L| half(|L^-1| |L| |L^T| |L^-T|), half: the lower triangle with half of the diagonal."""
    factor = _factor(inputs)
    inverse = np.abs(np.linalg.inv(factor))
    size_of_l = np.abs(factor)
    inner = np.tril(inverse @ size_of_l @ size_of_l.T @ inverse.T)
    return {"tile": size_of_l @ (inner - np.diag(np.diag(inner)) / 2.0)}


def _factor(inputs: dict[str, np.ndarray]) -> np.ndarray:
    lower = np.tril(inputs["tile"].astype(np.float64))
    return np.linalg.cholesky(lower + np.tril(lower, -1).T)
