#!/usr/bin/env cs_python
"""Run Residual and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def make_inputs(size, random):
    rows, cols = size["height"] * size["LOCAL_OUT_SZ"], size["width"] * size["LOCAL_IN_SZ"]
    return {"A": host.normal(random, rows, cols), "x": host.normal(random, cols), "b": host.normal(random, rows)}


def run(device, inputs, size):
    (width, height), rows, cols = mesh(size), size["LOCAL_OUT_SZ"], size["LOCAL_IN_SZ"]
    # Column-major tiles; x on row 0 only, NaN elsewhere; b on column 0 only, zeros elsewhere.
    tiles = inputs["A"].reshape(height, rows, width, cols).transpose(0, 2, 3, 1)
    x = np.full((height, width, cols), np.nan, dtype=np.float32)
    x[0] = inputs["x"].reshape(width, cols)
    y = np.zeros((height, width, rows), dtype=np.float32)
    y[:, 0] = inputs["b"].reshape(height, rows)
    device.launch("window_open")
    device.copy_in("A", tiles)
    device.copy_in("x", x, changes=True)
    device.copy_in("y", y, changes=True)
    device.poison("nrm", height * width)
    device.launch("bcast_x")
    return {"nrm": device.copy_out("nrm", height, width)[0, -1:]}  # that of PE (width - 1, 0)


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    expected = np.abs(wide["b"] - wide["A"] @ wide["x"]).max()
    # Independent rounding errors of the products and sums of a row.
    roundings = 2.0 * np.sqrt(wide["x"].size) + 4.0
    allowed = roundings * host.UNIT * (np.abs(wide["b"]) + np.abs(wide["A"]) @ np.abs(wide["x"])).max()
    host.require_close("nrm", outputs["nrm"], np.array([expected]), allowed)


def main():
    host.drive("Infinity norm of b - A x", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
