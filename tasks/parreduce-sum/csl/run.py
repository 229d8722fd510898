#!/usr/bin/env cs_python
"""Run ParReduce-Sum and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def make_inputs(size, random):
    return {"x": host.normal(random, size["width"] * size["n_per_pe"])}


def run(device, inputs, size):
    width = size["width"]
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.poison("result", width)
    device.launch("compute")
    return {"result": device.copy_out("result", width)[:1]}  # that of PE (0, 0)


def check(outputs, inputs, size):
    x = host.wide(inputs)["x"]
    # Independent rounding errors of a chunk's serial sum, and of the tree.
    roundings = 2.0 * np.sqrt(size["n_per_pe"]) + 2.0 * (size["width"] - 1).bit_length()
    host.require_close("result", outputs["result"], np.array([x.sum()]), roundings * host.UNIT * np.abs(x).sum())


def main():
    host.drive("Sum over a strip of PEs", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
