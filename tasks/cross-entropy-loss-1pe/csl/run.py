#!/usr/bin/env cs_python
"""Run Cross-Entropy-Loss-1PE and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    n = size["n_classes"]
    return {"logits": host.normal(random, n), "label": random.randint(0, n, size=1).astype(np.uint32)}


def run(device, inputs, size):
    device.launch("window_open")
    device.copy_in("logits", inputs["logits"])
    device.copy_in("label", inputs["label"])
    device.poison("result", 1)
    device.launch("compute")
    return {"result": device.copy_out("result", 1)}


def check(outputs, inputs, size):
    logits, label = host.wide(inputs)["logits"], int(inputs["label"][0])
    spread, depth = np.log(np.exp(logits - logits.max()).sum()), logits.max() - logits[label]
    # Sum of exponentials, logarithm and difference.
    allowed = (2.0 * np.sqrt(logits.size) + 12.0) * host.UNIT * (1.0 + spread + depth)
    host.require_close("result", outputs["result"], np.array([spread + depth]), np.array([allowed]))


def main():
    host.drive("Cross entropy on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
