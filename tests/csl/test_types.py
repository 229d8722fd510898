"""Sizes, alignments, names and comparisons of types, and the float formats."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.csl import floats, ir
from fabrica_bench.csl import types as t


def struct_of(layout: str, *fields: tuple[str, t.Type], kind: str = "struct", site: int = 1) -> t.StructType:
    return t.StructType(kind, layout, tuple(t.Field(name, type_) for name, type_ in fields), site)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("type_", "size", "alignment"),
    [
        (t.BOOL, 1, 1),
        (t.U8, 1, 1),
        (t.I16, 2, 2),
        (t.F32, 4, 4),
        (t.U64, 8, 4),
        (t.IntType(17, False), 4, 4),
        (t.PointerType(t.F32), 2, 2),
        (t.COLOR, 2, 2),
        (t.MEM1D, ir.DSD_BYTES, 2),
        (t.ArrayType((3, 4), t.F32), 48, 4),
        (struct_of("extern", ("a", t.U8), ("b", t.F32), ("c", t.I16)), 12, 4),
        (struct_of("packed", ("a", t.IntType(3, False)), ("b", t.BOOL), ("c", t.IntType(12, True))), 2, 2),
        (struct_of("extern", ("a", t.U32), ("b", t.U8), kind="union"), 4, 4),
        (t.EnumType(t.U8, (("a", 0),), 1), 1, 1),
        (t.VOID, 0, 1),
        (t.COMPTIME_INT, 0, 1),
    ],
)
def test_sizes_and_alignments(type_: t.Type, size: int, alignment: int) -> None:
    assert (t.size_of(type_), t.align_of(type_)) == (size, alignment)


def test_names_are_spelled_as_in_the_language() -> None:
    assert t.PointerType(t.ArrayType((4, 2), t.F32), is_const=True).name == "*const [4, 2]f32"
    assert t.PointerType(t.U16, is_many=True).name == "[*]u16"
    assert t.FnType("fn", (t.F32, None), t.VOID).name == "fn(f32, anytype) void"
    assert struct_of("packed", ("x", t.I16)).name == "packed struct { x: i16 }"
    assert t.DSR_FIFO_SRC1.name == "dsr_fifo_src1"


def test_named_structs_are_told_apart_by_their_definition_and_anonymous_ones_are_not() -> None:
    assert struct_of("auto", ("x", t.I16), site=1) != struct_of("auto", ("x", t.I16), site=2)
    assert struct_of("auto", ("x", t.I16), site=0) == struct_of("auto", ("x", t.I16), site=0)


def test_packed_fields_begin_at_the_least_significant_bit() -> None:
    packed = struct_of("packed", ("a", t.IntType(3, False)), ("b", t.BOOL), ("c", t.IntType(12, True)))
    assert packed.bit_offsets == (0, 3, 4)
    assert packed.backing == t.U16


@given(st.integers(), st.sampled_from((t.I8, t.U8, t.I16, t.U16, t.I32, t.U32, t.I64, t.U64)))
def test_wrapping_keeps_the_low_bits(value: int, type_: t.IntType) -> None:
    wrapped = type_.wrap(value)
    assert type_.fits(wrapped)
    assert (wrapped - value) % (1 << type_.bits) == 0


@given(st.floats(allow_nan=False))
def test_rounding_agrees_with_numpy(value: float) -> None:
    with np.errstate(over="ignore"):
        assert floats.encode("f16", value) == int(np.float16(value).view(np.uint16))
        assert floats.encode("f32", value) == int(np.float32(value).view(np.uint32))


@given(st.floats(width=32, allow_nan=False))
def test_bf16_is_the_nearest_half_of_an_f32(value: float) -> None:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 if math.isfinite(value) else bits >> 16
    assert floats.encode("bf16", value) == rounded


@given(st.integers(0, 0xFFFF), st.sampled_from(("f16", "bf16", "cb16")))
def test_every_pattern_decodes_to_a_value_that_encodes_to_it(bits: int, name: str) -> None:
    value = floats.decode(name, bits)
    if not math.isnan(value):
        assert floats.encode(name, value) == bits


def test_cb16_encodes_the_documented_value() -> None:
    assert floats.encode("cb16", 6.0) == 0b0101100100000000
