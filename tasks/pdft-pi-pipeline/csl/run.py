#!/usr/bin/env cs_python
"""Run PDFT-Pi-Pipeline and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def make_inputs(size, random):
    n = size["ncas"] ** 2
    return {"mo_grid": host.normal(random, size["ngrid"], size["ncas"]), "cascm2": host.normal(random, n, n)}


def run(device, inputs, size):
    width, height = mesh(size)
    device.launch("window_open")
    for name, array in inputs.items():
        device.copy_in(name, np.tile(array.ravel(), (height, width, 1)))
    device.poison("Pi", height * width * size["ngrid"])
    device.launch("compute")
    return {"Pi": device.copy_out("Pi", height, width, size["ngrid"])}


def density(orbitals, matrix):
    pairs = (orbitals[:, :, None] * orbitals[:, None, :]).reshape(len(orbitals), -1)
    return ((pairs @ matrix) * pairs).sum(axis=1)


def check(outputs, inputs, size):
    orbitals, matrix = host.wide(inputs)["mo_grid"], host.wide(inputs)["cascm2"]
    expected, bound = density(orbitals, matrix), density(np.abs(orbitals), np.abs(matrix))
    # Independent rounding errors of two sums of ncas^2 products, and of the factors.
    allowed = (4.0 * size["ncas"] + 6.0) * host.UNIT * bound
    Pi = outputs["Pi"]
    host.require_close("Pi", Pi, np.broadcast_to(expected, Pi.shape), np.broadcast_to(allowed, Pi.shape))


def main():
    host.drive("On-top pair density", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
