"""The vendor's array helpers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fabrica_bench.compat import sdk_utils
from fabrica_bench.compat.sessions import HostError


def test_memcpy_view_writes_into_the_low_half_of_each_word() -> None:
    words = np.zeros((2, 3), dtype=np.uint32)
    view = sdk_utils.memcpy_view(words, np.float16)
    view[:] = 1.0
    assert view.shape == (2, 3)
    assert (words == 0x3C00).all()


def test_memcpy_view_of_the_same_size_is_the_array_itself() -> None:
    words = np.arange(4, dtype=np.uint32)
    assert sdk_utils.memcpy_view(words, np.float32).view(np.uint32).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("source", "target"), [(np.uint16, np.uint16), (np.uint32, np.float64)])
def test_memcpy_view_refuses_other_sizes(source: type, target: type) -> None:
    with pytest.raises(HostError):
        sdk_utils.memcpy_view(np.zeros(4, dtype=source), target)


def test_sixteen_bit_arrays_are_extended_and_can_carry_their_index() -> None:
    data = np.array([1, 2, -1], dtype=np.int16)
    assert sdk_utils.input_array_to_u32(data, None, 1).tolist() == [1, 2, 0xFFFF]
    assert sdk_utils.input_array_to_u32(data, 0, 2).tolist() == [1, 2 | 1 << 16, 0xFFFF]


def test_thirty_two_bit_arrays_are_reinterpreted() -> None:
    assert sdk_utils.input_array_to_u32(np.array([1.0], dtype=np.float32), 0, 1).tolist() == [0x3F800000]


def test_cycles_are_the_difference_of_two_48_bit_stamps() -> None:
    start, end = [0xFFFF, 0xFFFF, 1], [4, 0, 2]
    halves = [start[0] | start[1] << 16, start[2] | end[0] << 16, end[1] | end[2] << 16]
    assert sdk_utils.calculate_cycles(np.array(halves, dtype=np.uint32).view(np.float32)) == 5


def test_cast_uint32_keeps_bits() -> None:
    assert sdk_utils.cast_uint32(np.float32(1.0)) == 0x3F800000
    assert sdk_utils.cast_uint32(np.int16(-1)) == 0xFFFFFFFF
    assert sdk_utils.cast_uint32(np.float16(1.0)) == 0x3C00


def test_get_api_info_dict_reads_the_symbol_table(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "out_rpc.json").write_text(json.dumps({"rpc_symbols": []}), encoding="utf-8")
    assert sdk_utils.get_api_info_dict(tmp_path) == {"rpc_symbols": []}


def test_the_helpers_have_their_older_name_too() -> None:
    from fabrica_bench.compat.host.cerebras.sdk.runtime import runtime_utils

    assert runtime_utils.memcpy_view is sdk_utils.memcpy_view
