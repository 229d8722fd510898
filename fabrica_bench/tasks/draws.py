"""The input distributions that oracles share: pure functions of a NumPy generator, in float64.

normal      standard normal
skewed      log-normal, all positive, a few values dominate
mixed       normal times a power of ten between -4 and 4: mixed magnitudes, cancellation
structured  a sawtooth of multiples of 1/8 through zero with random period and phase: exact in f32 and f16
negative    all below -1/8
impulse     zeros but for a few large values at random places
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


def _normal(rng: np.random.Generator, count: int) -> FloatArray:
    return rng.standard_normal(count)


def _skewed(rng: np.random.Generator, count: int) -> FloatArray:
    return rng.lognormal(mean=0.0, sigma=1.25, size=count)


def _mixed(rng: np.random.Generator, count: int) -> FloatArray:
    return np.asarray(rng.standard_normal(count) * 10.0 ** rng.uniform(-4.0, 4.0, count))


def _structured(rng: np.random.Generator, count: int) -> FloatArray:
    period, phase = int(rng.integers(17, 61)), int(rng.integers(0, 17))
    return np.asarray(((np.arange(count) * 3 + phase) % period - period // 2) / 8.0)


def _negative(rng: np.random.Generator, count: int) -> FloatArray:
    return np.asarray(-(np.abs(rng.standard_normal(count)) + 0.125))


def _impulse(rng: np.random.Generator, count: int) -> FloatArray:
    values = np.zeros(count)
    places = rng.choice(count, size=min(count, 1 + int(rng.integers(1, 4))), replace=False)
    values[places] = rng.uniform(64.0, 512.0, len(places)) * rng.choice([-1.0, 1.0], len(places))
    return values


_DRAWS: Final[dict[str, Callable[[np.random.Generator, int], FloatArray]]] = {
    "normal": _normal,
    "skewed": _skewed,
    "mixed": _mixed,
    "structured": _structured,
    "negative": _negative,
    "impulse": _impulse,
}

NAMES: Final = tuple(_DRAWS)


def draw(rng: np.random.Generator, shape: int | tuple[int, ...], distribution: str) -> FloatArray:
    """Values of a named distribution in the given shape. Raises `KeyError` for an unknown name."""
    extents = (shape,) if isinstance(shape, int) else shape
    return _DRAWS[distribution](rng, int(np.prod(extents))).reshape(extents)
