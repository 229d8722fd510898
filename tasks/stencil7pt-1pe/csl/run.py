#!/usr/bin/env cs_python
"""Run Stencil7pt-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    return {"x": host.normal(random, size["Nz"] * size["Ny"] * size["Nx"])}


def run(device, inputs, size):
    cells = inputs["x"].size
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.poison("y", cells)
    device.launch("compute")
    return {"y": device.copy_out("y", cells)}


def neighbours(x, size):
    """Sum of the six face neighbours."""
    grid = x.reshape(size["Nz"], size["Ny"], size["Nx"])
    total = np.zeros_like(grid)
    total[1:] += grid[:-1]
    total[:-1] += grid[1:]
    total[:, 1:] += grid[:, :-1]
    total[:, :-1] += grid[:, 1:]
    total[:, :, 1:] += grid[:, :, :-1]
    total[:, :, :-1] += grid[:, :, 1:]
    return total.ravel()


def check(outputs, inputs, size):
    x = host.wide(inputs)["x"]
    # A product and six subtractions.
    allowed = 8.0 * host.UNIT * (6.0 * np.abs(x) + neighbours(np.abs(x), size))
    host.require_close("y", outputs["y"], 6.0 * x - neighbours(x, size), allowed)


def main():
    host.drive("Seven-point stencil on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
