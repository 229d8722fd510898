#!/usr/bin/env cs_python
"""Run FFT-1D-2D and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return (size["Nz"] if size["DIM"] == 2 else 1), 1


def make_inputs(size, random):
    angles = 2.0 * np.pi * np.arange(size["Nz"] // 2) / size["Nz"]
    return {
        "X": host.normal(random, mesh(size)[0], 2 * size["Nz"]),
        "f_twiddle": np.stack([np.cos(angles), np.sin(angles)], axis=1).ravel().astype(np.float32),
        "inverse": np.array([0], dtype=np.uint16),
    }


def run(device, inputs, size):
    pes, n = mesh(size)[0], size["Nz"]
    device.launch("window_open")
    device.copy_in("f_twiddle", np.tile(inputs["f_twiddle"], pes))
    device.copy_in("X", inputs["X"], changes=True)
    device.launch("f_fft", np.uint16(inputs["inverse"][0]))
    result = device.copy_out("X", pes, n, 2)
    # Afterwards a PE has a column of a plane.
    return {"X": (result.transpose(1, 0, 2) if pes > 1 else result).reshape(pes, 2 * n)}


def check(outputs, inputs, size):
    wide = host.wide(inputs)
    elements = wide["X"][:, ::2] + 1j * wide["X"][:, 1::2]
    axes = (0, 1) if size["DIM"] == 2 else (1,)
    transform = np.fft.ifftn if inputs["inverse"][0] else np.fft.fftn
    exact = transform(elements, axes=axes)
    expected = np.stack([exact.real, exact.imag], axis=2).reshape(wide["X"].shape)
    # In each pass an addition and a product with a rounded factor; then the factors themselves, and the scaling.
    passes = size["DIM"] * (size["Nz"] - 1).bit_length()
    allowed = (4.0 * passes + 4.0) * host.UNIT * np.abs(elements).sum()
    if inputs["inverse"][0]:
        allowed /= elements.size
    host.require_close("X", outputs["X"], expected, np.full(expected.shape, allowed))


def main():
    host.drive("Fourier transform of a vector or a plane", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
