#!/usr/bin/env cs_python
"""Run GELU-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    return {"x": np.clip(host.normal(random, size["n"]), -6.0, 6.0)}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.poison("out", size["n"])
    device.launch("compute")
    return {"out": device.copy_out("out", size["n"])}


def check(outputs, inputs, size):
    x = host.wide(inputs)["x"]
    expected = 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    # The factor of x is right within a few roundings of 1.
    host.require_close("out", outputs["out"], expected, 8.0 * host.UNIT * np.abs(x))


def main():
    host.drive("Gaussian error linear unit, tanh form on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
