"""Router registers through pointers with addresses that the compiler knows."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_eval import compile_body, errors_of

from fabrica_bench.csl.registers import is_router_register

BODY = "var word: u16; fn main() void {{ word = @bitcast(*u16, @as(u16, {address})).*; }}"


@pytest.mark.parametrize("address", [0xFE40, 0xFE8E])  # color 0's route, color 7's switch
def test_a_known_register_is_reached_on_wse2_only(tmp_path: Path, address: int) -> None:
    body = BODY.format(address=address)
    compile_body(tmp_path, body, arch="wse2")
    assert "outside of the PE's memory" in errors_of(tmp_path, body, arch="wse3")[0]


def test_blocks_end_with_their_last_color() -> None:
    assert is_router_register(0xFE40 + 2 * 23, 2)
    assert not is_router_register(0xFE40 + 2 * 24, 2)
    assert not is_router_register(0xFE40 + 2 * 23, 4)
