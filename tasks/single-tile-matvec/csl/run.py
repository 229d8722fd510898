#!/usr/bin/env cs_python
"""Run Single-Tile-Matvec and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def padded(n):
    """Length of a column on the device."""
    return (n + 3) // 4 * 4


def make_inputs(size, random):
    n = size["tile_size"]
    return {
        "A": (random.standard_normal((n, n)) / np.sqrt(n)).astype(np.float32),
        "x": host.normal(random, n),
        "iters": np.array([size["iters"]], dtype=np.uint16),
    }


def pack(A):
    """The device's form of A: one leading element, then the columns, each padded with zeros."""
    n = A.shape[0]
    columns = np.zeros((n, padded(n)), dtype=np.float32)
    columns[:, :n] = A.T
    return np.concatenate([np.zeros(1, dtype=np.float32), columns.ravel()])


def run(device, inputs, size):
    width, height, n = size["width"], size["height"], size["tile_size"]
    device.launch("window_open")
    device.copy_in("A", np.tile(pack(inputs["A"]), (height, width, 1)))
    device.copy_in("x", np.tile(inputs["x"], (height, width, 1)))
    device.poison("y", height * width * padded(n))
    device.launch("compute", np.uint16(inputs["iters"][0]))
    return {"y": np.ascontiguousarray(device.copy_out("y", height, width, padded(n))[..., :n])}


def check(outputs, inputs, size):
    wide, iters = host.wide(inputs), int(inputs["iters"][0])
    expected, bound = wide["x"], np.abs(wide["x"])
    for _ in range(iters):
        expected, bound = wide["A"] @ expected, np.abs(wide["A"]) @ bound
    # Independent rounding errors of n products and sums, in every application.
    allowed = (2.0 * np.sqrt(expected.size) + 2.0) * host.UNIT * iters * bound
    y = outputs["y"]
    host.require_close("y", y, np.broadcast_to(expected, y.shape), np.broadcast_to(allowed, y.shape))


def main():
    host.drive("Repeated matrix-vector product on every PE", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
