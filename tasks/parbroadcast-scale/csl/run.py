#!/usr/bin/env cs_python
"""Run ParBroadcast-Scale and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def make_inputs(size, random):
    return {
        "x": host.normal(random, size["width"] * size["n_per_pe"]),
        "alpha": random.uniform(1.25, 4.0, 1).astype(np.float32),
    }


def run(device, inputs, size):
    n, width = inputs["x"].size, size["width"]
    factors = np.full(width, np.nan, dtype=np.float32)
    factors[0] = inputs["alpha"][0]
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.copy_in("alpha", factors, changes=True)
    device.poison("out", n)
    device.launch("compute")
    return {"out": device.copy_out("out", n)}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    expected = wide["alpha"] * wide["x"]
    host.require_close("out", outputs["out"], expected, 1.01 * host.UNIT * np.abs(expected))  # one rounding


def main():
    host.drive("Broadcast of a factor over a strip of PEs", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
