"""Costs of blocks and calls: what a compiler would not do twice costs nothing twice."""

from __future__ import annotations

import pytest

from fabrica_bench.csl import ir
from fabrica_bench.wse.code_cost import block_costs, inlined_functions, instruction_cost, return_cost
from fabrica_bench.wse.costs import CostTable, load_costs

U16 = ir.ScalarType("int", 16, False, "u16")
I16 = ir.ScalarType("int", 16, True, "i16")
F32 = ir.ScalarType("float", 32, True, "f32")
END = ir.Ret(loc=0, value=None)


@pytest.fixture(params=["wse2", "wse3"])
def costs(request: pytest.FixtureRequest) -> CostTable:
    return load_costs(request.param)


def _address(first: int, base: int) -> list[ir.Instr]:
    """`base + 4 * r0` in register `first + 1`."""
    scaled, address = ir.Reg(first), ir.Reg(first + 1)
    return [
        ir.Bin(loc=0, dst=scaled, op="mul", type=U16, a=ir.Reg(0), b=ir.Imm(4)),
        ir.Bin(loc=0, dst=address, op="add", type=U16, a=scaled, b=ir.Imm(base)),
    ]


def test_an_address_computed_again_costs_its_reuse_only(costs: CostTable) -> None:
    again = block_costs([*_address(1, 100), *_address(3, 100), END], costs)
    assert sum(again[2:]) == costs["scalar.reuse"]


def test_another_array_needs_an_address_of_its_own(costs: CostTable) -> None:
    other = block_costs([*_address(1, 100), *_address(3, 200), END], costs)
    assert sum(other[2:]) == sum(other[:2]) == 2 * costs["scalar.integer"]


def test_an_element_is_loaded_once_until_memory_changes(costs: CostTable) -> None:
    load = [ir.Load(loc=0, dst=ir.Reg(dst), type=F32, addr=ir.Reg(9), offset=0) for dst in (1, 2, 3)]
    store = ir.Store(loc=0, type=F32, addr=ir.Reg(8), value=ir.Reg(1), offset=0)
    assert block_costs([load[0], load[1], store, load[2], END], costs) == [
        costs["scalar.load"],
        0,
        costs["scalar.store"],
        costs["scalar.load"],
    ]


def test_a_changed_index_is_another_address(costs: CostTable) -> None:
    step = ir.Bin(loc=0, dst=ir.Reg(0), op="add", type=U16, a=ir.Reg(0), b=ir.Imm(1))
    assert sum(block_costs([*_address(1, 100), step, *_address(3, 100), END], costs)[3:]) == 2 * costs["scalar.integer"]


@pytest.mark.parametrize("op", ["div", "rem"])
def test_division_by_a_power_of_two_is_cheap(costs: CostTable, op: str) -> None:
    def cost(divisor: int, type_: ir.ScalarType) -> int:
        return instruction_cost(ir.Bin(loc=0, dst=ir.Reg(1), op=op, type=type_, a=ir.Reg(0), b=ir.Imm(divisor)), costs)

    assert cost(16, U16) == costs["scalar.integer"]
    assert cost(16, U16) < cost(16, I16) < cost(12, U16) == costs["scalar.divide_integer"]


def test_the_gap_follows_the_last_of_several_register_loads(costs: CostTable) -> None:
    dsd = ir.Imm(ir.Dsd("mem1d", 0, (4,), (1,)))
    load = ir.LoadDsr(
        loc=0, dsr=ir.DsrRef("src0", 1), dsd=dsd, config=ir.DsdConfig(), save_address=False, single_step=False
    )
    one = costs["dsd.dsr_load_explicit"]
    assert block_costs([load, load, END], costs) == [one, one + costs["dsd.dsr_gap"]]


def _function(name: str, *instrs: ir.Instr, kind: str = "fn") -> ir.Function:
    return ir.Function(name, "task" if kind == "task" else "fn", 0, None, [], [[*instrs, END]])


def _image(*functions: ir.Function, **fields: object) -> ir.Image:
    return ir.Image("pe", "pe.csl", functions={fn.name: fn for fn in functions}, **fields)  # type: ignore[arg-type]


def _call(name: str) -> ir.Call:
    return ir.Call(loc=0, dst=None, fn=name, args=())


def test_small_functions_and_those_with_one_caller_are_expanded(costs: CostTable) -> None:
    move = ir.Move(loc=0, dst=ir.Reg(0), src=ir.Imm(1))
    large = _function("large", *[move] * (costs["branch.inline_limit"] + 1))
    once = _function("once", *[move] * (costs["branch.inline_limit"] + 1))
    small = _function("small", move)
    main = _function("main", *map(_call, ("large", "large", "once", "small", "small")))
    assert inlined_functions(_image(main, large, once, small), costs) == {"once", "small"}


def test_entry_points_and_recursive_functions_keep_their_calls(costs: CostTable) -> None:
    main = _function("main", _call("again"), _call("run"), _call("shown"))
    again = _function("again", _call("again"))
    image = _image(
        main,
        again,
        _function("run", kind="task"),
        _function("shown"),
        tasks=[ir.TaskBinding("local", 8, "run")],
        exports={"shown": ir.ExportedSymbol("shown", "fn", "shown", "fn()void")},
    )
    assert inlined_functions(image, costs) == frozenset()


def test_a_task_returns_for_free(costs: CostTable) -> None:
    assert return_cost(_function("run", kind="task"), False, costs) == 0
    assert return_cost(_function("f"), True, costs) == 0
    assert return_cost(_function("f"), False, costs) == costs["branch.return"]
