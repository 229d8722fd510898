"""Host arrays to and from device order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.compat.platforms import MemcpyOrder
from fabrica_bench.compat.sessions import HostError
from fabrica_bench.compat.transfers import Region, check_array, check_region, to_device, to_host

SIZES = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))


@given(SIZES)
def test_row_major_has_the_element_fastest(size: tuple[int, int, int]) -> None:
    h, w, count = size
    words = to_device("copy", np.arange(h * w * count, dtype=np.uint32), (h, w, count), MemcpyOrder.ROW_MAJOR)
    for y in range(h):
        for x in range(w):
            for e in range(count):
                assert words[y, x, e] == (y * w + x) * count + e


@given(SIZES)
def test_column_major_has_the_row_fastest(size: tuple[int, int, int]) -> None:
    h, w, count = size
    words = to_device("copy", np.arange(h * w * count, dtype=np.uint32), (h, w, count), MemcpyOrder.COL_MAJOR)
    for y in range(h):
        for x in range(w):
            for e in range(count):
                assert words[y, x, e] == y + h * (x + w * e)


@given(SIZES, st.sampled_from(MemcpyOrder), st.integers(0, 2**32 - 1))
def test_what_goes_in_comes_out(size: tuple[int, int, int], order: MemcpyOrder, seed: int) -> None:
    shape = size
    data = np.random.default_rng(seed).standard_normal(int(np.prod(shape))).astype(np.float32)
    back = np.zeros(data.size, dtype=np.float32)
    to_host(back, to_device("copy", data, shape, order), order)
    np.testing.assert_array_equal(back, data)


def test_floats_travel_as_bits_and_keep_nan_payloads() -> None:
    data = np.array([0x7FC01234, 0x80000000], dtype=np.uint32).view(np.float32)
    words = to_device("copy", data, (1, 1, 2), MemcpyOrder.ROW_MAJOR)
    assert words.ravel().tolist() == [0x7FC01234, 0x80000000]


def test_the_device_copy_does_not_share_memory_with_the_host_buffer() -> None:
    data = np.zeros(4, dtype=np.uint32)
    words = to_device("copy", data, (2, 2, 1), MemcpyOrder.ROW_MAJOR)
    data[:] = 7
    assert not words.any()


@pytest.mark.parametrize(
    ("array", "text"),
    [
        ([1, 2], "list"),
        (np.zeros(4, dtype=np.float64), "float64"),
        (np.zeros(4, dtype=np.uint16), "uint16"),
        (np.zeros(3, dtype=np.uint32), "3 elements"),
    ],
)
def test_wrong_host_buffers_are_refused(array: object, text: str) -> None:
    with pytest.raises(HostError, match=text):
        check_array("memcpy_h2d", array, 4)


def test_a_read_only_destination_is_refused() -> None:
    array = np.zeros(4, dtype=np.uint32)
    array.flags.writeable = False
    with pytest.raises(HostError, match="read-only"):
        check_array("memcpy_d2h", array, 4, writable=True)


@pytest.mark.parametrize("region", [(0, 0, 3, 1, 1), (2, 0, 1, 1, 1), (0, 1, 1, 2, 1), (-1, 0, 1, 1, 1)])
def test_regions_outside_the_rectangle_are_refused(region: tuple[int, int, int, int, int]) -> None:
    with pytest.raises(HostError, match="program rectangle") as caught:
        check_region("memcpy_h2d", Region(*region), 2, 2)
    assert "0 to 1" in str(caught.value.remedy)


@pytest.mark.parametrize("region", [(0, 0, 0, 1, 1), (0, 0, 1, 1, 0)])
def test_empty_regions_are_refused(region: tuple[int, int, int, int, int]) -> None:
    with pytest.raises(HostError, match="empty"):
        check_region("memcpy_h2d", Region(*region), 2, 2)
