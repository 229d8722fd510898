"""Machine code that is made in little time computes the same, and gives way to better code while functions wait."""

from __future__ import annotations

from pathlib import Path

import pytest
from differential.replay import compare, observe
from helpers.ir_programs import Fn, fabin, fabout, image, mem, program, tensor

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import RAMP, U16, ColorConfig
from fabrica_bench.wse.commands import CopyOut, Launch
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.native.library import library
from fabrica_bench.wse.native.machine import NativeMachine

ROUNDS = 300
STEPS = [("submit", Launch("main")), ("wait", 0), ("submit", CopyOut("A", 0, 0, 1, 1, 4)), ("wait", 1), ("drain",)]


def echo() -> ir.Program:
    """Many calls of a function that sends a word to itself and waits for it; each adds the round to a sum."""
    inner = Fn("inner", U16)
    inner.store(U16, 300, inner.params[0])
    inner.dsd("mov16", fabout(3, 4, 1), mem(300, 1))
    inner.dsd("mov16", mem(302, 1), fabin(2, 4, 1))
    inner.store(U16, 256, inner.bin("add", U16, inner.load(U16, 256), inner.load(U16, 302)))
    main = Fn("main")
    main.loop(ROUNDS, lambda i: main.call("inner", i))
    main.do("unblock_cmd_stream")
    queues = [ir.QueueInit("input", 2, 4), ir.QueueInit("output", 3, 4)]
    target = image(inner.ret(), main.ret(), exports=("main",), queues=queues)
    tensor(target, "A", 256, 20)
    return program(target, colors=[[{4: ColorConfig(rx=RAMP, tx=RAMP)}]])


@pytest.mark.parametrize("patience", [1, 50, 1000])
def test_code_is_exchanged_while_functions_wait(patience: int) -> None:
    machine = NativeMachine(echo(), quick=True, patience=patience)
    state = machine._state
    before = state.images[0].table["address"].tolist()
    assert observe(machine, STEPS).steps == observe(Machine(echo()), STEPS).steps
    after = state.images[0].table["address"].tolist()
    assert not state.quick
    assert all(old != new for old, new in zip(before, after, strict=True))
    assert machine.executor_name == "native"
    assert machine.read_symbol(0, 0, "A")
    assert machine.pe(0, 0).memory.read_int(256, 2) == sum(range(ROUNDS)) & 0xFFFF


def test_a_short_run_never_waits_for_better_code() -> None:
    machine = NativeMachine(echo(), quick=True)
    observe(machine, STEPS)
    assert machine._state.quick


def test_patience_is_counted_in_cycles_of_main_threads_over_all_launches() -> None:
    once = Machine(echo())
    observe(once, STEPS)
    machine = NativeMachine(echo(), quick=True, patience=3 * once.busy_cycles)
    changed = []
    for _ in range(6):
        machine.wait(machine.submit(Launch("main")))
        changed.append(not machine._state.quick)
    # It is looked at when a launch begins.
    assert changed == [False, False, False, True, True, True]
    assert once.busy_cycles < once.cycle / 2, "it waits most of the time, which doesn't count"


def test_only_what_a_private_folder_keeps_is_made_in_little_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FABRICA_PRIVATE_CODE", raising=False)
    assert not NativeMachine(echo())._state.quick
    monkeypatch.setenv("FABRICA_PRIVATE_CODE", str(tmp_path))
    assert NativeMachine(echo())._state.quick


def test_both_codes_of_a_text_are_kept_apart() -> None:
    text = "define i64 @f0(ptr %pe, ptr %frame) {\n  ret i64 7\n}\n"
    quick, better = library().load(text, quick=True), library().load(text)
    assert quick("f0") != better("f0")
    assert library().load(text, quick=True)("f0") == quick("f0")


def test_the_executors_agree_on_it() -> None:
    assert compare(echo(), STEPS).executor == "native"
