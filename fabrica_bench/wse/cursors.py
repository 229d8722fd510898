"""Addresses that a memory DSD visits, in order (Cerebras SDK docs, "Data structure descriptors")."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fabrica_bench.csl.ir import Dsd

Addresses = npt.NDArray[np.int64]
MEMORY_KINDS = ("mem1d", "mem4d", "circbuf")


def length(dsd: Dsd) -> int:
    """Elements of a memory DSD, wavelets of a fabric DSD."""
    if dsd.kind != "mem4d":
        return dsd.extents[0]
    count = 1
    for extent in dsd.extents:
        count *= extent
    return count


def coefficients(dsd: Dsd) -> list[int]:
    """Address step of each dimension of a `mem4d` DSD in elements, innermost first, resets of inner dimensions undone:
    the stored stride of dimension d is c_d - sum over k < d of c_k * (extent_k - 1)."""
    steps: list[int] = []
    extents = dsd.extents[::-1]
    for dimension in range(len(extents)):
        stride = dsd.strides[dimension] if dimension < len(dsd.strides) else 1
        steps.append(stride + sum(steps[k] * (extents[k] - 1) for k in range(dimension)))
    return steps


def addresses(dsd: Dsd, count: int, size: int) -> Addresses:
    """Byte addresses of the first `count` elements of `size` bytes. Past its end a DSD goes on in its outermost
    dimension."""
    base = int(dsd.base)  # type: ignore[arg-type]
    order = np.arange(count, dtype=np.int64)
    if dsd.kind == "mem1d":
        return base + size * dsd.strides[0] * order
    if dsd.kind == "circbuf":
        step = size * (dsd.strides[0] if dsd.strides else 1)
        return base + step * (order % max(dsd.wraparound, 1))
    total = np.zeros(count, dtype=np.int64)
    rest = order
    extents, steps = dsd.extents[::-1], coefficients(dsd)
    for dimension, (extent, step) in enumerate(zip(extents, steps, strict=True)):
        if dimension == len(extents) - 1 or extent == 0:
            digit = rest
        else:
            digit, rest = rest % extent, rest // extent
        total += digit * step
    return base + size * total


def address_after(dsd: Dsd, count: int, size: int) -> int:
    """Where element number `count` would be: the base of a DSR with `save_address` after an operation."""
    return int(addresses(dsd, count + 1, size)[-1])
