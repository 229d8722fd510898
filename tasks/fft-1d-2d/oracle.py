"""Reference of FFT-1D-2D in float64: the transform by its definition, with the factors that are given."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw

_INVERSE = ("inverse", "mixed", "impulse")
"""Distributions that ask for the inverse transform."""


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """X [rows, 2 Nz] in f32, real and imaginary parts by turns; f_twiddle [Nz]; inverse [1]."""
    rows = size["Nz"] if size["DIM"] == 2 else 1
    angles = 2.0 * np.pi * np.arange(size["Nz"] // 2) / size["Nz"]
    values = draw(rng, (rows, 2 * size["Nz"]), "normal" if distribution == "inverse" else distribution)
    return {
        "X": values.astype(np.float32),
        "f_twiddle": np.stack([np.cos(angles), np.sin(angles)], axis=1).ravel().astype(np.float32),
        "inverse": np.array([distribution in _INVERSE], np.uint16),
    }


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The transform along the rows and, of a plane, along the columns."""
    cosine, sine = inputs["f_twiddle"].astype(np.float64).reshape(-1, 2).T
    factors = cosine - 1j * sine
    factors = np.concatenate([factors, -factors])
    matrix = factors[np.outer(np.arange(size["Nz"]), np.arange(size["Nz"])) % size["Nz"]]
    if inputs["inverse"][0]:
        matrix = matrix.conj() / size["Nz"]
    elements = _elements(inputs)
    result = elements @ matrix
    if size["DIM"] == 2:
        result = matrix @ result
    return {"X": np.stack([result.real, result.imag], axis=2).reshape(elements.shape[0], -1)}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The sum of the elements' absolute values, which bounds every partial sum."""
    elements = _elements(inputs)
    total = np.abs(elements).sum() / (elements.size if inputs["inverse"][0] else 1)
    return {"X": np.full((elements.shape[0], 2 * size["Nz"]), total)}


def _elements(inputs: dict[str, np.ndarray]) -> np.ndarray:
    values = inputs["X"].astype(np.float64)
    return np.asarray(values[:, ::2] + 1j * values[:, 1::2])
