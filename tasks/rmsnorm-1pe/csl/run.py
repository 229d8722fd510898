#!/usr/bin/env cs_python
"""Run RMSNorm-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    return {"x": host.normal(random, size["n"]), "weight": host.normal(random, size["n"])}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.copy_in("weight", inputs["weight"])
    device.poison("out", size["n"])
    device.launch("compute")
    return {"out": device.copy_out("out", size["n"])}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    x = wide["x"]
    expected = x / np.sqrt(np.mean(x**2) + 1e-6) * wide["weight"]
    # Half the error of the sum of squares, and a few roundings.
    allowed = (np.sqrt(x.size) + 8.0) * host.UNIT * np.abs(expected)
    host.require_close("out", outputs["out"], expected, allowed)


def main():
    host.drive("Root-mean-square normalisation on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
