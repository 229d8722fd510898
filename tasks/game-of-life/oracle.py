"""Reference of Game-of-Life, on the whole board at once."""

from __future__ import annotations

import numpy as np


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """initial [y_dim, x_dim] in u32, 0 or 1, and generations [1] in u16."""
    rows, cols, most = size["y_dim"], size["x_dim"], size["iters"]
    board = np.zeros((rows, cols), dtype=np.uint32)
    kept = int(rng.integers(most // 2 + 1, most + 1))
    if distribution == "glider":
        kept = most
        shape = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1]], dtype=np.uint32)
        _put(rng, board, np.rot90(shape, int(rng.integers(4))))
    elif distribution == "soup":
        board[:] = rng.uniform(size=board.shape) < 0.35
    elif distribution == "crowded":
        board[:] = rng.uniform(size=board.shape) < 0.9
    elif distribution == "edges":
        board[:] = rng.uniform(size=board.shape) < 0.6
        board[1:-1, 1:-1] = 0
    elif distribution == "still":
        for pattern in ((2, 2), (2, 2), (1, 3)):
            _put(rng, board, np.ones(pattern, dtype=np.uint32))
    else:
        kept = most // 2 + 1
        board[:] = rng.uniform(size=board.shape) < 0.45
        board[: rows // 2] = 0
        board[:, : cols // 2] = 0
    return {"initial": board, "generations": np.array([kept], dtype=np.uint16)}


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """Every generation, and zeros behind the last one."""
    board = inputs["initial"].astype(np.int64)
    states = np.zeros((*board.shape, size["iters"]))
    for generation in range(min(int(inputs["generations"][0]), size["iters"])):
        states[:, :, generation] = board
        ring = np.pad(board, 1)
        rows = ring[:-2] + ring[1:-1] + ring[2:]
        neighbours = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - board
        board = ((neighbours == 3) | ((board == 1) & (neighbours == 2))).astype(np.int64)
    return {"states": states}


def _put(rng: np.random.Generator, board: np.ndarray, shape: np.ndarray) -> None:
    """Place a pattern at random."""
    row = int(rng.integers(board.shape[0] - shape.shape[0] + 1))
    col = int(rng.integers(board.shape[1] - shape.shape[1] + 1))
    board[row : row + shape.shape[0], col : col + shape.shape[1]] |= shape
