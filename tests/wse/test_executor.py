"""Scalar code: results, cycles, faults; the translated code against a plain interpretation of the IR."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from helpers.ir_programs import Fn, image, ping_pong, program
from hypothesis import given, settings
from hypothesis import strategies as st

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import BOOL, F16, F32, I8, I16, I32, I64, U8, U16, U32, Reg
from fabrica_bench.wse import numeric, pe
from fabrica_bench.wse.commands import Launch, Limits
from fabrica_bench.wse.costs import load_costs
from fabrica_bench.wse.faults import BudgetExceeded, Fault
from fabrica_bench.wse.machine import Machine


def run(f: Fn, *others: Fn, arch: Any = "wse3", limits: Limits | None = None, **fields: Any) -> Machine:
    f.do("unblock_cmd_stream")
    machine = Machine(program(image(f.ret(), *others, exports=("main",), **fields), arch=arch), limits=limits)
    machine.wait(machine.submit(Launch("main")))
    return machine


def stored(f: Fn, type_: ir.ScalarType, value: Any, *others: Fn) -> int:
    """Bits of `value` after `main` stored it at address 0."""
    f.store(type_, 0, value)
    return run(f, *others).pe(0, 0).memory.read_int(0, type_.size)


class TestValues:
    @pytest.mark.parametrize(
        ("op", "type_", "a", "b", "expected"),
        [
            ("add", I16, 32767, 1, -32768),
            ("sub", U16, 0, 1, 65535),
            ("mul", I32, 1 << 20, 1 << 20, 0),
            ("div", I16, -7, 2, -3),
            ("rem", I16, -7, 2, -1),
            ("div", I16, -32768, -1, -32768),
            ("shl", U16, 1, 16, 0),
            ("shl", U32, 1, 4_000_000_000, 0),
            ("shr", I16, -8, 1, -4),
            ("shr", U16, 0x8000, 15, 1),
            ("xor", I8, -1, 1, -2),
            ("mul", I64, 1 << 40, 1 << 40, 0),
        ],
    )
    def test_integers_wrap(self, op: str, type_: ir.ScalarType, a: int, b: int, expected: int) -> None:
        f = Fn("main")
        left, right = f.reg(type_), f.reg(type_)
        f.move(left, a)
        f.move(right, b)
        assert numeric.from_bits(stored(f, type_, f.bin(op, type_, left, right)), type_) == expected

    def test_f32_rounds_after_every_operation(self) -> None:
        f = Fn("main")
        total = f.reg(F32)
        f.move(total, 16777216.0)
        for _ in range(4):
            f.bin("add", F32, total, 1.0, dst=total)
        assert numeric.bits_to_f32(stored(f, F32, total)) == 16777216.0

    def test_f16_multiply_then_add_rounds_twice(self) -> None:
        f = Fn("main")
        x = f.reg(F16)
        f.move(x, 1.0009765625)
        product = f.bin("mul", F16, x, x)
        assert numeric.from_bits(stored(f, F16, f.bin("sub", F16, product, 1.001953125)), F16) == 0.0

    def test_float_division_by_zero_is_infinite(self) -> None:
        f = Fn("main")
        zero = f.reg(F32)
        f.move(zero, 0.0)
        assert stored(f, F32, f.bin("div", F32, -1.0, zero)) == 0xFF800000

    def test_nan_is_stored_canonically(self) -> None:
        f = Fn("main")
        infinite = f.reg(F32)
        f.move(infinite, float("inf"))
        assert stored(f, F32, f.bin("sub", F32, infinite, infinite)) == 0x7FC00000

    def test_casts(self) -> None:
        f = Fn("main")
        x = f.reg(F32)
        f.move(x, -2.75)
        assert stored(f, I16, f.cast(I16, F32, x)) == 0xFFFE
        g = Fn("main")
        y = g.reg(I16)
        g.move(y, -1)
        assert stored(g, U32, g.cast(U32, I16, y)) == 0xFFFFFFFF

    def test_a_load_before_a_store_keeps_the_old_value(self) -> None:
        f = Fn("main")
        f.store(U16, 8, 5)
        old = f.load(U16, 8)
        f.store(U16, 8, 6)
        assert stored(f, U16, old) == 5

    def test_a_register_may_be_assigned_again_before_its_old_value_is_used(self) -> None:
        f = Fn("main")
        x = f.reg(U16)
        f.move(x, 1)
        plus = f.bin("add", U16, x, 10)
        f.move(x, 100)
        assert stored(f, U16, f.bin("add", U16, plus, x)) == 111

    def test_32_bit_values_need_only_16_bit_alignment(self) -> None:
        f = Fn("main")
        f.store(U32, 2, 0x12345678)
        assert stored(f, U32, f.load(U32, 2)) == 0x12345678

    def test_dsds_live_in_memory_too(self) -> None:
        value = ir.Dsd("mem1d", (4,), 256, (2,))
        f = Fn("main")
        f.store(ir.DSD, 512, value)
        loaded = f.load(ir.DSD, 512)
        moved = f.reg(ir.DSD)
        f.add(ir.SetDsd(0, moved, loaded, "advance", ir.Imm(8)))
        f.dsd("mov16", moved, ("scalar", 7, U16))
        memory = run(f).pe(0, 0).memory
        assert struct.unpack("<8H", memory.read(264, 16)) == (7, 0, 7, 0, 7, 0, 7, 0)

    def test_calls_pass_arguments_and_frames_do_not_overlap(self) -> None:
        inner = Fn("inner", U16, result=U16)
        address = inner.reg(U16)
        inner.function.frame_size = 4
        inner.add(ir.FrameAddr(0, address, 0))
        inner.store(U16, address, inner.params[0])
        inner.ret(inner.bin("add", U16, inner.load(U16, address), 1))
        f = Fn("main")
        f.function.frame_size = 4
        mine = f.reg(U16)
        f.add(ir.FrameAddr(0, mine, 0))
        f.store(U16, mine, 40)
        result = f.call("inner", 1, result=U16)
        assert result is not None
        assert stored(f, U16, f.bin("add", U16, f.load(U16, mine), result), inner) == 42

    def test_function_pointers(self) -> None:
        twice = Fn("twice", U16, result=U16)
        twice.ret(twice.bin("mul", U16, twice.params[0], 2))
        f = Fn("main")
        dst = f.reg(U16)
        f.add(ir.CallIndirect(0, dst, ir.FnAddr("twice"), (ir.Imm(21),)))
        assert stored(f, U16, dst, twice) == 42

    def test_switch(self) -> None:
        f = Fn("main")
        x = f.reg(U16)
        f.move(x, 3)
        blocks = [f.block() for _ in range(4)]
        f.add(ir.SwitchInt(0, x, ((1, blocks[0]), (3, blocks[1])), blocks[2]))
        for block, value in zip(blocks, (10, 30, 99), strict=False):
            f.at(block)
            f.store(U16, 0, value)
            f.jump(blocks[3])
        f.at(blocks[3])
        assert run(f).pe(0, 0).memory.read_int(0, 2) == 30


class TestFaults:
    def fault(self, f: Fn, *others: Fn, **fields: Any) -> str:
        with pytest.raises(Fault) as caught:
            run(f, *others, **fields)
        return str(caught.value)

    def test_division_by_zero_names_pe_line_and_task(self) -> None:
        f = Fn("main")
        zero = f.reg(I16)
        f.move(zero, 0)
        f.line = 12
        f.store(I16, 0, f.bin("div", I16, 1, zero))
        text = self.fault(f)
        assert "PE(0,0) pe.csl:12:1 in main" in text
        assert "division by zero" in text

    def test_an_address_outside_memory(self) -> None:
        f = Fn("main")
        address = f.reg(U16)
        f.move(address, 50000)
        f.store(F32, f.bin("add", U16, address, 2), 1.0)
        assert "outside the PE's memory of 49152 bytes (address=50002)" in self.fault(f)

    def test_an_odd_address(self) -> None:
        f = Fn("main")
        address = f.reg(U16)
        f.move(address, 7)
        f.store(U16, 0, f.load(U16, f.bin("add", U16, address, 2)))
        assert "odd address (address=9)" in self.fault(f)

    def test_stack_overflow(self) -> None:
        f = Fn("main")
        f.call("main")
        assert "stack overflow" in self.fault(f)

    def test_failed_assertions_quote_the_condition(self) -> None:
        f = Fn("main")
        f.do("assert", 0, text="i < n")
        assert "assertion failed: i < n" in self.fault(f)

    def test_unreachable_code(self) -> None:
        f = Fn("main")
        f.add(ir.Unreachable(0, "the end of f is reached without a return"))
        machine = Machine(program(image(f, exports=("main",))))
        handle = machine.submit(Launch("main"))
        with pytest.raises(Fault, match="reached without a return"):
            machine.wait(handle)

    def test_an_endless_loop_uses_up_the_budget(self) -> None:
        f = Fn("main")
        loop = f.block()
        f.jump(loop)
        f.at(loop)
        f.jump(loop)
        machine = Machine(program(image(f, exports=("main",))), limits=Limits(max_cycles=10**6))
        with pytest.raises(BudgetExceeded, match="1000000 cycles"):
            machine.wait(machine.submit(Launch("main")))

    def test_wall_time_is_limited_too(self) -> None:
        f = Fn("main")
        loop = f.block()
        f.jump(loop)
        f.at(loop)
        f.jump(loop)
        machine = Machine(program(image(f, exports=("main",))), limits=Limits(max_cycles=10**15, wall_seconds=0.2))
        with pytest.raises(BudgetExceeded, match=r"0\.2 s of wall time"):
            machine.wait(machine.submit(Launch("main")))


class TestPublishedLoops:
    """Cycles per iteration of scalar loops on the WSE-3 simulator (published characterisation): calibration points."""

    @pytest.mark.parametrize(("arch", "empty", "total"), [("wse2", 6, 11), ("wse3", 10, 15)])
    def test_slope_of_an_empty_loop_and_of_a_sum(self, arch: Any, empty: int, total: int) -> None:
        def cycles(count: int, with_sum: bool) -> int:
            f = Fn("main")
            acc = f.reg(F32)
            f.move(acc, 0.0)
            f.do("tsc_enable")

            def body(i: Reg) -> None:
                if with_sum:
                    place = f.bin("add", U16, f.bin("mul", U16, i, 4), 256)
                    f.bin("add", F32, acc, f.load(F32, place), dst=acc)

            f.loop(count, body)
            f.do("tsc_read", 8)
            return run(f, arch=arch).pe(0, 0).memory.read_int(8, 6)

        assert cycles(20, False) - cycles(10, False) == 10 * empty
        assert cycles(20, True) - cycles(10, True) == 10 * total

    @pytest.mark.parametrize(("arch", "per_round"), [("wse2", 6), ("wse3", 10)])
    @pytest.mark.parametrize("nested", [False, True])
    def test_a_fault_tells_the_cycle_that_it_came_in(self, arch: Any, per_round: int, nested: bool) -> None:
        def cycle(rounds: int) -> int:
            f = Fn("inner" if nested else "main")
            zero = f.load(U16, 0)
            f.loop(rounds, lambda i: None)
            f.bin("div", U16, 7, zero)
            caller = Fn("main")
            caller.call("inner")
            with pytest.raises(Fault, match="division by zero") as caught:
                run(caller, f.ret(), arch=arch) if nested else run(f, arch=arch)
            assert caught.value.cycle is not None
            return caught.value.cycle

        assert cycle(30) - cycle(10) == 20 * per_round

    def test_a_small_if_becomes_predicated(self) -> None:
        costs = load_costs("wse3")

        def cycles(with_if: bool) -> int:
            f = Fn("main")
            x = f.reg(I16)
            f.move(x, 3)
            f.do("tsc_enable")
            if with_if:
                then, join = f.block(), f.block()
                f.branch(f.cmp("gt", I16, x, 2), then, join)
                f.at(then)
                f.move(x, 2)
                f.jump(join)
                f.at(join)
            f.do("tsc_read", 8)
            return run(f).pe(0, 0).memory.read_int(8, 6)

        assert cycles(True) - cycles(False) == costs["scalar.compare"] + costs["branch.predicated"]


# ------------------------------------------------------------------------------- random programs, two ways to run them

_INTS = [U8, I8, U16, I16, U32, I32]
_instruction = st.tuples(
    st.sampled_from(["add", "sub", "mul", "and", "or", "xor", "shl", "shr", "load", "store", "cmp", "cast"]),
    st.integers(0, 5),
    st.integers(0, 5),
    st.integers(0, 5),
)


@settings(max_examples=80, deadline=None)
@given(
    body=st.lists(_instruction, min_size=1, max_size=25),
    start=st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=6, max_size=6),
    trips=st.integers(1, 4),
)
def test_translated_code_equals_a_plain_interpretation(
    body: list[tuple[str, int, int, int]], start: list[int], trips: int
) -> None:
    """Random straight code in a loop, over one register of each integer type and a small memory."""
    f = Fn("main")
    regs = [f.reg(type_) for type_ in _INTS]
    model = [numeric.wrap(value, type_) for value, type_ in zip(start, _INTS, strict=True)]
    memory = bytearray(64)
    for reg, value in zip(regs, model, strict=True):
        f.move(reg, value)

    def emit(i: Reg) -> None:
        for op, d, a, b in body:
            if op == "load":
                f.add(ir.Load(0, regs[d], _INTS[d], ir.Imm(8 * a), 0))
            elif op == "store":
                f.store(_INTS[d], 8 * a, regs[d])
            elif op == "cmp":
                f.add(ir.Cast(0, regs[d], _INTS[d], BOOL, f.cmp("lt", _INTS[a], regs[a], regs[a])))
            elif op == "cast":
                f.add(ir.Cast(0, regs[d], _INTS[d], _INTS[a], regs[a]))
            else:
                amount: Any = b if op in ("shl", "shr") else regs[d]
                f.add(ir.Bin(0, regs[d], op, _INTS[d], regs[d], amount if isinstance(amount, Reg) else ir.Imm(amount)))

    f.loop(trips, emit)
    for k, (reg, type_) in enumerate(zip(regs, _INTS, strict=True)):
        f.store(type_, 128 + 8 * k, reg)

    operations: dict[str, Any] = {
        "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "and": lambda x, y: x & y,
        "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y, "shl": lambda x, y: x << y, "shr": lambda x, y: x >> y,
    }  # fmt: skip
    for _ in range(trips):
        for op, d, a, b in body:
            type_ = _INTS[d]
            if op == "load":
                model[d] = numeric.wrap(int.from_bytes(memory[8 * a : 8 * a + type_.size], "little"), type_)
            elif op == "store":
                memory[8 * a : 8 * a + type_.size] = numeric.to_bits(model[d], type_).to_bytes(type_.size, "little")
            elif op == "cmp":
                model[d] = 0
            elif op == "cast":
                model[d] = numeric.wrap(model[a], type_)
            else:
                model[d] = numeric.wrap(operations[op](model[d], b if op in ("shl", "shr") else model[d]), type_)

    result = run(f).pe(0, 0).memory
    assert result.read(0, 64) == bytes(memory)
    assert [numeric.wrap(result.read_int(128 + 8 * k, t.size), t) for k, t in enumerate(_INTS)] == model


def test_running_ahead_of_the_clock_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two PEs exchange words, wait, compute: the run-ahead of the main thread is invisible in times and results."""

    def outcome(ahead: int) -> tuple[Any, ...]:
        monkeypatch.setattr(pe, "RUN_AHEAD", ahead)
        machine = Machine(ping_pong())
        machine.wait(machine.submit(Launch("main")))
        machine.drain()
        return machine.cycle, machine.launch_windows, [p.memory.read(0, 256) for p in machine.elements]

    assert outcome(0) == outcome(1 << 16) == outcome(7)


def test_long_chains_and_deep_nests_of_blocks_are_translated() -> None:
    f = Fn("main")
    x = f.reg(I32)
    f.move(x, 0)
    for _ in range(300):  # a chain of jumps
        following = f.block()
        f.bin("add", I32, x, 1, dst=x)
        f.jump(following)
        f.at(following)
    exits = []
    for _ in range(150):  # branches inside branches
        inside, out = f.block(), f.block()
        f.branch(f.cmp("gt", I32, x, 0), inside, out)
        exits.append(out)
        f.at(inside)
        f.bin("add", I32, x, 1, dst=x)
    end = f.block()
    f.jump(end)
    for out in exits:
        f.at(out)
        f.jump(end)
    f.at(end)
    assert stored(f, I32, x) == 450
