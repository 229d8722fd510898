"""Initial bytes of variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.csl_eval import compile_body

from fabrica_bench.csl.sema import lower


def initial_bytes(folder: Path, declaration: str) -> bytes | None:
    """Those of `export var v`."""
    program = compile_body(
        folder, f"export var v{declaration}; fn main() void {{ sys_mod.unblock_cmd_stream(); }}"
    ).program
    return program.images[0].globals["v"].init


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        (" = [6]i16{ -1, 7, -1, 300, 0, 7 }", np.array([-1, 7, -1, 300, 0, 7], "<i2")),
        (" = [5]f32{ 0.0, -0.0, 1.5, -0.0, 1.5 }", np.array([0.0, -0.0, 1.5, -0.0, 1.5], "<f4")),
        (" = [3]f16{ -2.0, 0.0, 0.1 }", np.array([-2.0, 0.0, 0.1], "<f2")),
        (" = [4]bool{ true, false, false, true }", np.array([1, 0, 0, 1], "u1")),
        (" = @constants([2, 3]u32, 0xfffffffe)", np.full(6, 0xFFFFFFFE, "<u4")),
        (" = [2]i64{ -1, 4294967296 }", np.array([-1, 1 << 32], "<i8")),
        (" = [2, 2]i16{ 1, 1, 1, -2 }", np.array([1, 1, 1, -2], "<i2")),
    ],
)
def test_arrays_hold_their_elements_in_order(tmp_path: Path, declaration: str, expected: np.ndarray[Any, Any]) -> None:
    assert initial_bytes(tmp_path, declaration) == expected.tobytes()


def test_a_large_array_of_one_number_takes_one_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the arrays would take most of the time of compiling many PE programs."""
    encoded: list[object] = []
    original = lower.bits_of

    def counted(type_: Any, data: Any) -> int | None:
        encoded.append(data)
        return original(type_, data)

    monkeypatch.setattr(lower, "bits_of", counted)
    assert initial_bytes(tmp_path, " = @constants([4000]f32, 2.5)") == np.full(4000, 2.5, "<f4").tobytes()
    assert encoded.count(2.5) < 10
