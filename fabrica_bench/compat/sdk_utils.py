"""Helpers for host arrays: the functions of `cerebras.sdk.sdk_utils`."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fabrica_bench.compat.artifacts import RPC_FILE
from fabrica_bench.compat.sessions import HostError

WORD_BYTES = 4


def memcpy_view(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A view of the low 1, 2 or 4 bytes of each 32-bit word of `array`, in the same shape.

    Raises:
        HostError: `array` has no 4-byte dtype, or `dtype` no size of 1, 2 or 4 bytes.
    """
    kind = np.dtype(dtype)
    if array.dtype.itemsize != WORD_BYTES:
        raise HostError(f"memcpy_view: the array has dtype {array.dtype}", remedy="use a dtype of 4 bytes")
    if kind.itemsize not in (1, 2, 4):
        raise HostError(f"memcpy_view: dtype {kind} has {kind.itemsize} bytes", remedy="use a dtype of 1, 2 or 4 bytes")
    step = WORD_BYTES // kind.itemsize
    if array.ndim and array.flags.c_contiguous:
        return array.view(kind)[..., ::step]
    if array.ndim and array.flags.f_contiguous:
        return array.T.view(kind)[..., ::step].T
    raise HostError("memcpy_view: the array is not contiguous", remedy="pass a fresh array of at least one dimension")


def input_array_to_u32(np_arr: npt.NDArray[Any], sentinel: int | None, fast_dim_sz: int) -> npt.NDArray[np.uint32]:
    """One 32-bit word per element of a 1-D array of 32- or 16-bit elements.

    16-bit elements are extended with zeros; unless `sentinel` is None, the upper half gets the index modulo
    `fast_dim_sz`.

    Raises:
        HostError: Wrong rank or element size.
    """
    if np_arr.ndim != 1:
        raise HostError(f"input_array_to_u32: the array has {np_arr.ndim} dimensions", remedy="pass array.ravel()")
    if np_arr.dtype.itemsize == WORD_BYTES:
        return np.ascontiguousarray(np_arr).view(np.uint32)
    if np_arr.dtype.itemsize != 2:
        raise HostError(f"input_array_to_u32: dtype {np_arr.dtype}", remedy="use a dtype of 2 or 4 bytes")
    words = np.ascontiguousarray(np_arr).view(np.uint16).astype(np.uint32)
    if sentinel is not None:
        words |= (np.arange(words.size, dtype=np.uint32) % np.uint32(fast_dim_sz)) << np.uint32(16)
    return words


def calculate_cycles(timestamp_buf: npt.NDArray[Any]) -> int:
    """Cycles between two time stamps packed in three 32-bit words: start (3 u16 words), then end."""
    raw = struct.unpack("<6H", np.asarray(timestamp_buf)[:3].astype(np.float32, copy=False).tobytes())
    begin, end = (raw[i] | raw[i + 1] << 16 | raw[i + 2] << 32 for i in (0, 3))
    return int((end - begin) & ((1 << 48) - 1))


def cast_uint32(x: Any) -> np.uint32:
    """The bits of a 32-bit or smaller scalar as an unsigned integer."""
    if isinstance(x, float | np.float32):
        return np.float32(x).view(np.uint32)
    if isinstance(x, np.float16):
        return np.uint32(x.view(np.uint16))
    return np.uint32(int(x) & 0xFFFFFFFF)


def get_api_info_dict(directory: str | Path) -> Any:
    """Content of the artefact's `bin/out_rpc.json`."""
    return json.loads((Path(directory) / RPC_FILE).read_text(encoding="utf-8"))
