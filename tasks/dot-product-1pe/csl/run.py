#!/usr/bin/env cs_python
"""Run Dot-Product-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    return {"x": host.normal(random, size["n"]), "y": host.normal(random, size["n"])}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.copy_in("y", inputs["y"])
    device.poison("result", 1)
    device.launch("compute")
    return {"result": device.copy_out("result", 1)}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    terms = wide["x"] * wide["y"]
    # Independent rounding errors of up to n additions, and of the products.
    allowed = (2.0 * np.sqrt(terms.size) + 2.0) * host.UNIT * np.abs(terms).sum()
    host.require_close("result", outputs["result"], np.array([terms.sum()]), allowed)


def main():
    host.drive("Inner product on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
