"""The memory form of DSDs loses nothing and recognises memory that holds no DSD."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.csl.descriptors import KINDS, PRIORITIES, SIMD_MODES, DescriptorError, decode_dsd, encode_dsd
from fabrica_bench.csl.ir import DSD_BYTES, Dsd, Sym

I32 = st.integers(-(2**31), 2**31 - 1)

DSDS = st.builds(
    Dsd,
    kind=st.sampled_from(KINDS),
    extents=st.lists(st.integers(0, 0xFFFF), max_size=4).map(tuple),
    base=I32,
    strides=st.lists(I32, max_size=4).map(tuple),
    wraparound=I32,
    queue=st.integers(-1, 15),
    color=st.integers(-1, 31),
    control=st.booleans(),
    advance_switch=st.booleans(),
    control_transform=st.booleans(),
    wavelet_index_offset=st.booleans(),
    zero_first=st.booleans(),
    zero_second=st.booleans(),
    simd_mode=st.sampled_from(SIMD_MODES),
    priority=st.sampled_from(PRIORITIES),
)


@given(DSDS)
def test_memory_form_is_lossless(dsd: Dsd) -> None:
    data = encode_dsd(dsd)
    assert len(data) == DSD_BYTES
    assert decode_dsd(data) == dsd
    assert repr(decode_dsd(bytearray(data))) == repr(dsd)  # repr also tells True from 1


@given(st.binary(min_size=DSD_BYTES, max_size=DSD_BYTES))
def test_any_memory_is_a_dsd_or_a_clear_error(data: bytes) -> None:
    try:
        dsd = decode_dsd(data)
    except DescriptorError:
        return
    assert decode_dsd(encode_dsd(dsd)) == dsd


def test_unassigned_memory_is_recognised() -> None:
    with pytest.raises(DescriptorError, match="never assigned"):
        decode_dsd(bytes(DSD_BYTES))


def test_a_byte_pattern_that_is_no_dsd_is_recognised() -> None:
    with pytest.raises(DescriptorError, match="overwritten"):
        decode_dsd(b"\xff" * DSD_BYTES)


def test_wrong_length_is_refused() -> None:
    with pytest.raises(DescriptorError, match="takes 40 bytes, not 39"):
        decode_dsd(bytes(39))


@pytest.mark.parametrize(
    ("dsd", "text"),
    [
        (Dsd("mem1d", (4,), Sym("a")), "absolute address"),
        (Dsd("mem1d", (0x10000,)), "no memory form"),
        (Dsd("mem4d", (1, 1, 1, 1, 1)), "at most 4 dimensions, not 5"),
    ],
)
def test_values_without_memory_form_are_refused(dsd: Dsd, text: str) -> None:
    with pytest.raises(DescriptorError, match=text):
        encode_dsd(dsd)
