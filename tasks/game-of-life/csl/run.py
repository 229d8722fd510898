#!/usr/bin/env cs_python
"""Run Game-of-Life and check it; host.py describes the options."""

import host
import numpy as np


def mesh(size):
    return size["x_dim"], size["y_dim"]


def make_inputs(size, random):
    board = (random.random_sample((size["y_dim"], size["x_dim"])) < 0.35).astype(np.uint32)
    return {"initial": board, "generations": np.array([size["iters"]], dtype=np.uint16)}


def run(device, inputs, size):
    shape = size["y_dim"], size["x_dim"], size["iters"]
    kept = int(inputs["generations"][0])
    device.launch("window_open")
    device.copy_in("initial", inputs["initial"])
    device.poison("states", int(np.prod(shape)), np.uint32)
    device.launch("generate", np.uint16(kept))
    states = device.copy_out("states", *shape, dtype=np.uint32)
    states[:, :, kept:] = 0  # nobody asked for these
    return {"states": states}


def successor(board):
    """The next generation."""
    around = np.zeros((board.shape[0] + 2, board.shape[1] + 2), dtype=np.int64)
    for down in range(3):
        for right in range(3):
            around[down : down + board.shape[0], right : right + board.shape[1]] += board
    block = around[1:-1, 1:-1]  # the cell and its eight neighbours
    return ((block == 3) | ((block == 4) & (board == 1))).astype(np.int64)


def check(outputs, inputs, size):
    board = inputs["initial"].astype(np.int64)
    expected = np.zeros(outputs["states"].shape)
    for generation in range(int(inputs["generations"][0])):
        expected[:, :, generation] = board
        board = successor(board)
    host.require_close("states", outputs["states"], expected, 0.0)


def main():
    host.drive("Game of Life", make_inputs, run, check, mesh)


if __name__ == "__main__":
    main()
