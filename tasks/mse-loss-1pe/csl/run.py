#!/usr/bin/env cs_python
"""Run MSE-Loss-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    return {"pred": host.normal(random, size["n"]), "target": host.normal(random, size["n"])}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("pred", inputs["pred"])
    device.copy_in("target", inputs["target"])
    device.poison("result", 1)
    device.launch("compute")
    return {"result": device.copy_out("result", 1)}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    expected = np.array([np.mean((wide["pred"] - wide["target"]) ** 2)])
    # Independent rounding errors of n additions; difference, square and division.
    allowed = (2.0 * np.sqrt(size["n"]) + 5.0) * host.UNIT * expected
    host.require_close("result", outputs["result"], expected, allowed)


def main():
    host.drive("Mean squared error on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
