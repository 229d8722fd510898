#!/usr/bin/env cs_python
"""Run SpMV-CSR and check it; host.py describes the options."""

import host
import numpy as np


def make_inputs(size, random):
    rows, cols, room = size["nrows"], size["ncols"], size["max_nnz"]
    length = min(room // rows, cols)
    row_ptr = np.arange(rows + 1, dtype=np.uint32) * length
    col_idx, val = np.zeros(room, dtype=np.uint32), np.zeros(room, dtype=np.float32)
    col_idx[: rows * length] = np.concatenate([np.sort(random.permutation(cols)[:length]) for _ in range(rows)])
    val[: rows * length] = host.normal(random, rows * length)
    return {"row_ptr": row_ptr, "col_idx": col_idx, "val": val, "x": host.normal(random, cols)}


def run(device, inputs, size):
    device.launch("window_open")
    for name in ("row_ptr", "col_idx", "val", "x"):
        device.copy_in(name, inputs[name])
    device.poison("y", size["nrows"])
    device.launch("compute")
    return {"y": device.copy_out("y", size["nrows"])}


def check(outputs, inputs, size):
    starts = inputs["row_ptr"].astype(np.int64)
    terms = host.wide(inputs)["val"] * host.wide(inputs)["x"][inputs["col_idx"]]
    rows = [terms[starts[row] : starts[row + 1]] for row in range(size["nrows"])]
    # Independent rounding errors of the products and sums of a row.
    allowed = (2.0 * np.sqrt(size["ncols"]) + 2.0) * host.UNIT * np.array([np.abs(row).sum() for row in rows])
    host.require_close("y", outputs["y"], np.array([row.sum() for row in rows]), allowed)


def main():
    host.drive("Sparse matrix-vector product on one PE", make_inputs, run, check)


if __name__ == "__main__":
    main()
