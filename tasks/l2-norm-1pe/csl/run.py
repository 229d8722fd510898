#!/usr/bin/env cs_python
"""Run L2-Norm-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    return {"x": host.normal(random, size["n"])}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.poison("out", size["n"])
    device.launch("compute")
    return {"out": device.copy_out("out", size["n"])}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    x = wide["x"]
    expected = x / np.sqrt(np.sum(x**2) + 1e-8)
    # Half the error of the sum of squares, and a few roundings.
    allowed = (np.sqrt(x.size) + 6.0) * host.UNIT * np.abs(expected)
    host.require_close("out", outputs["out"], expected, allowed)


def main():
    host.drive("Normalisation to unit length on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
