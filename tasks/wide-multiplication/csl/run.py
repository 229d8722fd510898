#!/usr/bin/env cs_python
"""Run Wide-Multiplication and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    words = size["num_bits"] // 32
    return {
        "left": random.randint(0, 2**16, words).astype(np.uint16),
        "right": random.randint(0, 2**16, words).astype(np.uint16),
        "n_words": np.array([words], dtype=np.uint16),
    }


def run(device, inputs, size):
    words = size["num_bits"] // 16
    device.launch("window_open")
    device.copy_in("left", inputs["left"])
    device.copy_in("right", inputs["right"])
    device.poison("result", words, dtype=np.uint16)
    device.launch("f_run", np.uint16(inputs["n_words"][0]))
    return {"result": device.copy_out("result", words, dtype=np.uint16)}


def to_integer(words):
    return int.from_bytes(words.astype("<u2").tobytes(), "little")


def check(outputs, inputs, size):
    count = int(inputs["n_words"][0])
    product = to_integer(inputs["left"][:count]) * to_integer(inputs["right"][:count])
    expected = np.frombuffer(product.to_bytes(size["num_bits"] // 8, "little"), dtype="<u2")
    host.require_close("result", outputs["result"], expected, 0.0)


def main():
    host.drive("Product of two long integers", make_inputs, run, check)


if __name__ == "__main__":
    main()
