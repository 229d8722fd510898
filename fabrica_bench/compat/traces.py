"""Decoding the trace buffers of the `<debug>` library.

A record is a 16-bit tag (low byte: type code, high byte: payload) and the value's little-endian words. `?`, `b` and `B`
carry their value in the payload; `t` is a 48-bit time stamp; `s` a string whose payload is its length in bytes; all
other codes are those of Python's `struct`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from fabrica_bench.compat.sessions import HostError

TIMESTAMP_BYTES = 6
_DTYPES = {"e": np.float16, "f": np.float32, "d": np.float64}


def decode_trace(words: Sequence[int]) -> list[Any]:
    """Values of a trace buffer in order: bool, int, NumPy floats, and str.

    Raises:
        HostError: The buffer holds something else.
    """
    data = struct.pack(f"<{len(words)}H", *words)
    values: list[Any] = []
    position = 0
    while position < len(data):
        code, payload = chr(data[position]), data[position + 1]
        position += 2
        size = _size(code, payload)
        body = data[position : position + size]
        if size < 0 or len(body) < size:
            raise HostError(
                f"the trace buffer is damaged at word {position // 2 - 1} (tag {code!r})",
                remedy="check that nothing else writes to it, and the program's own put_u16 calls",
            )
        values.append(_value(code, payload, body))
        position += size
    return values


def _size(code: str, payload: int) -> int:
    """Bytes after the tag; -1 for an unknown code."""
    if code in "?bB":
        return 0
    if code == "s":
        return payload
    if code == "t":
        return TIMESTAMP_BYTES
    return struct.calcsize(f"<{code}") if code in "hHeiIlLfqQd" else -1


def _value(code: str, payload: int, body: bytes) -> Any:
    if code == "?":
        return bool(payload)
    if code == "b":
        return payload - 256 if payload > 127 else payload
    if code == "B":
        return payload
    if code == "s":
        return body.rstrip(b"\0").decode("utf-8", errors="replace")
    if code == "t":
        return int.from_bytes(body, "little")
    if code in _DTYPES:
        return _DTYPES[code](np.frombuffer(body, dtype=_DTYPES[code])[0])
    return struct.unpack(f"<{code}", body)[0]
