"""Host arrays of a memory copy, to and from the simulator's form uint32[h, w, l].

The host array holds one element per 32-bit word, `w * h * l` of them for a region of `w` columns, `h` rows and `l`
elements per PE. Positions (Cerebras SDK documentation, "memcpy"):
    ROW_MAJOR   (y * w + x) * l + e    element index fastest
    COL_MAJOR   y + h * (x + w * e)    row index fastest
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fabrica_bench.compat.platforms import MemcpyOrder
from fabrica_bench.compat.sessions import HostError

Words = npt.NDArray[np.uint32]


class Region(NamedTuple):
    """PEs of a copy: north-west corner, columns, rows, and elements per PE."""

    px: int
    py: int
    w: int
    h: int
    l: int  # noqa: E741 - the vendor's name


def check_region(call: str, region: Region, width: int, height: int) -> None:
    """Is the region inside the program rectangle of `width` by `height` PEs?

    Raises:
        HostError: naming the limits.
    """
    px, py, w, h, count = region
    if w < 1 or h < 1 or count < 1:
        raise HostError(
            f"{call}: a region of {w} by {h} PEs with {count} elements each is empty",
            remedy="use numbers of 1 and more",
        )
    if px < 0 or py < 0 or px + w > width or py + h > height:
        raise HostError(
            f"{call}: PEs ({px},{py}) to ({px + w - 1},{py + h - 1}) are not all in the program rectangle",
            remedy=f"columns are 0 to {width - 1} and rows 0 to {height - 1}",
        )


def to_device(call: str, source: Any, shape: tuple[int, ...], order: MemcpyOrder) -> Words:
    """The words of a host array as `shape`, whose last axis is the element.

    Args:
        call: Name of the API call, for messages.
        source: Array of a 4-byte dtype with as many elements as `shape`.
        shape: (h, w, l), or (h, l) and (w, l) for broadcasts.
        order: Order of the host array.

    Raises:
        HostError: Wrong dtype, size or order.
    """
    array = np.asarray(source)
    check_array(call, array, int(np.prod(shape)))
    check_order(call, order)
    words = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
    return np.array(words.reshape(shape, order=_numpy_order(order)), order="C")


def to_host(destination: npt.NDArray[Any], words: Words, order: MemcpyOrder) -> None:
    """Store uint32[h, w, l] in a host array that `check_array` accepted."""
    flat = words.ravel(order=_numpy_order(order))
    destination[...] = flat.view(destination.dtype).reshape(destination.shape)


def check_array(call: str, array: Any, size: int, *, writable: bool = False) -> None:
    """Can the array hold the copy?

    Raises:
        HostError: It isn't a NumPy array of `size` 4-byte elements (that can be written, if asked).
    """
    if not isinstance(array, np.ndarray):
        raise HostError(f"{call}: the host buffer is a {type(array).__name__}", remedy="pass a NumPy array")
    if array.dtype.itemsize != 4:
        raise HostError(
            f"{call}: the host buffer has dtype {array.dtype}, of {array.dtype.itemsize} bytes",
            remedy="use a dtype of 4 bytes; 16-bit data takes a word per element (sdk_utils.input_array_to_u32)",
        )
    if array.size != size:
        raise HostError(
            f"{call}: the host buffer has {array.size} elements, the copy has {size}",
            remedy="its size must be w * h * l",
        )
    if writable and not array.flags.writeable:
        raise HostError(f"{call}: the host buffer is read-only", remedy="pass a writable NumPy array")


def check_order(call: str, order: Any) -> None:
    """Is it one of the two orders?

    Raises:
        HostError: It isn't.
    """
    if not isinstance(order, MemcpyOrder):
        raise HostError(f"{call}: order is {order!r}", remedy="pass MemcpyOrder.ROW_MAJOR or COL_MAJOR")


def _numpy_order(order: MemcpyOrder) -> Any:
    return "F" if order is MemcpyOrder.COL_MAJOR else "C"
