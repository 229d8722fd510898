#!/usr/bin/env cs_python
"""Run LorenzoPredictor-Tile and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def shape(size):
    return size["height"], size["width"], size["Mt"] * size["Nt"]


def make_inputs(size, random):
    return {"tile": host.normal(random, *shape(size))}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("tile", inputs["tile"])
    device.poison("residual", inputs["tile"].size)
    device.launch("step")
    return {"residual": device.copy_out("residual", *shape(size))}


def differences(tiles, rows, cols, sign):
    """Cell plus sign times its northern and western cells plus the north-western one, from and to tiles."""
    height, width = tiles.shape[:2]
    grid = tiles.reshape(height, width, rows, cols).transpose(0, 2, 1, 3).reshape(height * rows, width * cols)
    result = grid.copy()
    result[1:] += sign * grid[:-1]
    result[:, 1:] += sign * grid[:, :-1]
    result[1:, 1:] += grid[:-1, :-1]
    return result.reshape(height, rows, width, cols).transpose(0, 2, 1, 3).reshape(tiles.shape)


def check(outputs, inputs, size):
    tile, rows, cols = host.wide(inputs)["tile"], size["Mt"], size["Nt"]
    # Three additions or subtractions.
    allowed = 3.5 * host.UNIT * differences(np.abs(tile), rows, cols, 1.0)
    host.require_close("residual", outputs["residual"], differences(tile, rows, cols, -1.0), allowed)


def main():
    host.drive("Lorenzo predictor", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
