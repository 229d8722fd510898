#!/usr/bin/env cs_python
"""Run GEMV-RowPart and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return 1, size["Py"]


def make_inputs(size, random):
    return {"A": host.normal(random, size["Py"] * size["rows_per_pe"], size["N"]), "x": host.normal(random, size["N"])}


def run(device, inputs, size):
    rows = size["Py"] * size["rows_per_pe"]
    device.launch("window_open")
    device.copy_in("A", inputs["A"])
    device.copy_in("x", np.tile(inputs["x"], (size["Py"], 1)))
    device.poison("y", rows)
    device.launch("compute")
    return {"y": device.copy_out("y", rows)}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    # Independent rounding errors of N products and sums.
    allowed = (2.0 * np.sqrt(size["N"]) + 2.0) * host.UNIT * (np.abs(wide["A"]) @ np.abs(wide["x"]))
    host.require_close("y", outputs["y"], wide["A"] @ wide["x"], allowed)


def main():
    host.drive("Matrix-vector product on a column of PEs", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
