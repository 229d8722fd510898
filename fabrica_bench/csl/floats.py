"""The four floating-point formats of CSL: rounding, bit patterns, and comptime arithmetic.

A value of a format is held as a Python float that the format represents exactly. `f16`, `bf16` and `f32` are IEEE
shaped; `cb16` has 6 exponent bits and 9 mantissa bits. Its bias (42) follows from the one value that the
documentation gives: 6.0 is encoded as 0b0101100100000000 (Cerebras SDK docs, "Type System").
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple


class FloatFormat(NamedTuple):
    """Widths of the fields of a binary format and its exponent bias."""

    name: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    bias: int

    @property
    def max_exponent_field(self) -> int:
        return int((1 << self.exponent_bits) - 1)


F16 = FloatFormat("f16", 16, 5, 10, 15)
BF16 = FloatFormat("bf16", 16, 8, 7, 127)
CB16 = FloatFormat("cb16", 16, 6, 9, 42)
F32 = FloatFormat("f32", 32, 8, 23, 127)
FORMATS = {fmt.name: fmt for fmt in (F16, BF16, CB16, F32)}


def encode(name: str, value: float) -> int:
    """Bit pattern of `value` rounded to nearest even in the format called `name`; too large a magnitude is infinity."""
    if name == "f32":
        return int(struct.unpack("<I", struct.pack("<f", _clamp_f32(value)))[0])
    fmt = FORMATS[name]
    sign = 1 if math.copysign(1.0, value) < 0 else 0
    top = fmt.max_exponent_field << fmt.mantissa_bits
    if math.isnan(value):
        magnitude = top | (1 << (fmt.mantissa_bits - 1))
    elif math.isinf(value):
        magnitude = top
    else:
        magnitude = min(_encode_magnitude(fmt, abs(value)), top)
    return (sign << (fmt.bits - 1)) | magnitude


def decode(name: str, bits: int) -> float:
    """Value of a bit pattern in the format called `name`."""
    if name == "f32":
        return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])
    fmt = FORMATS[name]
    mantissa = bits & ((1 << fmt.mantissa_bits) - 1)
    exponent = (bits >> fmt.mantissa_bits) & fmt.max_exponent_field
    sign = -1.0 if bits >> (fmt.bits - 1) & 1 else 1.0
    if exponent == fmt.max_exponent_field:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - fmt.bias - fmt.mantissa_bits)
    return sign * math.ldexp(mantissa | (1 << fmt.mantissa_bits), exponent - fmt.bias - fmt.mantissa_bits)


def largest(name: str) -> float:
    """The largest finite value of the format."""
    fmt = FORMATS[name]
    return decode(name, (fmt.max_exponent_field << fmt.mantissa_bits) - 1)


def round_to(name: str, value: float) -> float:
    """`value` rounded to the nearest value of the format (ties to even)."""
    return decode(name, encode(name, value))


def _clamp_f32(value: float) -> float:
    # struct refuses finite doubles that round to infinity in single precision.
    if math.isfinite(value) and abs(value) >= 3.4028235677973366e38:
        return math.copysign(math.inf, value)
    return value


def _encode_magnitude(fmt: FloatFormat, value: float) -> int:
    if value == 0.0:
        return 0
    _, exponent = math.frexp(value)  # value = m * 2**exponent with 0.5 <= m < 1
    field = max(exponent - 1 + fmt.bias, 1)
    quantum_exponent = field - fmt.bias - fmt.mantissa_bits
    units = _round_half_even(math.ldexp(value, -quantum_exponent))
    # `units` includes the hidden bit for normal numbers; a carry moves to the next exponent by itself.
    return ((field - 1) << fmt.mantissa_bits) + units


def _round_half_even(value: float) -> int:
    return round(value)
