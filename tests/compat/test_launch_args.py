"""Arguments of launch and call: accepted types and raw bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fabrica_bench.compat.launch_args import typed_arguments, untyped_arguments
from fabrica_bench.compat.sessions import HostError


@pytest.mark.parametrize(
    ("kind", "value", "bits"),
    [
        ("f32", 1.0, 0x3F800000),
        ("f32", np.float32(-2.0), 0xC0000000),
        ("f16", np.float16(1.0), 0x3C00),
        ("i16", np.int16(-1), 0xFFFF),
        ("u16", np.uint16(65535), 0xFFFF),
        ("i32", np.int32(-1), 0xFFFFFFFF),
        ("i32", -5, 0xFFFFFFFB),
        ("u32", 7, 7),
        ("u32", np.uint32(0xFFFFFFFF), 0xFFFFFFFF),
    ],
)
def test_accepted_values_become_bits(kind: str, value: Any, bits: int) -> None:
    assert typed_arguments("f", [kind], [value]) == (bits,)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("i16", 3, "must be i16"),
        ("u16", np.int16(3), "must be u16"),
        ("f32", np.int32(3), "must be f32"),
        ("f32", 3, "must be f32"),
        ("f16", 1.0, "must be f16"),
        ("u32", -1, "doesn't fit"),
        ("i32", 1 << 31, "doesn't fit"),
        ("i32", True, "must be i32"),
        ("i32", "3", "must be i32"),
    ],
)
def test_other_values_are_refused_with_the_right_type(kind: str, value: Any, text: str) -> None:
    with pytest.raises(HostError, match=text) as caught:
        typed_arguments("f", [kind], [value])
    assert caught.value.remedy


def test_a_wrong_number_of_arguments_shows_the_signature() -> None:
    with pytest.raises(HostError, match="takes 2 arguments, got 1") as caught:
        typed_arguments("f", ["i16", "f32"], [np.int16(1)])
    assert "f(i16, f32)" in str(caught.value)
    assert isinstance(caught.value, RuntimeError)


def test_call_takes_words_as_they_are_and_halves_for_16_bit_parameters() -> None:
    assert untyped_arguments("f", ["u32", "i16", "f32"], [0xDEADBEEF, np.int32(-1), 1.0]) == (
        0xDEADBEEF,
        0xFFFF,
        0x3F800000,
    )
