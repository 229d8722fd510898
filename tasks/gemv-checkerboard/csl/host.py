"""What the host scripts of all tasks share: options, inputs, copies, launches, time stamps and comparisons.

    cs_python run.py --name out [--inputs in.npz] [--outputs out.npz] [--no-check]

Without --inputs a script makes its own data from --seed. It compares the results with NumPy and exits with 1 on a
mismatch; with --no-check it computes no expected value. --outputs receives every output array, `cycles`, and the time
`stamps` of every PE (six 16-bit words: start, then end, least significant first). Whatever a program was given as an
input it must leave as it was.

This file is the same for every task, byte for byte.
"""

import argparse
import json
import sys

import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import MemcpyDataType, MemcpyOrder, SdkRuntime

POISON = 0xFFFFFFFF  # a NaN: what an output holds before the run
UNIT = 2.0**-24  # largest relative error of one rounding to f32
UNIT_HALF = 2.0**-11  # of one rounding to f16
COPY = {"streaming": False, "order": MemcpyOrder.ROW_MAJOR, "nonblock": False}


def fail(message):
    sys.exit("run.py: " + message)


def to_words(array):
    """The elements as 32-bit words: 32-bit ones by their bits, 16-bit ones in the lower half."""
    array = np.ascontiguousarray(array)
    if array.dtype.itemsize == 4:
        return array.view(np.uint32).ravel()
    return array.view(np.uint16).ravel().astype(np.uint32)


def from_words(words, dtype):
    if np.dtype(dtype).itemsize == 4:
        return words.view(dtype)
    return words.astype(np.uint16).view(dtype)


class Device:
    """The running program on its rectangle of PEs.

    Copied arrays hold the elements of all PEs, row by row of the rectangle, each PE's own ones together.
    """

    def __init__(self, args, width, height):
        self.width, self.height = width, height
        self.kept = {}
        self.runner = SdkRuntime(args.name, cmaddr=args.cmaddr)
        self.runner.load()
        self.runner.run()

    def copy_in(self, symbol, array, changes=False):
        """Copy to the device. `changes`: the program may write to the symbol."""
        words = to_words(array)
        if not changes:
            self.kept[symbol] = (words, array.dtype)
        self._write(symbol, words, array.dtype)

    def copy_out(self, symbol, *shape, dtype=np.float32):
        """Copy an array of this shape from the device."""
        return from_words(self._read(symbol, int(np.prod(shape)), dtype), dtype).reshape(shape)

    def poison(self, symbol, count, dtype=np.float32):
        """Fill `count` elements, over all PEs, with what no result looks like."""
        self._write(symbol, np.full(count, POISON >> (32 - 8 * np.dtype(dtype).itemsize), dtype=np.uint32), dtype)

    def launch(self, name, *arguments):
        self.runner.launch(name, *arguments, nonblock=False)

    def changed(self):
        """Symbols that no longer hold what was copied to them."""
        pairs = self.kept.items()
        return [name for name, (words, kind) in pairs if not np.array_equal(self._read(name, words.size, kind), words)]

    def stamps(self):
        return self.copy_out("window_stamps", self.height, self.width, 6, dtype=np.uint16)

    def stop(self):
        self.runner.stop()

    def _write(self, symbol, words, dtype):
        self.runner.memcpy_h2d(self.runner.get_id(symbol), words, *self._region(words.size), **self._form(dtype))

    def _read(self, symbol, count, dtype):
        words = np.zeros(count, dtype=np.uint32)
        self.runner.memcpy_d2h(words, self.runner.get_id(symbol), *self._region(count), **self._form(dtype))
        return words

    def _region(self, count):
        return 0, 0, self.width, self.height, count // (self.width * self.height)

    def _form(self, dtype):
        wide = np.dtype(dtype).itemsize == 4
        return {"data_type": MemcpyDataType.MEMCPY_32BIT if wide else MemcpyDataType.MEMCPY_16BIT, **COPY}


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


def normal(random, *shape):
    """Standard normal values in f32."""
    return random.standard_normal(shape).astype(np.float32)


def wide(inputs):
    """The inputs in float64."""
    return {name: array.astype(np.float64) for name, array in inputs.items()}


def to_tiles(matrix, columns, rows):
    """The matrix in equal tiles: [rows, columns, rows of a tile, columns of a tile]."""
    height, width = matrix.shape
    return matrix.reshape(rows, height // rows, columns, width // columns).transpose(0, 2, 1, 3)


def from_tiles(tiles):
    """The matrix of tiles in that form."""
    rows, columns, height, width = tiles.shape
    return tiles.transpose(0, 2, 1, 3).reshape(rows * height, columns * width)


def choose_inputs(path, own):
    """The arrays of a file in place of the script's own data, whose names, shapes and types they must have."""
    if not path:
        return own
    given = np.load(path)
    for name, model in own.items():
        if name not in given:
            fail("the inputs have no array " + name)
        array = given[name]
        if array.shape != model.shape or array.dtype != model.dtype:
            fail(f"input {name} is {array.dtype} {list(array.shape)}, not {model.dtype} {list(model.shape)}")
    return {name: given[name] for name in own}


def parse_args(about):
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--name", required=True, help="folder that cslc wrote")
    parser.add_argument("--cmaddr", help="IP:port of a CS system; the simulator if absent")
    parser.add_argument("--inputs", help="NPZ file with the input arrays")
    parser.add_argument("--outputs", help="NPZ file to write")
    parser.add_argument("--no-check", action="store_true", help="don't compare with NumPy")
    parser.add_argument("--seed", type=int, default=0, help="of the script's own data")
    return parser.parse_args()


def drive(about, make_inputs, run, check, mesh=None):
    """Run a task's program from the command line.

    make_inputs(size, random) gives arrays by name; run(device, inputs, size) copies, launches and returns the outputs
    by name; check(outputs, inputs, size) compares them; mesh(size) gives PE columns and rows, one PE if absent.
    """
    args = parse_args(about)
    with open(args.name + "/out.json", encoding="utf-8") as file:
        size = {name: int(value) for name, value in json.load(file)["params"].items()}
    inputs = choose_inputs(args.inputs, make_inputs(size, np.random.RandomState(args.seed)))

    device = Device(args, *(mesh(size) if mesh else (1, 1)))
    outputs = run(device, inputs, size)
    changed = device.changed()
    stamps = device.stamps()
    device.stop()

    cycles = cycles_of(stamps)
    if args.outputs:
        np.savez(args.outputs, cycles=np.int64(cycles), stamps=stamps, **outputs)
    if changed:
        fail("the program changed its input " + ", ".join(changed))
    if not args.no_check:
        check(outputs, inputs, size)
        print(" and ".join(outputs) + " agrees with NumPy")
    print(f"cycles: {cycles}")
