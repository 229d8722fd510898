"""Choosing the native executor, and what it leaves to the reference executor."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from helpers.ir_programs import Fn, image, mem, ping_pong, program

from fabrica_bench.csl.ir import U16, U32
from fabrica_bench.errors import FabricaError
from fabrica_bench.wse.commands import Launch, Limits
from fabrica_bench.wse.faults import BudgetExceeded, Deadlock, Fault
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.selection import executor_name, open_machine


def launched(fn: Fn) -> Machine:
    machine = open_machine(program(image(fn, exports=("main",))), executor="native")
    machine.wait(machine.submit(Launch("main")))
    return machine


def test_importing_the_package_does_not_load_llvm() -> None:
    code = "import fabrica_bench.wse.selection, fabrica_bench.compat.runtime, sys; sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_an_unknown_executor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRICA_SIM_EXECUTOR", "quick")
    with pytest.raises(FabricaError, match="no executor 'quick'"):
        executor_name()


def test_a_program_with_traffic_runs_natively() -> None:
    machine = open_machine(ping_pong(), executor="native")
    machine.wait(machine.submit(Launch("main")))
    assert machine.executor_name == "native"  # type: ignore[attr-defined]
    assert machine.launch_windows[0].name == "main"


def test_what_is_not_implemented_goes_to_the_reference_with_a_notice(caplog: pytest.LogCaptureFixture) -> None:
    fn = Fn("main")
    fn.do("config_write", 0x7F20, 0)
    fn.do("unblock_cmd_stream")
    fn.ret()
    with caplog.at_level(logging.WARNING, logger="fabrica_bench.wse"):
        machine = open_machine(program(image(fn, exports=("main",))), executor="native")
    assert type(machine) is Machine
    assert "using the reference executor" in caplog.text


@pytest.mark.parametrize("address", [49152, 49150, 65534, 3])
def test_no_access_leaves_the_memory_of_the_pe(address: int) -> None:
    fn = Fn("main")
    fn.store(U32, fn.load(U16, 256), 1, 0)
    fn.ret()
    target = image(fn, exports=("main",))
    machine = open_machine(program(target), executor="native")
    machine.pe(0, 0).memory.write(256, address.to_bytes(2, "little"))
    with pytest.raises(Fault):
        machine.wait(machine.submit(Launch("main")))


def test_a_dsd_cannot_reach_beyond_the_memory() -> None:
    fn = Fn("main")
    fn.dsd("fmovs", mem(49100, 40, 1000), mem(0, 40))
    fn.ret()
    with pytest.raises(Fault, match="outside"):
        launched(fn)


def test_an_endless_loop_uses_up_the_budget() -> None:
    fn = Fn("main")
    loop = fn.block()
    fn.jump(loop)
    fn.at(loop)
    fn.jump(loop)
    machine = open_machine(
        program(image(fn, exports=("main",))), limits=Limits(max_cycles=10_000_000), executor="native"
    )
    with pytest.raises(BudgetExceeded, match="10000000 cycles"):
        machine.wait(machine.submit(Launch("main")))


def test_a_deadlock_is_explained() -> None:
    fn = Fn("main")
    fn.ret()
    with pytest.raises(Deadlock, match="unblock_cmd_stream"):
        launched(fn)
