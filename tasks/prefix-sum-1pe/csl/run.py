#!/usr/bin/env cs_python
"""Run Prefix-Sum-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    return {"x": host.normal(random, size["n"])}


def run(device, inputs, size):
    n = size["n"]
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.poison("out", n)
    device.launch("compute")
    return {"out": device.copy_out("out", n)}


def check(outputs, inputs, size):
    x = host.wide(inputs)["x"]
    # Independent rounding errors of up to n additions.
    allowed = 2.0 * np.sqrt(x.size) * host.UNIT * np.cumsum(np.abs(x))
    host.require_close("out", outputs["out"], np.cumsum(x), allowed)


def main():
    host.drive("Prefix sum on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
