#!/usr/bin/env cs_python
"""Run Power-Method and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def shape(size):
    return size["height"], size["width"], size["k"]


def make_inputs(size, random):
    return {
        "stencil_coeff": host.normal(random, size["height"], size["width"], 7),
        "x": host.normal(random, *shape(size)),
        "max_ite": np.array([size["max_ite"]], dtype=np.uint16),
    }


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("stencil_coeff", inputs["stencil_coeff"])
    device.copy_in("x", inputs["x"], changes=True)
    device.launch("f_power", np.uint16(inputs["max_ite"][0]))
    return {"x": device.copy_out("x", *shape(size))}


# shared: product on the grid
def product(c, x):
    """A x [y, x, z] with zeros outside; coefficients of center, west, east, south, north, bottom, top."""
    y = c[..., 0:1] * x
    y[:, 1:] += c[:, 1:, 1:2] * x[:, :-1]
    y[:, :-1] += c[:, :-1, 2:3] * x[:, 1:]
    y[:-1] += c[:-1, :, 3:4] * x[1:]
    y[1:] += c[1:, :, 4:5] * x[:-1]
    y[..., 1:] += c[..., 5:6] * x[..., :-1]
    y[..., :-1] += c[..., 6:7] * x[..., 1:]
    return y


# end of shared: product on the grid


def solve(inputs, kind):
    """x after the iterations, in arithmetic of the given kind."""
    c, x = (inputs[name].astype(kind) for name in ("stencil_coeff", "x"))
    for _ in range(int(inputs["max_ite"][0])):
        x = product(c, x)
        x = x / np.sqrt(np.vdot(x, x))
    return {"x": x}


# shared: check of iterates
def check(outputs, inputs, size):
    """How far f32 may lie from float64 is told by how far NumPy's own f32 does."""
    exact, rounded = solve(inputs, np.float64), solve(inputs, np.float32)
    for name, values in exact.items():
        spread = np.abs(rounded[name] - values).max() + host.UNIT * np.abs(values).max()
        host.require_close(name, outputs[name], values, np.full(values.shape, 64.0 * spread))


# end of shared: check of iterates


def main():
    host.drive("Power method on a grid of columns", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
