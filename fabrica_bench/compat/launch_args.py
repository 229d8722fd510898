"""Scalar arguments of `launch` and `call`: type checks and raw bit patterns.

The accepted host types are those of the vendor's client (version 2.10): float and np.float32 for f32, np.float16 for
f16, np.int32 and np.uint32 (or NumPy's default integers, in range) for i32 and u32, np.int16 and np.uint16 for i16 and
u16. A plain int is accepted for i32 and u32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fabrica_bench.compat.sessions import HostError

_RANGES: Final = {
    "i16": (-(1 << 15), (1 << 15) - 1),
    "u16": (0, (1 << 16) - 1),
    "i32": (-(1 << 31), (1 << 31) - 1),
    "u32": (0, (1 << 32) - 1),
}
_INTEGERS: Final[dict[str, tuple[type[Any], ...]]] = {
    "i16": (np.int16,),
    "u16": (np.uint16,),
    "i32": (np.int32, np.int64, int),
    "u32": (np.uint32, np.uint64, int),
}
_HOST_TYPE: Final = {
    "f32": "float or np.float32",
    "f16": "np.float16",
    "i16": "np.int16",
    "u16": "np.uint16",
    "i32": "np.int32",
    "u32": "np.uint32",
}


def typed_arguments(function: str, params: Sequence[str], values: Sequence[Any]) -> tuple[int, ...]:
    """Raw bits of the arguments of `launch`.

    Args:
        function: Exported name, for messages.
        params: Device types of its parameters.
        values: Host values.

    Raises:
        HostError: Wrong number or type of arguments.
    """
    _check_count(function, params, values)
    return tuple(
        _raw_bits(function, i, kind, value) for i, (kind, value) in enumerate(zip(params, values, strict=True))
    )


def untyped_arguments(function: str, params: Sequence[str], values: Sequence[Any]) -> tuple[int, ...]:
    """Raw bits of the arguments of `call`: 32-bit words taken as they are; 16-bit parameters use the low half."""
    _check_count(function, params, values)
    result = []
    for index, (kind, value) in enumerate(zip(params, values, strict=True)):
        if isinstance(value, float | np.floating):
            word = int(np.float32(value).view(np.uint32))
        else:
            word = int(value)
        if not -(1 << 31) <= word < 1 << 32:
            raise HostError(
                f"call of {function}: argument {index} ({value}) has more than 32 bits", remedy="pass u32 words"
            )
        result.append(word & _mask(kind))
    return tuple(result)


def _mask(kind: str) -> int:
    return 0xFFFF if kind.endswith("16") else 0xFFFFFFFF


def _check_count(function: str, params: Sequence[str], values: Sequence[Any]) -> None:
    if len(values) != len(params):
        signature = f"{function}({', '.join(params)})"
        raise HostError(
            f"{function} takes {len(params)} argument{'' if len(params) == 1 else 's'}, got {len(values)}",
            remedy=f"its signature is {signature}",
        )


def _raw_bits(function: str, index: int, kind: str, value: Any) -> int:
    if kind == "f32" and isinstance(value, float | np.float32):
        return int(np.float32(value).view(np.uint32))
    if kind == "f16" and isinstance(value, np.float16):
        return int(value.view(np.uint16))
    allowed = _INTEGERS.get(kind, ())
    if allowed and isinstance(value, allowed) and not isinstance(value, bool):
        low, high = _RANGES[kind]
        number = int(value)
        if not low <= number <= high:
            raise HostError(
                f"{function}: argument {index} is {value}, which doesn't fit {kind}", remedy=f"{low} to {high}"
            )
        return number & _mask(kind)
    wanted = _HOST_TYPE.get(kind)
    if wanted is None:
        raise HostError(
            f"{function}: the host can't pass an argument of type {kind}", remedy="use 16- or 32-bit numbers"
        )
    raise HostError(f"{function}: argument {index} must be {kind}, got {type(value).__name__}", remedy=f"pass {wanted}")
