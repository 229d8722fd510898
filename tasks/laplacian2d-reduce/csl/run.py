#!/usr/bin/env cs_python
"""Run Laplacian2D-Reduce and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def shape(size):
    return size["height"], size["width"], size["Mt"] * size["Nt"]


def make_inputs(size, random):
    return {"tile": host.normal(random, *shape(size)), "iters": np.array([size["iters"]], dtype=np.uint16)}


def run(device, inputs, size):
    width, height = mesh(size)
    device.launch("window_open")
    device.copy_in("tile", inputs["tile"])
    device.poison("nrm", height * width)
    device.launch("step", np.uint16(inputs["iters"][0]))
    return {"nrm": device.copy_out("nrm", height, width)[0]}  # that of the northmost PEs


def last_two(grid, iters):
    """The grid before and after the last step."""
    old = grid
    for _ in range(iters):
        old, grid = grid, np.zeros_like(grid)
        grid[1:] += old[:-1]
        grid[:-1] += old[1:]
        grid[:, 1:] += old[:, :-1]
        grid[:, :-1] += old[:, 1:]
        grid /= 4.0
    return old, grid


def check(outputs, inputs, size):
    (width, height), rows, cols = mesh(size), size["Mt"], size["Nt"]
    iters = int(inputs["iters"][0])
    tiles = host.wide(inputs)["tile"].reshape(height, width, rows, cols)
    grid = tiles.transpose(0, 2, 1, 3).reshape(height * rows, width * cols)
    old, new = last_two(grid, iters)
    old_bound, new_bound = last_two(np.abs(grid), iters)

    def by_column(cells):
        return cells.reshape(height * rows, width, cols).max(axis=(0, 2))

    # Three additions in every step, and the subtraction.
    allowed = 4.5 * host.UNIT * iters * by_column(old_bound + new_bound)
    host.require_close("nrm", outputs["nrm"], by_column(np.abs(new - old)), allowed)


def main():
    host.drive("Four-neighbour average and its largest change", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
