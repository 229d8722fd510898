#!/usr/bin/env cs_python
"""Run Softmax-1PE and check it; host.py describes the options."""

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
    x = host.wide(inputs)["x"]
    expected = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
    # Differences, exponentials, sum and division.
    allowed = (2.0 * np.sqrt(x.size) + 12.0) * host.UNIT * expected * (1.0 + x.max() - x)
    host.require_close("out", outputs["out"], expected, allowed)


def main():
    host.drive("Softmax on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
