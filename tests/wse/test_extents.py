"""Host copies are compared with the variable that they begin in."""

from __future__ import annotations

import pytest
from helpers.ir_programs import image

from fabrica_bench.csl import ir
from fabrica_bench.wse.extents import Extents
from fabrica_bench.wse.faults import PePosition

PE = PePosition(2, 1)
WHERE = ("to", "a")


def two_variables() -> ir.Image:
    """`low` at 64..79, `high` at 80..95."""
    target = image()
    for name, address in (("high", 80), ("low", 64)):
        target.globals[name] = ir.Global(name, address, 16, None, "[4]f32")
    return target


@pytest.mark.parametrize(
    ("address", "size", "room"),
    [(64, 16, None), (64, 17, 16), (72, 8, None), (72, 12, 8), (80, 20, 16), (96, 400, None), (32, 400, None)],
)
def test_a_copy_may_go_to_the_end_of_its_variable(address: int, size: int, room: int | None) -> None:
    extents = Extents()
    extents.check(two_variables(), PE, WHERE, address, size)
    assert [item.room for item in extents.found.values()] == ([] if room is None else [room])


def test_each_tensor_and_direction_is_named_once() -> None:
    extents, target = Extents(), two_variables()
    for size in (20, 40):
        extents.check(target, PE, WHERE, 64, size)
    extents.check(target, PE, ("from", "b"), 80, 32)
    first, second = extents.describe()
    assert first == (
        "a copy to 'a' takes 20 bytes of each PE, but variable 'low' of PE(2,1) ends after 16:"
        " the rest changed what lies behind it"
    )
    assert second.startswith("a copy from 'b' takes 32 bytes of each PE, but variable 'high' of PE(2,1) ends after 16:")
