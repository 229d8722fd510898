#!/usr/bin/env cs_python
"""Run Max-Reduction-1PE and check it; host.py describes the options."""

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
    host.require_close("result", outputs["result"], np.array([host.wide(inputs)["x"].max()]), 0.0)


def main():
    host.drive("Largest element on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
