#!/usr/bin/env cs_python
"""Run RowParallel-Softmax and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def make_inputs(size, random):
    return {"x": host.normal(random, size["width"] * size["n_per_pe"])}


def run(device, inputs, size):
    n = inputs["x"].size
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.poison("out", n)
    device.launch("compute")
    return {"out": device.copy_out("out", n)}


def check(outputs, inputs, size):
    x = host.wide(inputs)["x"]
    expected = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
    # Differences, exponentials, sums and division.
    roundings = 2.0 * np.sqrt(size["n_per_pe"]) + 2.0 * size["width"] + 12.0
    allowed = roundings * host.UNIT * expected * (1.0 + x.max() - x)
    host.require_close("out", outputs["out"], expected, allowed)


def main():
    host.drive("Softmax over a strip of PEs", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
