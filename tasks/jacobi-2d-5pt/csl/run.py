#!/usr/bin/env cs_python
"""Run Jacobi-2D-5pt and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def shape(size):
    return size["height"], size["width"], size["Mt"] * size["Nt"]


def make_inputs(size, random):
    return {"tile": host.normal(random, *shape(size)), "iters": np.array([size["iters"]], dtype=np.uint16)}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("tile", inputs["tile"])
    device.poison("new_tile", inputs["tile"].size)
    device.launch("step", np.uint16(inputs["iters"][0]))
    return {"new_tile": device.copy_out("new_tile", *shape(size))}


def jacobi(tiles, rows, cols, iters):
    """iters steps on the whole grid, from and to tiles."""
    height, width = tiles.shape[:2]
    grid = tiles.reshape(height, width, rows, cols).transpose(0, 2, 1, 3).reshape(height * rows, width * cols)
    for _ in range(iters):
        vertical, horizontal = grid[:-2] + grid[2:], grid[:, :-2] + grid[:, 2:]
        grid = grid.copy()
        grid[1:-1, 1:-1] = (vertical[:, 1:-1] + horizontal[1:-1]) / 4.0
    return grid.reshape(height, rows, width, cols).transpose(0, 2, 1, 3).reshape(tiles.shape)


def check(outputs, inputs, size):
    tile, rows, cols, iters = host.wide(inputs)["tile"], size["Mt"], size["Nt"], int(inputs["iters"][0])
    # Three additions in every step.
    allowed = 3.5 * host.UNIT * iters * jacobi(np.abs(tile), rows, cols, iters)
    host.require_close("new_tile", outputs["new_tile"], jacobi(tile, rows, cols, iters), allowed)


def main():
    host.drive("Five-point Jacobi steps with halo exchange", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
