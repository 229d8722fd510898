#!/usr/bin/env cs_python
"""Run Sum-Reduction-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    return {"x": host.normal(random, size["n"])}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.poison("result", 1)
    device.launch("compute")
    return {"result": device.copy_out("result", 1)}


def check(outputs, inputs, size):
    x = host.wide(inputs)["x"]
    # Independent rounding errors of up to n additions.
    allowed = 2.0 * np.sqrt(x.size) * host.UNIT * np.abs(x).sum()
    host.require_close("result", outputs["result"], np.array([x.sum()]), allowed)


def main():
    host.drive("Sum on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
