"""Reference of SpMV-CSR in float64."""

from __future__ import annotations

import numpy as np

from fabrica_bench.tasks.draws import draw


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """row_ptr [nrows + 1] and col_idx [max_nnz] in u32, val [max_nnz] and x [ncols] in f32."""
    rows, cols, room = size["nrows"], size["ncols"], size["max_nnz"]
    mean = room // rows
    lengths = np.full(rows, min(mean, cols))
    if distribution == "band":
        lengths = np.minimum(lengths, 3)
    elif distribution != "full":
        # Even rows give what odd ones take, so that the room is never exceeded; the first and the last row have some.
        give = rng.integers(0, min(mean, cols - mean) + 1, rows // 2)
        give[0] = min(give[0], mean - 1)
        lengths[0 : 2 * len(give) : 2] -= give
        lengths[1 : 2 * len(give) : 2] += give
    columns = [
        _band(row, length, cols) if distribution == "band" else np.sort(rng.permutation(cols)[:length])
        for row, length in enumerate(lengths)
    ]
    count = int(lengths.sum())
    kind = distribution if distribution in ("normal", "skewed", "mixed") else "normal"
    col_idx, val = np.zeros(room, dtype=np.uint32), np.zeros(room, dtype=np.float32)
    col_idx[:count], val[:count] = np.concatenate(columns), draw(rng, count, kind)
    row_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    return {"row_ptr": row_ptr, "col_idx": col_idx, "val": val, "x": draw(rng, cols, kind).astype(np.float32)}


def _band(row: int, length: int, cols: int) -> np.ndarray:
    return np.clip(row - 1, 0, cols - length) + np.arange(length)


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """y = A x."""
    starts, columns = inputs["row_ptr"].astype(np.int64), inputs["col_idx"].astype(np.int64)
    terms = inputs["val"].astype(np.float64) * inputs["x"].astype(np.float64)[columns % size["ncols"]]
    return {"y": np.array([terms[starts[row] : starts[row + 1]].sum() for row in range(size["nrows"])])}


def magnitude(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """|A| |x|."""
    return expected({**inputs, "val": np.abs(inputs["val"]), "x": np.abs(inputs["x"])}, size)
