"""Arithmetic of the compute element: exact rounding, fused multiply-add, wrapping integers.

Registers hold Python numbers. A float register holds a value its format represents exactly; every operation rounds
once, to nearest even. Additions, products and quotients of two `f32` values may be computed in binary64 and rounded
again, because 53 >= 2 * 24 + 2 makes the double rounding harmless (Figueroa 1995); the same holds for the 16-bit
formats. A fused multiply-add needs more care: the product is exact in binary64, the sum is not, so it is corrected to
"round to odd" before the final rounding (Boldo and Melquiond 2008).

All NaNs produced by arithmetic are the positive quiet NaN without payload, so that results do not depend on the host's
floating-point unit. Copies (`@mov16`, `@fmovs`, ...) keep every bit.
"""

from __future__ import annotations

import array
import math
import struct
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from fabrica_bench.csl import floats
from fabrica_bench.csl.ir import ScalarType

Bits16 = npt.NDArray[np.uint16]
Bits32 = npt.NDArray[np.uint32]
Real64 = npt.NDArray[np.float64]
Real32 = npt.NDArray[np.float32]

NAN = float("nan")
INF = float("inf")
NAN_F32 = 0x7FC00000

# One 4-byte cell seen both as a float and as an integer: the cheapest rounding and bit access Python offers.
_CELL = bytearray(4)
CELL_F32 = memoryview(_CELL).cast("f")
CELL_U32 = memoryview(_CELL).cast("I")


def round_f32(value: float) -> float:
    """`value` rounded to the nearest f32."""
    CELL_F32[0] = value
    return CELL_F32[0]


def show(value: float, type_: ScalarType) -> str:
    """A scalar as text for people: the shortest that tells it from its neighbours."""
    if type_.kind == "float":
        return str(np.float32(value)) if type_.bits == 32 else f"{value:.5g}"
    return ("false", "true")[bool(value)] if type_.name == "bool" else str(value)


def f32_to_bits(value: float) -> int:
    """Bit pattern of the f32 nearest to `value`."""
    if value != value:
        return NAN_F32
    CELL_F32[0] = value
    return CELL_U32[0]


def bits_to_f32(bits: int) -> float:
    """Value of an f32 bit pattern."""
    CELL_U32[0] = bits
    return CELL_F32[0]


@cache
def half_values(fmt: str) -> list[float]:
    """The 65,536 values of a 16-bit format, by bit pattern."""
    values: list[float]
    if fmt == "f16":
        with np.errstate(invalid="ignore"):
            halves = np.arange(65536, dtype=np.uint16).view(np.float16)
            values = halves.astype(np.float64).tolist()
            return values
    if fmt == "bf16":
        with np.errstate(invalid="ignore"):  # signalling NaNs
            singles = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
            values = singles.astype(np.float64).tolist()
            return values
    return [floats.decode(fmt, bits) for bits in range(65536)]


@cache
def half_values_array(fmt: str) -> Real64:
    """`half_values` as an array for gathers."""
    return np.array(half_values(fmt), dtype=np.float64)


_HALF = struct.Struct("<e")
_WORD = struct.Struct("<H")


def encode_f16(value: float) -> int:
    """Bit pattern of the f16 nearest to `value`."""
    if value != value:
        return 0x7E00
    try:
        return int(_WORD.unpack(_HALF.pack(value))[0])
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00


@cache
def half_encoder(fmt: str) -> Callable[[float], int]:
    """Function from a number to the bit pattern of the nearest value of a 16-bit format."""
    if fmt == "f16":
        return encode_f16
    quiet = floats.encode(fmt, NAN) & 0x7FFF

    def encode(value: float) -> int:
        return quiet if value != value else floats.encode(fmt, value)

    return encode


def rounder(type_: ScalarType) -> Callable[[float], float]:
    """Rounding to a float format."""
    if type_.bits == 32:
        return round_f32
    values, encode = half_values(type_.name), half_encoder(type_.name)
    return lambda value: values[encode(value)]


# ------------------------------------------------------------------------------------------- arrays of elements


def encode_half_array(fmt: str, values: Real64) -> Bits16:
    """Bit patterns of the nearest values of a 16-bit format."""
    with np.errstate(all="ignore"):
        if fmt == "f16":
            out = values.astype(np.float16).view(np.uint16)
            quiet = 0x7E00
        else:
            out = _encode_generic(floats.FORMATS[fmt], values)
            quiet = floats.encode(fmt, NAN) & 0x7FFF
    nan = np.isnan(values)
    if nan.any():
        out = np.where(nan, np.uint16(quiet), out)
    return out


def _encode_generic(fmt: floats.FloatFormat, values: Real64) -> Bits16:
    sign = np.signbit(values).astype(np.uint16) << np.uint16(15)
    magnitude = np.abs(values)
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    _, exponent = np.frexp(finite)
    biased = np.maximum(exponent - 1 + fmt.bias, 1)
    units = np.rint(np.ldexp(finite, fmt.bias + fmt.mantissa_bits - biased)).astype(np.int64)
    top = fmt.max_exponent_field << fmt.mantissa_bits
    bits = np.minimum(((biased.astype(np.int64) - 1) << fmt.mantissa_bits) + units, top)
    bits = np.where(finite == 0.0, 0, bits)
    bits = np.where(np.isinf(magnitude), top, bits)
    return sign | bits.astype(np.uint16)


def encode_f32_array(values: Real64 | Real32) -> Bits32:
    """Bit patterns of the nearest f32 values, NaNs made canonical."""
    with np.errstate(all="ignore"):
        singles = values.astype(np.float32)
    bits = singles.view(np.uint32)
    nan = np.isnan(singles)
    if nan.any():
        bits = np.where(nan, np.uint32(NAN_F32), bits)
    return bits


def fma_to_odd_array(a: Real64, b: Real64, c: Real64) -> Real64:
    """`a * b + c` in binary64 rounded to odd. The product of the operands must be exact in binary64."""
    with np.errstate(all="ignore"):
        product = a * b
        total = product + c
        other = total - product
        error = (product - (total - other)) + (c - other)
        wrong = np.isfinite(total) & (error != 0.0)
        if wrong.any():
            bits = total.view(np.int64) if total.flags.c_contiguous else total.copy().view(np.int64)
            even = (bits & 1) == 0
            up = (error > 0.0) == (total > 0.0)
            bits = np.where(wrong & even, np.where(up, bits + 1, bits - 1), bits)
            total = bits.view(np.float64)
    return np.asarray(total)


# ------------------------------------------------------------------------------------------------- single elements

_DOUBLE = struct.Struct("<d")
_QUAD = struct.Struct("<q")


def fma_to_odd(a: float, b: float, c: float) -> float:
    """`a * b + c` in binary64 rounded to odd; rounding the result to a format of at most 51 bits rounds once."""
    product = a * b
    total = product + c
    other = total - product
    error = (product - (total - other)) + (c - other)
    if error and total - total == 0.0:
        bits: int = _QUAD.unpack(_DOUBLE.pack(total))[0]
        if not bits & 1:
            bits += 1 if (error > 0.0) == (total > 0.0) else -1
            total = _DOUBLE.unpack(_QUAD.pack(bits))[0]
    return total


class DivisionByZero(ZeroDivisionError):
    """Carries the dividend."""


def divide_unsigned(a: int, b: int) -> int:
    """Quotient of integers that are not negative. Raises DivisionByZero."""
    if not b:
        raise DivisionByZero(a)
    return a // b


def remainder_unsigned(a: int, b: int) -> int:
    """Remainder of integers that are not negative. Raises DivisionByZero."""
    if not b:
        raise DivisionByZero(a)
    return a % b


def divide_int(a: int, b: int) -> int:
    """Quotient truncated toward zero. Raises DivisionByZero."""
    if not b:
        raise DivisionByZero(a)
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def remainder_int(a: int, b: int) -> int:
    """Remainder with the sign of the dividend. Raises DivisionByZero."""
    if not b:
        raise DivisionByZero(a)
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def divide_float(a: float, b: float) -> float:
    """IEEE quotient; the caller rounds."""
    if b != 0.0:
        return a / b
    if a == 0.0 or a != a or b != b:
        return NAN
    return math.copysign(INF, a) * math.copysign(1.0, b)


def remainder_float(a: float, b: float) -> float:
    """Remainder of the truncated quotient, NaN where it is undefined."""
    if b == 0.0 or a - a != 0.0 or b != b:
        return NAN
    return math.fmod(a, b)


def float_to_int(value: float, type_: ScalarType) -> int:
    """Truncate toward zero, saturate at the ends of the type; NaN gives 0."""
    if value != value:
        return 0
    low, high = int_range(type_)
    if value >= high:
        return high
    if value <= low:
        return low
    return int(value)


def int_to_odd(value: int) -> float:
    """A 64-bit integer as binary64 rounded to odd, so that rounding it to a float format rounds once."""
    if -(1 << 53) <= value <= 1 << 53:
        return float(value)
    magnitude = abs(value)
    kept = magnitude >> 11 | (magnitude & 0x7FF != 0)
    return math.copysign(float(kept) * 2048.0, value)


def int_range(type_: ScalarType) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    if type_.signed:
        return -(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1
    return 0, (1 << type_.bits) - 1


def wrap(value: int, type_: ScalarType) -> int:
    """Low bits of `value` read as the integer type."""
    value &= (1 << type_.bits) - 1
    if type_.signed and value >> (type_.bits - 1):
        value -= 1 << type_.bits
    return value


def to_bits(value: int | float, type_: ScalarType) -> int:
    """Bit pattern of a register value."""
    if type_.kind == "int":
        return int(value) & ((1 << type_.bits) - 1)
    if type_.bits == 32:
        return f32_to_bits(float(value))
    return half_encoder(type_.name)(float(value))


def from_bits(bits: int, type_: ScalarType) -> int | float:
    """Register value of a bit pattern."""
    if type_.kind == "int":
        return wrap(bits, type_)
    if type_.bits == 32:
        return bits_to_f32(bits & 0xFFFFFFFF)
    return half_values(type_.name)[bits & 0xFFFF]


# ---------------------------------------------------------------------------------------------- math functions


def _guard(function: Callable[[float], float], at_overflow: float = INF) -> Callable[[float], float]:
    def safe(value: float) -> float:
        try:
            return function(value)
        except OverflowError:
            return at_overflow
        except ValueError:
            return NAN

    return safe


def _log(value: float) -> float:
    if value == 0.0:
        return -INF
    return math.log(value) if value > 0.0 else NAN


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        negative = base < 0.0 and exponent % 2.0 == 1.0
        return -INF if negative else INF
    except ValueError:
        return INF if base == 0.0 else NAN


def _integral(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: float(function(value)) if value - value == 0.0 else value


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value)) if value > -700.0 else 0.0


#: `math` intrinsic: function of one or two numbers, computed in binary64; the caller rounds to the format
MATH_FUNCTIONS: dict[str, Callable[..., float]] = {
    "sqrt": _guard(math.sqrt),
    "exp": _guard(math.exp),
    "log": _log,
    "sin": _guard(math.sin),
    "cos": _guard(math.cos),
    "tan": _guard(math.tan),
    "tanh": _guard(math.tanh),
    "pow": _power,
    "inv": lambda value: divide_float(1.0, value),
    "invsqrt": lambda value: divide_float(1.0, _guard(math.sqrt)(value)),
    "ceil": _integral(math.ceil),
    "floor": _integral(math.floor),
    "sig": _sigmoid,
    "abs": abs,
    "fscale": lambda value, power: _guard(lambda v: math.ldexp(v, int(power)), math.copysign(INF, value))(value),
}

#: scratch for callers that round many f32 values in a row
SCRATCH_F32 = array.array("f", [0.0])
