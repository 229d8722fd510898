#!/usr/bin/env cs_python
"""Run BiCGSTAB and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["width"], size["height"]


def shape(size):
    return size["height"], size["width"], size["k"]


def make_inputs(size, random):
    """An operator whose diagonal outweighs the rest of each row: the iteration converges before max_ite."""
    coefficients = (random.rand(size["height"], size["width"], 7) / -4).astype(np.float32)
    coefficients[..., 0] = 2.0
    return {
        "stencil_coeff": coefficients,
        "b": host.normal(random, *shape(size)),
        "x": host.normal(random, *shape(size)),
        "tol": np.array([1e-3], dtype=np.float32),
        "max_ite": np.array([size["max_ite"]], dtype=np.uint16),
    }


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("stencil_coeff", inputs["stencil_coeff"])
    device.copy_in("b", inputs["b"])
    device.copy_in("x", inputs["x"], changes=True)
    device.launch("f_bicgstab", np.float32(inputs["tol"][0]), np.uint16(inputs["max_ite"][0]))
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
    c, b, x, tol = (inputs[name].astype(kind) for name in ("stencil_coeff", "b", "x", "tol"))
    r = first = p = b - product(c, x)
    rho = np.vdot(r, r)
    for _ in range(int(inputs["max_ite"][0])):
        if np.vdot(r, r) <= tol[0] * tol[0]:
            break
        v = product(c, p)
        alpha = rho / np.vdot(first, v)
        s = r - alpha * v
        t = product(c, s)
        omega = np.vdot(t, s) / np.vdot(t, t)
        x = x + alpha * p + omega * s
        r = s - omega * t
        rho, old = np.vdot(first, r), rho
        p = r + rho / old * alpha / omega * (p - omega * v)
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
    host.drive("Stabilised biconjugate gradients on a grid of columns", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
