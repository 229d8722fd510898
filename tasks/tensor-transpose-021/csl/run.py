#!/usr/bin/env cs_python
"""Run Tensor-Transpose-021 and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def make_inputs(size, random):
    return {"A": host.normal(random, size["ax1"], size["ax2"], size["ax3"])}


def run(device, inputs, size):
    width, height, A = size["width"], size["height"], inputs["A"]
    device.launch("window_open")
    device.copy_in("A", np.tile(A, (height, width, 1, 1, 1)))
    device.poison("B", height * width * A.size)
    device.launch("compute")
    return {"B": device.copy_out("B", height, width, size["ax1"], size["ax3"], size["ax2"])}


def check(outputs, inputs, size):
    B = outputs["B"]
    host.require_close("B", B, np.broadcast_to(inputs["A"].transpose(0, 2, 1), B.shape), 0.0)


def main():
    host.drive("Exchange of the last two axes of a tensor on every PE", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
