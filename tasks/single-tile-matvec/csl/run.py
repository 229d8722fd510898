#!/usr/bin/env cs_python
"""Run Single-Tile-Matvec and check it.

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
    parser = argparse.ArgumentParser(description="Repeated matrix-vector product on every PE")
    parser.add_argument("--name", required=True, help="folder that cslc wrote")
    parser.add_argument("--cmaddr", help="IP:port of a CS system; the simulator if absent")
    parser.add_argument("--inputs", help="NPZ file with A, x and iters")
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


def make_inputs(n, iters, seed):
    random = np.random.RandomState(seed)
    return {
        "A": (random.standard_normal((n, n)) / np.sqrt(n)).astype(np.float32),
        "x": random.standard_normal(n).astype(np.float32),
        "iters": np.array([iters], dtype=np.uint16),
    }


def pack(A, pitch):
    """The device's form of A: one leading element, then the columns, each padded with zeros to `pitch`."""
    n = A.shape[0]
    columns = np.zeros((n, pitch), dtype=np.float32)
    columns[:, :n] = A.T
    return np.concatenate([np.zeros(1, dtype=np.float32), columns.ravel()])


def check(y, A, x, iters):
    expected, bound = x.astype(np.float64), np.abs(x.astype(np.float64))
    for _ in range(iters):
        expected, bound = A.astype(np.float64) @ expected, np.abs(A.astype(np.float64)) @ bound
    # Independent rounding errors of n products and sums, in every application.
    allowed = (2.0 * np.sqrt(x.size) + 2.0) * 2.0**-24 * iters * bound
    require_close("y", y, np.broadcast_to(expected, y.shape), np.broadcast_to(allowed, y.shape))


def main():
    args = parse_args()
    with open(args.name + "/out.json", encoding="utf-8") as file:
        params = json.load(file)["params"]
    width, height, n = int(params["width"]), int(params["height"]), int(params["tile_size"])
    pitch = (n + 3) // 4 * 4
    inputs = np.load(args.inputs) if args.inputs else make_inputs(n, int(params["iters"]), args.seed)
    A = take(inputs, "A", (n, n), np.float32)
    x = take(inputs, "x", (n,), np.float32)
    iters = take(inputs, "iters", (1,), np.uint16)

    device = Device(args, width, height)
    packed = np.tile(pack(A, pitch), (height, width, 1))
    spread = np.tile(x, (height, width, 1))
    device.launch("window_open")
    device.copy_in("A", packed)
    device.copy_in("x", spread)
    device.poison("y", pitch)
    device.launch("compute", np.uint16(iters[0]))
    y = np.ascontiguousarray(device.copy_out("y", pitch).view(np.float32)[..., :n])
    packed_after = device.copy_out("A", packed.shape[2]).view(np.float32)
    spread_after = device.copy_out("x", n).view(np.float32)
    stamps = device.stamps()
    device.stop()

    if args.outputs:
        np.savez(args.outputs, y=y, cycles=np.int64(cycles_of(stamps)), stamps=stamps)
    require_unchanged("A", packed, packed_after)
    require_unchanged("x", spread, spread_after)
    if not args.no_check:
        check(y, A, x, int(iters[0]))
        print("y agrees with NumPy")
    print(f"cycles: {cycles_of(stamps)}")


if __name__ == "__main__":
    main()
