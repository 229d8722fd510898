#!/usr/bin/env cs_python
"""Run 7pt-Stencil and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def shape(size):
    return size["height"], size["width"], size["k"]


def make_inputs(size, random):
    coefficients = host.normal(random, size["height"], size["width"], 7)
    return {"stencil_coeff": coefficients, "x": host.normal(random, *shape(size))}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("stencil_coeff", inputs["stencil_coeff"])
    device.copy_in("x", inputs["x"])
    device.poison("y", inputs["x"].size)
    device.launch("f_spmv")
    return {"y": device.copy_out("y", *shape(size))}


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


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    # Seven products and six additions; a term passes at most seven roundings.
    allowed = 7.5 * host.UNIT * product(np.abs(wide["stencil_coeff"]), np.abs(wide["x"]))
    host.require_close("y", outputs["y"], product(wide["stencil_coeff"], wide["x"]), allowed)


def main():
    host.drive("Seven-point product of a grid of columns", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
