#!/usr/bin/env cs_python
"""Run GEMV and check it; host.py describes the options."""

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


def run(device, inputs, size):
    width, height = mesh(size)
    rows, cols = size["matrix_rows"], size["matrix_cols"]
    # Each column has its part of x, each row its part of b: on the PEs of the top row and of the left column only.
    x = np.full((height, cols), np.nan, dtype=np.float32)
    x[0] = inputs["x"]
    b = np.full((height, width, rows // height), np.nan, dtype=np.float32)
    b[:, 0] = inputs["b"].reshape(height, -1)

    device.launch("window_open")
    device.copy_in("A", host.to_tiles(inputs["A"], width, height).transpose(0, 1, 3, 2))
    device.copy_in("x", x, changes=True)
    device.copy_in("b", b, changes=True)
    device.poison("y", width * rows)
    device.launch("main")
    return {"y": device.copy_out("y", height, width, rows // height)[:, -1].reshape(rows)}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    magnitude = np.abs(wide["A"]) @ np.abs(wide["x"]) + np.abs(wide["b"])
    # Independent rounding errors of the products and sums of a row.
    allowed = (2.0 * np.sqrt(size["matrix_cols"]) + 3.0) * host.UNIT * magnitude
    host.require_close("y", outputs["y"], wide["A"] @ wide["x"] + wide["b"], allowed)


def main():
    host.drive("Matrix-vector product on a rectangle of PEs", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
