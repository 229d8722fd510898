#!/usr/bin/env cs_python
"""Run GEMV-Collectives-2D and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["kernel_cols"], size["kernel_rows"]


def make_inputs(size, random):
    rows, cols = size["matrix_rows"], size["matrix_cols"]
    return {
        "A": host.normal(random, rows, cols),
        "x": host.normal(random, cols),
        "b": host.normal(random, rows),
    }


def on_first(vector, size):
    """A copy for PE (0, 0), NaN for all others."""
    width, height = mesh(size)
    copies = np.full((height * width, vector.size), np.nan, dtype=np.float32)
    copies[0] = vector
    return copies


def run(device, inputs, size):
    width, height = mesh(size)
    rows = size["matrix_rows"]
    device.launch("window_open")
    device.copy_in("A", host.to_tiles(inputs["A"], width, height).transpose(0, 1, 3, 2))
    device.copy_in("x", on_first(inputs["x"], size), changes=True)
    device.copy_in("b", on_first(inputs["b"], size), changes=True)
    device.poison("y", width * height * rows)
    device.launch("main")
    return {"y": device.copy_out("y", height, width, rows)[-1, -1]}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    magnitude = np.abs(wide["A"]) @ np.abs(wide["x"]) + np.abs(wide["b"])
    # Independent rounding errors of the products and sums of a row.
    allowed = (2.0 * np.sqrt(size["matrix_cols"]) + 3.0) * host.UNIT * magnitude
    host.require_close("y", outputs["y"], wide["A"] @ wide["x"] + wide["b"], allowed)


def main():
    host.drive("Matrix-vector product with collectives", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
