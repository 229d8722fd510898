#!/usr/bin/env cs_python
"""Run DFT-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    n = size["N"]
    angle = 2.0 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n).ravel()
    tables = {"cosT": np.cos(angle).astype(np.float32), "sinT": -np.sin(angle).astype(np.float32)}
    return {"x": host.normal(random, n), **tables}


def run(device, inputs, size):
    n = size["N"]
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.copy_in("cosT", inputs["cosT"])
    device.copy_in("sinT", inputs["sinT"])
    device.poison("Xre", n)
    device.poison("Xim", n)
    device.launch("compute")
    return {"Xre": device.copy_out("Xre", n), "Xim": device.copy_out("Xim", n)}


def check(outputs, inputs, size):
    wide, n = host.wide(inputs), size["N"]
    for name, table in (("Xre", wide["cosT"].reshape(n, n)), ("Xim", wide["sinT"].reshape(n, n))):
        # Independent rounding errors of N products and sums.
        allowed = (2.0 * np.sqrt(n) + 2.0) * host.UNIT * (np.abs(table) @ np.abs(wide["x"]))
        host.require_close(name, outputs[name], table @ wide["x"], allowed)


def main():
    host.drive("Discrete Fourier transform on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
