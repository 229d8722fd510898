#!/usr/bin/env cs_python
"""Run GEMM and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["P"], size["P"]


def shapes(size):
    """Of A, B and C."""
    rows, inner, cols = (size["P"] * size[name] for name in ("Mt", "Kt", "Nt"))
    return (rows, inner), (inner, cols), (rows, cols)


def make_inputs(size, random):
    of_a, of_b, _ = shapes(size)
    return {"A": host.normal(random, *of_a), "B": host.normal(random, *of_b)}


def run(device, inputs, size):
    p, mt, nt = size["P"], size["Mt"], size["Nt"]
    device.launch("window_open")
    for name in ("A", "B"):
        device.copy_in(name, host.to_tiles(inputs[name], p, p).transpose(0, 1, 3, 2))
    device.poison("C", p * p * mt * nt)
    device.launch("main")
    return {"C": host.from_tiles(device.copy_out("C", p, p, nt, mt).transpose(0, 1, 3, 2))}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    # Independent rounding errors of the products and sums of an element.
    allowed = (2.0 * np.sqrt(size["P"] * size["Kt"]) + 2.0) * host.UNIT * (np.abs(wide["A"]) @ np.abs(wide["B"]))
    host.require_close("C", outputs["C"], wide["A"] @ wide["B"], allowed)


def main():
    host.drive("Matrix product on a square mesh of PEs", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
