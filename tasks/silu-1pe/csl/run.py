#!/usr/bin/env cs_python
"""Run SiLU-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    return {"x": np.clip(host.normal(random, size["n"]), -40.0, 40.0)}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.poison("out", size["n"])
    device.launch("compute")
    return {"out": device.copy_out("out", size["n"])}


def check(outputs, inputs, size):
    x = host.wide(inputs)["x"]
    expected = x / (1.0 + np.exp(-x))
    # Exponential, sum, reciprocal and product.
    host.require_close("out", outputs["out"], expected, 13.0 * host.UNIT * np.abs(expected))


def main():
    host.drive("Sigmoid linear unit on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
