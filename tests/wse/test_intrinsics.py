"""Machine operations that need no fabric."""

from __future__ import annotations

import pytest

from fabrica_bench.csl import ir
from fabrica_bench.wse.intrinsics import INTRINSIC_TABLE, advance_lfsr
from fabrica_bench.wse.registers import TimestampCounter


def test_every_intrinsic_of_the_ir_is_implemented() -> None:
    assert set(ir.INTRINSICS) <= set(INTRINSIC_TABLE)


def test_the_generator_takes_128_steps_of_its_recurrence() -> None:
    state = 0x123456
    bits = [state >> k & 1 for k in range(23)]
    for _ in range(128):
        bits = [*bits[1:], bits[0] ^ bits[5]]
    assert advance_lfsr(state) == sum(bit << k for k, bit in enumerate(bits))


def test_enabling_the_counter_clears_it() -> None:
    counter = TimestampCounter()
    assert counter.value(50) == 0
    counter.enable(100)
    assert counter.value(130) == 30
    counter.enable(200)
    assert counter.value(230) == 30
    counter.disable(240)
    assert counter.value(900) == 40


@pytest.mark.parametrize("cycle", [(1 << 48) + 5, 5])
def test_the_counter_has_48_bits(cycle: int) -> None:
    counter = TimestampCounter()
    counter.enable(0)
    assert counter.value(cycle) == 5
