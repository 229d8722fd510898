"""Cycles of DSD operations in memory against published rates, and turns of operations that share a PE."""

from __future__ import annotations

import pytest

from fabrica_bench.wse.costs import load_costs
from fabrica_bench.wse.dsd import Operand
from fabrica_bench.wse.dsd_cost import DsdCosts


def _vector(size: int, step: int = 1, base: int = 0) -> Operand:
    operand = Operand("memory", size)
    operand.base, operand.step = base, size * step
    return operand


def _scalar(size: int) -> Operand:
    return Operand("scalar", size)


@pytest.mark.parametrize("stride", range(1, 9))
def test_strided_reads_of_halves_go_at_8_per_stride(stride: int) -> None:
    # Characterisation of the WSE-3 simulator: "8 / stride elements a cycle, exactly".
    costs = DsdCosts(load_costs("wse3"), "fmovh")
    assert costs.issue_cycles(_vector(2), [_vector(2, stride)], 2048) == 2048 * stride // 8


def test_two_half_vectors_take_two_cycles_for_eight_elements() -> None:
    # The same: 8, 16 and 64 elements of faddh hold the PE for 2, 4 and 16 cycles.
    costs = DsdCosts(load_costs("wse3"), "faddh")
    cycles = [costs.issue_cycles(_vector(2), [_vector(2), _vector(2, base=6)], n) for n in (8, 16, 64)]
    assert cycles == [2, 4, 16]


def test_three_register_loads_are_followed_by_three_empty_cycles() -> None:
    # The same: loads in cycles 0, 1 and 2, their operation in cycle 6.
    assert DsdCosts(load_costs("wse3"), "faddh").setup(_vector(2), [_vector(2, base=64), _vector(2, base=96)]) == 6


@pytest.mark.parametrize("op", ["faddh", "fadds"])
def test_a_sum_into_one_float_waits_for_each_addition(op: str) -> None:
    # The same: reductions at 2.00 cycles an element; dependent f32 additions are 2 cycles apart.
    size = 2 if op.endswith("h") else 4
    total, costs = Operand("pointer", size), DsdCosts(load_costs("wse3"), op)
    sources = [_scalar(size), _vector(size)]
    assert costs.memory(total, sources, 100) - costs.setup(total, sources) == 200
