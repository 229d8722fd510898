"""Rounding is checked against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fabrica_bench.csl import floats
from fabrica_bench.csl.ir import F32, I16, I32, U16
from fabrica_bench.wse import numeric

f32_bits = st.integers(0, 0xFFFFFFFF)
half_bits = st.integers(0, 0xFFFF)


def nearest(exact: Fraction, bits: int, decode: object) -> bool:
    """`bits` is the pattern of a nearest value to `exact`; a tie must have an even pattern."""
    value = decode(bits)  # type: ignore[operator]
    error = abs(Fraction(value) - exact)
    for step in (-1, 1):
        neighbor = decode(bits + step)  # type: ignore[operator]
        if not math.isfinite(neighbor):
            continue
        other = abs(Fraction(neighbor) - exact)
        if other < error or (other == error and bits & 1):
            return False
    return True


@settings(deadline=None)
@given(f32_bits, f32_bits, f32_bits)
@example(0x3F800001, 0x3F800001, 0x33800000)
def test_fused_multiply_add_rounds_once(a: int, b: int, c: int) -> None:
    x, y, z = (numeric.bits_to_f32(bits) for bits in (a, b, c))
    if not all(math.isfinite(v) for v in (x, y, z)):
        return
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    bits = numeric.f32_to_bits(numeric.fma_to_odd(x, y, z))
    if (bits >> 23) & 0xFF == 0xFF or bits & 0x7FFFFFFF in (0, 0x7F7FFFFF):
        return  # infinity, zero and the largest number have one neighbour only
    assert nearest(exact, bits, numeric.bits_to_f32)


@settings(deadline=None)
@given(st.lists(st.tuples(f32_bits, f32_bits, f32_bits), min_size=1, max_size=30))
def test_array_and_scalar_fused_multiply_add_agree(triples: list[tuple[int, int, int]]) -> None:
    values = np.array(triples, dtype=np.uint32).view(np.float32).astype(np.float64)
    bulk = numeric.encode_f32_array(numeric.fma_to_odd_array(values[:, 0], values[:, 1], values[:, 2]))
    single = [numeric.f32_to_bits(numeric.fma_to_odd(*row)) for row in values.tolist()]
    assert bulk.tolist() == single


@pytest.mark.parametrize("fmt", ["f16", "bf16", "cb16"])
def test_every_half_pattern_survives_decoding_and_encoding(fmt: str) -> None:
    values = np.array(numeric.half_values(fmt))
    encoded = numeric.encode_half_array(fmt, values)
    numbers = ~np.isnan(values)
    assert np.array_equal(encoded[numbers], np.arange(65536, dtype=np.uint16)[numbers])
    assert set(encoded[~numbers].tolist()) == {numeric.half_encoder(fmt)(math.nan)}


@pytest.mark.parametrize("fmt", ["f16", "bf16", "cb16"])
@settings(deadline=None)
@given(value=st.floats(allow_nan=True, width=64))
def test_half_encoders_agree(fmt: str, value: float) -> None:
    bits = numeric.half_encoder(fmt)(value)
    assert numeric.encode_half_array(fmt, np.array([value])).tolist() == [bits]
    if not math.isnan(value):
        assert bits == floats.encode(fmt, value)


@settings(deadline=None)
@given(st.floats(width=64, allow_nan=False))
def test_round_f32_matches_numpy(value: float) -> None:
    with np.errstate(all="ignore"):
        assert numeric.round_f32(value) == float(np.float32(value))


@settings(deadline=None)
@given(st.integers(-(1 << 63), (1 << 64) - 1))
def test_64_bit_integers_round_once_to_f32(value: int) -> None:
    bits = numeric.f32_to_bits(numeric.int_to_odd(value))
    assert value == 0 or nearest(Fraction(value), bits, numeric.bits_to_f32)


def test_integer_division_truncates_toward_zero() -> None:
    assert [numeric.divide_int(a, b) for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2))] == [3, -3, -3, 3]
    assert [numeric.remainder_int(a, b) for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2))] == [1, -1, 1, -1]


def test_float_division_follows_ieee() -> None:
    assert numeric.divide_float(1.0, -0.0) == -math.inf
    assert math.isnan(numeric.divide_float(0.0, 0.0))


def test_float_to_int_truncates_and_saturates() -> None:
    assert [numeric.float_to_int(v, I16) for v in (1.9, -1.9, 1e9, -math.inf, math.nan)] == [1, -1, 32767, -32768, 0]
    assert numeric.float_to_int(-1.0, U16) == 0


@settings(deadline=None)
@given(st.integers(), st.sampled_from([I16, U16, I32]))
def test_wrap_keeps_the_low_bits(value: int, type_: object) -> None:
    wrapped = numeric.wrap(value, type_)  # type: ignore[arg-type]
    assert (wrapped - value) % (1 << type_.bits) == 0  # type: ignore[attr-defined]
    low, high = numeric.int_range(type_)  # type: ignore[arg-type]
    assert low <= wrapped <= high


@settings(deadline=None)
@given(half_bits)
def test_nan_is_stored_without_payload(payload: int) -> None:
    assert numeric.f32_to_bits(numeric.bits_to_f32(0x7F800001 | payload << 1)) == numeric.NAN_F32
    assert numeric.from_bits(0x3F800000, F32) == 1.0
