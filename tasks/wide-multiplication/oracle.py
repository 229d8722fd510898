"""Reference of Wide-Multiplication in Python's own integers."""

from __future__ import annotations

import numpy as np


def inputs(rng: np.random.Generator, size: dict[str, int], distribution: str) -> dict[str, np.ndarray]:
    """left and right [num_bits / 32] in u16, n_words [1] in u16: how many words of each count, the others are noise."""
    capacity = size["num_bits"] // 32
    count = capacity if distribution == "full" else int(rng.integers(1, capacity + 1))
    return {
        "left": _words(rng, capacity, distribution),
        "right": _words(rng, capacity, distribution),
        "n_words": np.array([count], dtype=np.uint16),
    }


def _words(rng: np.random.Generator, count: int, distribution: str) -> np.ndarray:
    words = rng.integers(0, 2**16, count, dtype=np.uint16)
    chosen = rng.uniform(size=count) < 0.75
    if distribution == "carries":
        words[chosen] = 0xFFFF
    elif distribution == "sparse":
        words[chosen] = 0
    return words


def expected(inputs: dict[str, np.ndarray], size: dict[str, int]) -> dict[str, np.ndarray]:
    """The words of left * right, least significant first; exact, since all are below 2^53."""
    count = int(inputs["n_words"][0])
    product = _value(inputs["left"][:count]) * _value(inputs["right"][:count])
    words = [product >> (16 * place) & 0xFFFF for place in range(size["num_bits"] // 16)]
    return {"result": np.array(words, dtype=np.float64)}


def _value(words: np.ndarray) -> int:
    return sum(int(word) << (16 * place) for place, word in enumerate(words))
