"""The cost tables: complete, sourced, the same entries for both architectures."""

from __future__ import annotations

import pytest

from fabrica_bench.wse.costs import load_costs
from fabrica_bench.wse.elementwise import OPS


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_every_entry_says_where_it_comes_from(arch: str) -> None:
    for entry in load_costs(arch):
        assert entry.source.strip(), entry.name
        assert entry.unit.strip(), entry.name


def test_both_architectures_have_the_same_entries() -> None:
    assert {entry.name for entry in load_costs("wse2")} == {entry.name for entry in load_costs("wse3")}


@pytest.mark.parametrize("op", sorted(OPS))
def test_every_dsd_operation_has_a_width(op: str) -> None:
    assert load_costs("wse2")[f"dsd_width.{op}"] >= 1


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(ValueError, match="expected wse2 or wse3"):
        load_costs("wse1")


def test_measured_hop_and_ramp_latencies() -> None:
    assert [load_costs(a)["fabric.hop"] for a in ("wse2", "wse3")] == [1, 2]
    assert [load_costs(a)["fabric.ramp"] for a in ("wse2", "wse3")] == [2, 3]
