"""Reference of PDFT-Pi-Pipeline in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """mo_grid [ngrid, ncas] and cascm2 [ncas^2, ncas^2] in f32."""
    n = size["ncas"] ** 2
    name = "normal" if distribution == "lopsided" else distribution
    orbitals, matrix = draw(rng, (size["ngrid"], size["ncas"]), name), draw(rng, (n, n), name)
    if distribution == "lopsided":
        matrix = np.triu(matrix)
    return {"mo_grid": orbitals.astype(np.float32), "cascm2": matrix.astype(np.float32)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """k cascm2 k for k = mo x mo at every point, once for every PE."""
    orbitals, matrix = inputs["mo_grid"].astype(np.float64), inputs["cascm2"].astype(np.float64)
    pairs = np.einsum("gi,gj->gij", orbitals, orbitals).reshape(size["ngrid"], -1)
    density = np.einsum("gp,pq,gq->g", pairs, matrix, pairs)
    return {"Pi": np.broadcast_to(density, (size["height"], size["width"], size["ngrid"])).copy()}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The same with absolute values."""
    return expected({name: np.abs(array) for name, array in inputs.items()}, size)
