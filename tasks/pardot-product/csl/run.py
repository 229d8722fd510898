#!/usr/bin/env cs_python
"""Run ParDot-Product and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def make_inputs(size, random):
    return {name: host.normal(random, size["width"] * size["n_per_pe"]) for name in ("x", "y")}


def run(device, inputs, size):
    width = size["width"]
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.copy_in("y", inputs["y"])
    device.poison("result", width)
    device.launch("compute")
    return {"result": device.copy_out("result", width)[:1]}  # that of PE (0, 0)


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    terms = wide["x"] * wide["y"]
    # Independent rounding errors of a chunk's serial sum, of the tree and of the products.
    roundings = 2.0 * np.sqrt(size["n_per_pe"]) + 2.0 * (size["width"] - 1).bit_length() + 2.0
    allowed = roundings * host.UNIT * np.abs(terms).sum()
    host.require_close("result", outputs["result"], np.array([terms.sum()]), allowed)


def main():
    host.drive("Inner product over a strip of PEs", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
