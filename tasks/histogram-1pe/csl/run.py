#!/usr/bin/env cs_python
"""Run Histogram-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    span = 3 * size["n_buckets"] * size["bucket_size"]
    return {"input": random.randint(0, span, size=size["n"]).astype(np.uint32)}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("input", inputs["input"])
    device.poison("hist", size["n_buckets"], np.uint32)
    device.launch("compute")
    return {"hist": device.copy_out("hist", size["n_buckets"], dtype=np.uint32)}


def check(outputs, inputs, size):
    bucket = inputs["input"].astype(np.int64) // size["bucket_size"] % size["n_buckets"]
    expected = np.bincount(bucket, minlength=size["n_buckets"])
    host.require_close("hist", outputs["hist"], expected, 0.0)


def main():
    host.drive("Histogram on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
