#!/usr/bin/env cs_python
"""Run GEMM-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    return {"A": host.normal(random, size["M"], size["K"]), "B": host.normal(random, size["K"], size["N"])}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("A", inputs["A"])
    device.copy_in("B", inputs["B"])
    device.poison("C", size["M"] * size["N"])
    device.launch("compute")
    return {"C": device.copy_out("C", size["M"], size["N"])}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    # Independent rounding errors of K products and sums.
    allowed = (2.0 * np.sqrt(size["K"]) + 2.0) * host.UNIT * (np.abs(wide["A"]) @ np.abs(wide["B"]))
    host.require_close("C", outputs["C"], wide["A"] @ wide["B"], allowed)


def main():
    host.drive("Matrix product on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
