#!/usr/bin/env cs_python
"""Run ReLU-1PE and check it.

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
    parser = argparse.ArgumentParser(description="ReLU on one PE")
    parser.add_argument("--name", required=True, help="folder that cslc wrote")
    parser.add_argument("--cmaddr", help="IP:port of a CS system; the simulator if absent")
    parser.add_argument("--inputs", help="NPZ file with x")
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


def make_inputs(n, seed):
    return {"x": np.random.RandomState(seed).standard_normal(n).astype(np.float32)}


def check(out, x):
    require_close("out", out, np.maximum(x.astype(np.float64), 0.0), 0.0)


def main():
    args = parse_args()
    with open(args.name + "/out.json", encoding="utf-8") as file:
        n = int(json.load(file)["params"]["n"])
    inputs = np.load(args.inputs) if args.inputs else make_inputs(n, args.seed)
    x = take(inputs, "x", (n,), np.float32)

    device = Device(args, 1, 1)
    device.launch("window_open")
    device.copy_in("x", x)
    device.poison("out", n)
    device.launch("compute")
    out = device.copy_out("out", n).view(np.float32).reshape(n)
    after = device.copy_out("x", n).view(np.float32).reshape(n)
    stamps = device.stamps()
    device.stop()

    if args.outputs:
        np.savez(args.outputs, out=out, cycles=np.int64(cycles_of(stamps)), stamps=stamps)
    require_unchanged("x", x, after)
    if not args.no_check:
        check(out, x)
        print("out agrees with NumPy")
    print(f"cycles: {cycles_of(stamps)}")


if __name__ == "__main__":
    main()
