#!/usr/bin/env cs_python
"""Run Preconditioned-CG and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def shape(size):
    return size["height"], size["width"], size["k"]


def make_inputs(size, random):
    """A symmetric operator, positive definite because the diagonal outweighs the rest of each row."""
    coefficients = np.zeros((size["height"], size["width"], 7), dtype=np.float32)
    coefficients[:, :-1, 2] = -random.rand(size["height"], size["width"] - 1) / 8
    coefficients[:, 1:, 1] = coefficients[:, :-1, 2]
    coefficients[:-1, :, 3] = -random.rand(size["height"] - 1, size["width"]) / 8
    coefficients[1:, :, 4] = coefficients[:-1, :, 3]
    coefficients[..., 5] = -random.rand(size["height"], size["width"]) / 8
    coefficients[..., 6] = coefficients[..., 5]
    coefficients[..., 0] = 1.0 + random.rand(size["height"], size["width"])
    return {
        "stencil_coeff": coefficients,
        "b": host.normal(random, *shape(size)),
        "x": host.normal(random, *shape(size)),
        "tol": np.array([1e-6], dtype=np.float32),
        "max_ite": np.array([size["max_ite"]], dtype=np.uint16),
    }


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("stencil_coeff", inputs["stencil_coeff"])
    device.copy_in("b", inputs["b"])
    device.copy_in("x", inputs["x"], changes=True)
    device.poison("xi", size["height"] * size["width"])
    device.launch("f_pcg", np.float32(inputs["tol"][0]), np.uint16(inputs["max_ite"][0]))
    totals = device.copy_out("xi", size["height"] * size["width"])
    return {"x": device.copy_out("x", *shape(size)), "xi": totals[:1]}


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
    """x and |r|^2 after the iterations, in arithmetic of the given kind."""
    c, b, x, tol = (inputs[name].astype(kind) for name in ("stencil_coeff", "b", "x", "tol"))
    r = b - product(c, x)
    p = r / c[..., :1]
    rho, xi = np.vdot(r, p), np.vdot(r, r)
    for _ in range(int(inputs["max_ite"][0])):
        if xi <= tol[0] * tol[0]:
            break
        w = product(c, p)
        alpha = rho / np.vdot(p, w)
        x = x + alpha * p
        r = r - alpha * w
        z = r / c[..., :1]
        rho, old = np.vdot(r, z), rho
        xi = np.vdot(r, r)
        p = z + rho / old * p
    return {"x": x, "xi": np.array([xi])}


# shared: check of iterates
def check(outputs, inputs, size):
    """How far f32 may lie from float64 is told by how far NumPy's own f32 does."""
    exact, rounded = solve(inputs, np.float64), solve(inputs, np.float32)
    for name, values in exact.items():
        spread = np.abs(rounded[name] - values).max() + host.UNIT * np.abs(values).max()
        host.require_close(name, outputs[name], values, np.full(values.shape, 64.0 * spread))


# end of shared: check of iterates


def main():
    host.drive("Preconditioned conjugate gradients on a grid of columns", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
