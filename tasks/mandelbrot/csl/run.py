#!/usr/bin/env cs_python
"""Run Mandelbrot and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["rectangle"], size["rectangle"]


def make_inputs(size, random):
    """The whole set, moved a little; numbers with few enough bits that pixels have no rounding errors."""
    steps = np.array([3 * 4096 // size["cols"], 3 * 4096 // size["rows"]])
    corner = np.array([-2 * 4096, -1.5 * 4096]) + random.randint(0, 256, 2)
    return {
        "region": (np.concatenate([corner, steps]) / 4096).astype(np.float32),
        "max_iters": np.array([size["max_iters"]], dtype=np.uint16),
    }


def run(device, inputs, size):
    side, band = size["rectangle"], size["rows"] // size["rectangle"]
    device.launch("window_open")
    device.copy_in("region", np.tile(inputs["region"], side * side))
    device.poison("iters", side * size["rows"] * size["cols"])
    device.launch("f_mandelbrot", np.uint16(inputs["max_iters"][0]))
    bands = device.copy_out("iters", side, side, band, size["cols"])
    # The last PE of each row has the row's band.
    return {"iters": bands[:, -1].reshape(size["rows"], size["cols"])}


# shared: escape
def escape(region, max_iters, rows, cols):
    """Steps with |z| < 2 in float64, and the fewest and the most that roundings of f32 could make of them."""
    x, y, dx, dy = region.astype(np.float64)
    c = (x + dx * np.arange(cols)) + 1j * (y + dy * np.arange(rows))[:, None]
    z, error, unit = c.copy(), np.zeros(c.shape), 2.0**-24
    counts = np.zeros((3, *c.shape))  # exact, fewest, most
    inside = np.ones((3, *c.shape), dtype=bool)
    for _ in range(max_iters):
        size = np.abs(z)
        doubt = error + 4 * unit * size
        inside &= np.stack([size < 2.0, size + doubt < 2.0, size - doubt < 2.0])
        counts += inside
        moving = inside[2] & (size < 1e3)  # what is far outside stays in doubt if it is
        z = np.where(moving, z * z + c, z)
        grown = (2 * size + error) * error + 4 * unit * (size**2 + np.abs(z))
        error = np.where(moving, np.minimum(grown, 1e3), error)
    return counts


# end of shared: escape


def check(outputs, inputs, size):
    exact, fewest, most = escape(inputs["region"], int(inputs["max_iters"][0]), size["rows"], size["cols"])
    host.require_close("iters", outputs["iters"], exact, np.maximum(exact - fewest, most - exact))


def main():
    host.drive("Escape counts of the Mandelbrot set", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
