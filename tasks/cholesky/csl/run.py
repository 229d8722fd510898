#!/usr/bin/env cs_python
"""Run Cholesky and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["P"], size["P"]


def make_inputs(size, random):
    n = size["P"] * size["Nt"]
    factor = random.standard_normal((n, 2 * n))
    matrix = (factor @ factor.T / n + np.eye(n)).astype(np.float32)
    return {"tile": np.tril(matrix) + np.tril(matrix, -1).T}


def run(device, inputs, size):
    p, nt = size["P"], size["Nt"]
    tiles = host.to_tiles(inputs["tile"], p, p).transpose(0, 1, 3, 2).copy()
    tiles[np.triu_indices(p, 1)] = 0.0  # PEs above the diagonal have nothing to do
    device.launch("window_open")
    device.copy_in("tile", tiles, changes=True)
    device.launch("f_chol")
    return {"tile": host.from_tiles(device.copy_out("tile", p, p, nt, nt).transpose(0, 1, 3, 2))}


def check(outputs, inputs, size):
    n = size["P"] * size["Nt"]
    expected = np.linalg.cholesky(host.wide(inputs)["tile"])
    # To first order a change E of the matrix changes L by L half(L^-1 E L^-T), where half takes the lower triangle with
    # half of the diagonal. Rounding amounts to an E of at most a multiple of UNIT |L| |L^T|.
    inverse, factor = np.abs(np.linalg.inv(expected)), np.abs(expected)
    inner = np.tril(inverse @ factor @ factor.T @ inverse.T)
    magnitude = factor @ (inner - np.diag(np.diag(inner)) / 2.0)
    host.require_close("tile", outputs["tile"], expected, (2.0 * np.sqrt(n) + 8.0) * host.UNIT * magnitude)


def main():
    host.drive("Cholesky factor of a matrix in tiles", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
