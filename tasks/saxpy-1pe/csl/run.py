#!/usr/bin/env cs_python
"""Run SAXPY-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    return {
        "alpha": random.uniform(1.0, 3.0, 1).astype(np.float32),
        "x": host.normal(random, size["n"]),
        "y": host.normal(random, size["n"]),
    }


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("x", inputs["x"])
    device.copy_in("y", inputs["y"], changes=True)
    device.launch("compute", np.float32(inputs["alpha"][0]))
    return {"y": device.copy_out("y", size["n"])}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    scaled = wide["alpha"] * wide["x"]
    # Product and sum each round once.
    allowed = 2.5 * host.UNIT * (np.abs(scaled) + np.abs(wide["y"]))
    host.require_close("y", outputs["y"], scaled + wide["y"], allowed)


def main():
    host.drive("SAXPY on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
