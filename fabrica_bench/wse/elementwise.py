"""What each DSD operation does to one element, and to many at once.

An operation names the type of its destination and of each source. Scalar form: decoded numbers in, a number out, which
the destination type's encoder rounds. Array form: decoded arrays in, bit patterns out. Both give the same bits; a test
holds that. `h` is the program's 16-bit float format, `s` is f32 (Cerebras SDK docs, "Builtins for DSD operations").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fabrica_bench.wse import numeric

ElementType = Literal["u16", "i16", "u32", "h", "s"]
Array = npt.NDArray[Any]

SIZES: dict[str, int] = {"u16": 2, "i16": 2, "u32": 4, "h": 2, "s": 4}


@dataclass(frozen=True)
class ElementOp:
    """`scalar` and `array` take as many operands as `sources`. `fused`: the array form gets float64 and rounds once."""

    name: str
    dest: ElementType
    sources: tuple[ElementType, ...]
    scalar: Callable[..., Any]
    array: Callable[..., Array]
    sequential: bool = False

    @property
    def is_move(self) -> bool:
        """Copies bits unchanged."""
        return self.name in ("mov16", "mov32", "fmovh", "fmovs")


OPS: dict[str, ElementOp] = {}


def _op(
    name: str,
    dest: ElementType,
    sources: tuple[ElementType, ...],
    scalar: Callable[..., Any],
    array: Callable[..., Array] | None = None,
) -> None:
    OPS[name] = ElementOp(name, dest, sources, scalar, array or scalar)


def _maximum(a: float, b: float) -> float:
    # A NaN loses against a number; of two zeros the first wins.
    return a if a >= b or b != b else b


def _maximum_array(a: Array, b: Array) -> Array:
    return np.where((a >= b) | np.isnan(b), a, b)


def _shift_left(a: int, count: int) -> int:
    return a << count if count < 16 else 0


def _shift_right(a: int, count: int) -> int:
    return a >> min(count, 16)


def _count(function: Callable[[int], int]) -> Callable[[Array], Array]:
    return lambda values: np.array([function(int(v)) for v in values.reshape(-1)], dtype=np.uint16)


def _leading_zeros(a: int) -> int:
    return 16 - a.bit_length()


def _trailing_zeros(a: int) -> int:
    return (a & -a).bit_length() - 1 if a else 16


def _to_int16(value: float) -> int:
    if value != value:
        return 0
    return int(min(max(round(value) if abs(value) < 1e9 else value, -32768), 32767))


def _to_int16_array(values: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(np.isnan(values), 0, np.clip(np.rint(values), -32768, 32767)).astype(np.int64)


def _fma(a: float, b: float, c: float) -> float:
    return numeric.fma_to_odd(b, c, a)


def _fma_array(a: Array, b: Array, c: Array) -> Array:
    return numeric.fma_to_odd_array(b.astype(np.float64), c.astype(np.float64), a.astype(np.float64))


_op("mov16", "u16", ("u16",), lambda a: a)
_op("mov32", "u32", ("u32",), lambda a: a)
_op("fmovh", "u16", ("u16",), lambda a: a)
_op("fmovs", "u32", ("u32",), lambda a: a)
_op("add16", "u16", ("u16", "u16"), lambda a, b: a + b)
_op("sub16", "u16", ("u16", "u16"), lambda a, b: a - b)
_op("and16", "u16", ("u16", "u16"), lambda a, b: a & b)
_op("or16", "u16", ("u16", "u16"), lambda a, b: a | b)
_op("xor16", "u16", ("u16", "u16"), lambda a, b: a ^ b)
_op("sll16", "u16", ("u16", "u16"), _shift_left, lambda a, b: np.where(b < 16, a << np.minimum(b, 15), 0))
_op("slr16", "u16", ("u16", "u16"), _shift_right, lambda a, b: a >> np.minimum(b, 16))
_op("sar16", "u16", ("i16", "u16"), _shift_right, lambda a, b: a >> np.minimum(b, 16))
_op("clz", "u16", ("u16",), _leading_zeros, _count(_leading_zeros))
_op("ctz", "u16", ("u16",), _trailing_zeros, _count(_trailing_zeros))
_op("popcnt", "u16", ("u16",), int.bit_count, _count(int.bit_count))
for _suffix, _type in (("h", "h"), ("s", "s")):
    _t: Any = _type
    _op(f"fadd{_suffix}", _t, (_t, _t), lambda a, b: a + b)
    _op(f"fsub{_suffix}", _t, (_t, _t), lambda a, b: a - b)
    _op(f"fmul{_suffix}", _t, (_t, _t), lambda a, b: a * b)
    _op(f"fmax{_suffix}", _t, (_t, _t), _maximum, _maximum_array)
    _op(f"fabs{_suffix}", _t, (_t,), abs, np.abs)
    _op(f"fneg{_suffix}", _t, (_t,), lambda a: -a)
    _op(f"fmac{_suffix}", _t, (_t, _t, _t), _fma, _fma_array)
_op("faddhs", "s", ("s", "h"), lambda a, b: a + b, lambda a, b: a.astype(np.float64) + b)
_op("fmachs", "s", ("s", "h", "h"), _fma, _fma_array)
_op("fh2s", "s", ("h",), lambda a: a)
_op("fs2h", "h", ("s",), lambda a: a)
_op("fh2xp16", "u16", ("h",), _to_int16, _to_int16_array)
_op("fs2xp16", "u16", ("s",), _to_int16, _to_int16_array)
_op("xp162fh", "h", ("i16",), float, lambda a: a.astype(np.float64))
_op("xp162fs", "s", ("i16",), float, lambda a: a.astype(np.float64))
_op("fscaleh", "h", ("h", "i16"), lambda a, k: numeric.MATH_FUNCTIONS["fscale"](a, k), np.ldexp)
_op("fscales", "s", ("s", "i16"), lambda a, k: numeric.MATH_FUNCTIONS["fscale"](a, k), np.ldexp)
# Add with carry: `addc16` is a chain, handled element by element by the caller, who owns the carry flag.
OPS["addc16"] = ElementOp("addc16", "u16", ("u16", "u16"), lambda a, b: a + b, lambda a, b: a + b, sequential=True)

#: operations the documentation names without defining them
UNDEFINED_OPS = {"fnormh", "fnorms"}


# ------------------------------------------------------------------------------------- decoding and encoding


def decoder(type_: ElementType, half: str) -> Callable[[int], Any] | None:
    """Bit pattern to number; None if they are the same."""
    if type_ == "h":
        return numeric.half_values(half).__getitem__
    if type_ == "s":
        return numeric.bits_to_f32
    if type_ == "i16":
        return lambda bits: bits - 65536 if bits & 0x8000 else bits
    return None


def encoder(type_: ElementType, half: str) -> Callable[[Any], int]:
    """Number to bit pattern, rounding or wrapping."""
    if type_ == "h":
        return numeric.half_encoder(half)
    if type_ == "s":
        return numeric.f32_to_bits
    mask = 0xFFFF if SIZES[type_] == 2 else 0xFFFFFFFF
    return lambda value: value & mask


def decode_array(type_: ElementType, half: str, bits: Array) -> Array:
    """Array of bit patterns to an array of numbers: f32, f64 for 16-bit floats, i64 for integers."""
    if type_ == "h":
        return numeric.half_values_array(half)[bits]
    if type_ == "s":
        return bits.view(np.float32)
    if type_ == "i16":
        return bits.view(np.int16).astype(np.int64)
    return bits.astype(np.int64)


def encode_array(type_: ElementType, half: str, values: Array) -> Array:
    """Array of numbers to bit patterns."""
    if type_ == "h":
        return numeric.encode_half_array(half, values.astype(np.float64))
    if type_ == "s":
        return numeric.encode_f32_array(values)
    if SIZES[type_] == 2:
        return (values & 0xFFFF).astype(np.uint16)
    return (values & 0xFFFFFFFF).astype(np.uint32)


def element_function(op: ElementOp, half: str) -> Callable[..., int]:
    """Bits of the sources to bits of the destination."""
    if op.is_move:
        return lambda a: a
    encode, scalar = encoder(op.dest, half), op.scalar
    decoders = [decoder(type_, half) or _same for type_ in op.sources]
    if len(decoders) == 1:
        (first,) = decoders
        return lambda a: encode(scalar(first(a)))
    if len(decoders) == 2:
        first, second = decoders
        return lambda a, b: encode(scalar(first(a), second(b)))
    first, second, third = decoders
    return lambda a, b, c: encode(scalar(first(a), second(b), third(c)))


def _same(bits: int) -> int:
    return bits
