#!/usr/bin/env cs_python
"""Run Histogram and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["HIST_WIDTH"], size["HIST_HEIGHT"]


def shape(size, elements):
    return size["HIST_HEIGHT"], size["HIST_WIDTH"], size[elements]


def make_inputs(size, random):
    span = 3 * int(np.prod(shape(size, "NUM_BUCKETS"))) * size["BUCKET_SIZE"]
    return {"inputs": random.randint(0, span, size=shape(size, "INPUT_SIZE")).astype(np.uint32)}


def run(device, inputs, size):
    width, height = mesh(size)
    device.launch("window_open")
    device.copy_in("inputs", inputs["inputs"])
    device.poison("buckets", width * height * size["NUM_BUCKETS"], np.uint32)
    device.poison("result", width * height, np.uint32)
    device.launch("main")
    return {
        "buckets": device.copy_out("buckets", *shape(size, "NUM_BUCKETS"), dtype=np.uint32),
        "result": device.copy_out("result", height, width, dtype=np.uint32)[0, -1:],  # that of PE (HIST_WIDTH - 1, 0)
    }


def check(outputs, inputs, size):
    values = inputs["inputs"].astype(np.int64).ravel()
    wanted = shape(size, "NUM_BUCKETS")
    counts = np.bincount(values // size["BUCKET_SIZE"] % int(np.prod(wanted)), minlength=int(np.prod(wanted)))
    host.require_close("buckets", outputs["buckets"], counts.reshape(wanted), 0.0)
    host.require_close("result", outputs["result"], np.array([values.size]), 0.0)


def main():
    host.drive("Distributed histogram on a torus", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
