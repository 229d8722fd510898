#!/usr/bin/env cs_python
"""Run Laplacian2D-Halo and check it.

    cs_python run.py --name out [--inputs in.npz] [--outputs out.npz] [--no-check]

Without --inputs the script makes its own data from --seed. It compares the result with NumPy and exits with 1 on a
mismatch; with --no-check it computes no expected value. --outputs receives every output array, `cycles`, and the time
`stamps` of every PE (six 16-bit words: start, then end, least significant first).
"""

import argparse
import json
import sys

import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import MemcpyDataType, MemcpyOrder, SdkRuntime

POISON = 0xFFFFFFFF  # a NaN: what an output holds before the run
COPY = {"streaming": False, "order": MemcpyOrder.ROW_MAJOR, "nonblock": False}


def parse_args():
    parser = argparse.ArgumentParser(description="Four-neighbour average with halo exchange")
    parser.add_argument("--name", required=True, help="folder that cslc wrote")
    parser.add_argument("--cmaddr", help="IP:port of a CS system; the simulator if absent")
    parser.add_argument("--inputs", help="NPZ file with tile and iters")
    parser.add_argument("--outputs", help="NPZ file to write")
    parser.add_argument("--no-check", action="store_true", help="don't compare with NumPy")
    parser.add_argument("--seed", type=int, default=0, help="of the script's own data")
    return parser.parse_args()


def fail(message):
    sys.exit("run.py: " + message)


def take(inputs, name, shape, dtype):
    """An input of the right form."""
    if name not in inputs:
        fail("the inputs have no array " + name)
    array = inputs[name]
    if array.shape != shape or array.dtype != dtype:
        fail(f"input {name} is {array.dtype} {list(array.shape)}, not {np.dtype(dtype)} {list(shape)}")
    return array


class Device:
    """The running program: copies between arrays [height, width, words] and the PEs, and launches."""

    def __init__(self, args, width, height):
        self.width, self.height = width, height
        self.runner = SdkRuntime(args.name, cmaddr=args.cmaddr)
        self.runner.load()
        self.runner.run()

    def copy_in(self, name, words):
        flat = np.ascontiguousarray(words).view(np.uint32).ravel()
        per_pe = flat.size // (self.width * self.height)
        kind = MemcpyDataType.MEMCPY_32BIT
        symbol = self.runner.get_id(name)
        self.runner.memcpy_h2d(symbol, flat, 0, 0, self.width, self.height, per_pe, data_type=kind, **COPY)

    def copy_out(self, name, per_pe, bits=32):
        flat = np.zeros(self.width * self.height * per_pe, dtype=np.uint32)
        kind = MemcpyDataType.MEMCPY_32BIT if bits == 32 else MemcpyDataType.MEMCPY_16BIT
        symbol = self.runner.get_id(name)
        self.runner.memcpy_d2h(flat, symbol, 0, 0, self.width, self.height, per_pe, data_type=kind, **COPY)
        return flat.reshape(self.height, self.width, per_pe)

    def poison(self, name, per_pe):
        self.copy_in(name, np.full((self.height, self.width, per_pe), POISON, dtype=np.uint32))

    def launch(self, name, *arguments):
        self.runner.launch(name, *arguments, nonblock=False)

    def stamps(self):
        return self.copy_out("window_stamps", 6, bits=16).astype(np.uint16)

    def stop(self):
        self.runner.stop()


def cycles_of(stamps):
    """Latest end minus earliest start."""
    words = stamps.astype(np.int64)
    start = words[..., 0] + (words[..., 1] << 16) + (words[..., 2] << 32)
    end = words[..., 3] + (words[..., 4] << 16) + (words[..., 5] << 32)
    return int(end.max() - start.min())


def require_close(name, actual, expected, allowed):
    """Exit with a message unless every value is finite and within its allowed error."""
    if not np.isfinite(actual).all():
        fail(f"{name} has values that are not finite")
    error = np.abs(actual.astype(np.float64) - expected)
    if (error > allowed).any():
        worst = int(np.argmax(error - allowed))
        values = f"{actual.ravel()[worst]:.9g}, expected {expected.ravel()[worst]:.9g}"
        fail(f"{name} differs from NumPy, most at element {worst}: {values}")


def require_unchanged(name, before, after):
    if np.ascontiguousarray(before).tobytes() != np.ascontiguousarray(after).tobytes():
        fail("the program changed its input " + name)


def make_inputs(height, width, cells, iters, seed):
    random = np.random.RandomState(seed)
    return {
        "tile": random.standard_normal((height, width, cells)).astype(np.float32),
        "iters": np.array([iters], dtype=np.uint16),
    }


def average(tiles, rows, cols, iters):
    """iters steps on the whole grid, from and to tiles."""
    height, width = tiles.shape[:2]
    grid = tiles.reshape(height, width, rows, cols).transpose(0, 2, 1, 3).reshape(height * rows, width * cols)
    for _ in range(iters):
        total = np.zeros_like(grid)
        total[1:] += grid[:-1]
        total[:-1] += grid[1:]
        total[:, 1:] += grid[:, :-1]
        total[:, :-1] += grid[:, 1:]
        grid = total / 4.0
    return grid.reshape(height, rows, width, cols).transpose(0, 2, 1, 3).reshape(tiles.shape)


def check(new_tile, tile, rows, cols, iters):
    wide = tile.astype(np.float64)
    # Three additions in every step.
    allowed = 3.5 * 2.0**-24 * iters * average(np.abs(wide), rows, cols, iters)
    require_close("new_tile", new_tile, average(wide, rows, cols, iters), allowed)


def main():
    args = parse_args()
    with open(args.name + "/out.json", encoding="utf-8") as file:
        params = json.load(file)["params"]
    width, height, rows, cols = (int(params[name]) for name in ("width", "height", "Mt", "Nt"))
    cells = rows * cols
    inputs = np.load(args.inputs) if args.inputs else make_inputs(height, width, cells, int(params["iters"]), args.seed)
    tile = take(inputs, "tile", (height, width, cells), np.float32)
    iters = take(inputs, "iters", (1,), np.uint16)

    device = Device(args, width, height)
    device.launch("window_open")
    device.copy_in("tile", tile)
    device.poison("new_tile", cells)
    device.launch("step", np.uint16(iters[0]))
    new_tile = device.copy_out("new_tile", cells).view(np.float32)
    after = device.copy_out("tile", cells).view(np.float32)
    stamps = device.stamps()
    device.stop()

    if args.outputs:
        np.savez(args.outputs, new_tile=new_tile, cycles=np.int64(cycles_of(stamps)), stamps=stamps)
    require_unchanged("tile", tile, after)
    if not args.no_check:
        check(new_tile, tile, rows, cols, int(iters[0]))
        print("new_tile agrees with NumPy")
    print(f"cycles: {cycles_of(stamps)}")


if __name__ == "__main__":
    main()
