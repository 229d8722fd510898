#!/usr/bin/env cs_python
"""Run GEMV-Checkerboard and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["kernel_cols"], size["kernel_rows"]


def make_inputs(size, random):
    rows, cols = size["matrix_rows"], size["matrix_cols"]
    shapes = {"A": (rows, cols), "x": (cols,), "b": (rows,)}
    return {name: host.normal(random, *shape).astype(np.float16) for name, shape in shapes.items()}


def run(device, inputs, size):
    width, height = mesh(size)
    rows, cols = size["matrix_rows"], size["matrix_cols"]
    # Each column has its part of x, each row its part of b: on the PEs of the top row and of the left column only.
    x = np.full((height, cols), host.POISON, dtype=np.uint32)
    x[0] = (np.arange(cols, dtype=np.uint32) % (cols // width) << 16) | inputs["x"].view(np.uint16)
    b = np.full((height, width, rows // height), np.nan, dtype=np.float16)
    b[:, 0] = inputs["b"].reshape(height, -1)

    device.launch("window_open")
    device.copy_in("A", host.to_tiles(inputs["A"], width, height).transpose(0, 1, 3, 2))
    device.copy_in("x", x, changes=True)
    device.copy_in("b", b, changes=True)
    device.poison("y", width * rows, dtype=np.float16)
    device.launch("main")
    return {"y": device.copy_out("y", height, width, rows // height, dtype=np.float16)[:, -1].reshape(rows)}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    cols = size["matrix_cols"]
    magnitude = np.abs(wide["A"]) @ np.abs(wide["x"]) + np.abs(wide["b"])
    # Independent rounding errors of the products and sums of a row, of which small ones are absolute.
    allowed = (2.0 * np.sqrt(cols) + 6.0) * host.UNIT_HALF * magnitude + 2.0 * np.sqrt(cols) * 2.0**-25
    host.require_close("y", outputs["y"], wide["A"] @ wide["x"] + wide["b"], allowed)


def main():
    host.drive("Matrix-vector product in half precision", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
