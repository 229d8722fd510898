"""`<kernels/fft/fft3d_layout>` against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers.csl_programs import ARCHES, Host, compile_files

from fabrica_bench.compat import cslc

LAYOUT = """
param width: u16;
param points: u16;
param half: u16;
const memcpy = @import_module("<memcpy/get_params>", .{ .width = width, .height = width });
const fft = @import_module("<kernels/fft/fft3d_layout>", .{ .width = width, .memcpy = memcpy });
layout {
  @set_rectangle(width, width);
  fft.FFT_kernel(width, points, if (half == 1) f16 else f32);
}
"""
NORMS = ("backward", "ortho", "forward")


def build(folder: Path, arch: str, width: int, points: int, half: int = 0) -> Path:
    params = f"--params=width:{width},points:{points},half:{half}"
    return compile_files(folder, {"layout.csl": LAYOUT}, arch, (width, width), params)


def scatter(array: npt.NDArray[Any], width: int) -> npt.NDArray[np.float32]:
    """Array [x, y, z] of complex numbers to numbers [row, column, element] of the PEs."""
    points = array.shape[0]
    side = points // width
    blocks = array.reshape(width, side, width, side, points)  # column, x, row, y, z
    ordered = blocks.transpose(2, 0, 4, 3, 1).reshape(width, width, -1)
    return np.ascontiguousarray(ordered).astype(np.complex64).view(np.float32)


def gather(numbers: npt.NDArray[Any], points: int) -> npt.NDArray[np.complex64]:
    """The inverse of `scatter`."""
    width = numbers.shape[0]
    side = points // width
    blocks = numbers.astype(np.float32).view(np.complex64).reshape(width, width, points, side, side)
    return blocks.transpose(1, 4, 0, 3, 2).reshape(points, points, points)


def twiddles(points: int) -> npt.NDArray[np.float32]:
    angles = 2 * np.pi * np.arange(points // 2) / points
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).ravel().astype(np.float32)


class Transform:
    """A program on the simulator with its twiddle factors loaded."""

    def __init__(self, artifact: Path, width: int, points: int, dtype: npt.DTypeLike) -> None:
        self.host = Host(artifact, (width, width))
        self.points, self.width, self.dtype = points, width, np.dtype(dtype)
        self.put("twiddle_array", np.broadcast_to(twiddles(points), (width, width, points)))

    def put(self, name: str, numbers: npt.NDArray[Any]) -> None:
        if self.dtype.itemsize == 2:
            self.host.put(name, numbers.astype(np.float16).view(np.uint16), bits=16)
        else:
            self.host.put(name, np.ascontiguousarray(numbers, dtype=np.float32))

    def run(self, array: npt.NDArray[Any], name: str, *args: Any) -> npt.NDArray[np.complex64]:
        self.put("X", scatter(array, self.width))
        self.host.launch(name, *args)
        count = 2 * self.points**3 // self.width**2
        return gather(self.host.get("X", count, self.dtype), self.points)


def sample(points: int) -> npt.NDArray[np.complex128]:
    rng = np.random.default_rng(points)
    return rng.uniform(-1, 1, (points,) * 3) + 1j * rng.uniform(-1, 1, (points,) * 3)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(("width", "points"), [(1, 4), (2, 4), (4, 4), (2, 8)])
def test_transforms_agree_with_numpy_for_every_norm(tmp_path: Path, arch: str, width: int, points: int) -> None:
    transform = Transform(build(tmp_path, arch, width, points), width, points, np.float32)
    array = sample(points)
    for code, norm in enumerate(NORMS):
        forward = transform.run(array, "csfftExecC2C", np.int16(code), np.int16(0))
        np.testing.assert_allclose(forward, np.fft.fftn(array, norm=norm), rtol=1e-4, atol=1e-4)
        inverse = transform.run(array, "csfftExecC2C", np.int16(code), np.int16(1))
        np.testing.assert_allclose(inverse, np.fft.ifftn(array, norm=norm), rtol=1e-4, atol=1e-4)
    transform.host.stop()


@pytest.mark.parametrize("arch", ARCHES)
def test_real_transforms_are_the_complex_ones_of_real_data(tmp_path: Path, arch: str) -> None:
    transform = Transform(build(tmp_path, arch, 2, 4), 2, 4, np.float32)
    array = sample(4).real
    forward = transform.run(array, "csfftExecR2C", np.int16(0))
    np.testing.assert_allclose(forward, np.fft.fftn(array), rtol=1e-4, atol=1e-4)
    inverse = transform.run(array, "csfftExecC2R", np.int16(0))
    np.testing.assert_allclose(inverse, np.fft.ifftn(array), rtol=1e-4, atol=1e-4)
    cycles = transform.host.get("fft_time", 2, np.uint32)
    assert (cycles[..., 0] > 1000).all()
    assert (cycles[..., 1] == 0).all()
    transform.host.stop()


@pytest.mark.parametrize("arch", ARCHES)
def test_half_precision_is_as_good_as_its_format(tmp_path: Path, arch: str) -> None:
    transform = Transform(build(tmp_path, arch, 2, 8, half=1), 2, 8, np.float16)
    array = sample(8)
    got = transform.run(array, "csfftExecC2C", np.int16(1), np.int16(0))
    expected = np.fft.fftn(array, norm="ortho")
    assert np.abs(got - expected).max() < 9 * 2**-11 * np.abs(expected).max()
    transform.host.stop()


@pytest.mark.parametrize(
    ("width", "points", "message"),
    [(3, 12, "must be a power of 2"), (3, 8, "must be a multiple of the width")],
)
def test_sizes_that_do_not_fit_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], width: int, points: int, message: str
) -> None:
    (tmp_path / "layout.csl").write_text(LAYOUT, encoding="utf-8")
    status = cslc.main(
        [
            str(tmp_path / "layout.csl"),
            "--arch=wse3",
            f"--fabric-dims={width + 7},{width + 2}",
            "--fabric-offsets=4,1",
            "--memcpy",
            f"--params=width:{width},points:{points},half:0",
            "-o",
            str(tmp_path / "out"),
        ]
    )
    assert status == 1
    assert message in capfd.readouterr().err
