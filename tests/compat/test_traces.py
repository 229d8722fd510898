"""Decoding of `<debug>` trace buffers."""

from __future__ import annotations

import struct

import pytest

from fabrica_bench.compat.sessions import HostError
from fabrica_bench.compat.traces import decode_trace


def words(*parts: bytes) -> list[int]:
    data = b"".join(parts)
    return list(struct.unpack(f"<{len(data) // 2}H", data))


def test_every_record_type_is_decoded_in_order() -> None:
    buffer = words(
        b"?\x01",
        b"b\xff",
        b"B\x07",
        b"h\x00" + struct.pack("<h", -2),
        b"H\x00" + struct.pack("<H", 65535),
        b"e\x00" + struct.pack("<e", 1.5),
        b"i\x00" + struct.pack("<i", -70000),
        b"I\x00" + struct.pack("<I", 70000),
        b"f\x00" + struct.pack("<f", 0.25),
        b"s\x04abc\x00",
        b"t\x00" + (1 << 40).to_bytes(6, "little"),
    )
    assert decode_trace(buffer) == [True, -1, 7, -2, 65535, 1.5, -70000, 70000, 0.25, "abc", 1 << 40]


def test_an_empty_buffer_has_no_records() -> None:
    assert decode_trace([]) == []


@pytest.mark.parametrize("buffer", [words(b"z\x00"), words(b"i\x00\x01\x00")])
def test_damage_is_reported(buffer: list[int]) -> None:
    with pytest.raises(HostError, match="damaged"):
        decode_trace(buffer)
