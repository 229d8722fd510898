#!/usr/bin/env cs_python
"""Run Histogram-Inline and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return 1, size["Py"]


def make_inputs(size, random):
    span = 3 * size["n_buckets"] * size["bucket_size"]
    return {"input": random.randint(0, span, size=size["Py"] * size["n_per_pe"]).astype(np.uint32)}


def run(device, inputs, size):
    shape = size["Py"], size["n_buckets"]
    device.launch("window_open")
    device.copy_in("input", inputs["input"])
    device.poison("hist", shape[0] * shape[1], np.uint32)
    device.launch("compute")
    return {"hist": device.copy_out("hist", *shape, dtype=np.uint32)[0]}  # that of PE (0, 0)


def check(outputs, inputs, size):
    bucket = inputs["input"].astype(np.int64) // size["bucket_size"] % size["n_buckets"]
    expected = np.bincount(bucket, minlength=size["n_buckets"])
    host.require_close("hist", outputs["hist"], expected, 0.0)


def main():
    host.drive("Histogram over a column of PEs", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
