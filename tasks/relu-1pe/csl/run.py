#!/usr/bin/env cs_python
"""Run ReLU-1PE and check it; host.py describes the options."""

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
    host.require_close("out", outputs["out"], np.maximum(host.wide(inputs)["x"], 0.0), 0.0)


def main():
    host.drive("ReLU on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
