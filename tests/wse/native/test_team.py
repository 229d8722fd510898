"""Lanes: who gets how many, and that a large grid of several lanes does what one lane does."""

from __future__ import annotations

import pytest
from differential.replay import observe
from helpers.ir_programs import Fn, fabin, fabout, image, mem, program

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import EAST, RAMP, WEST, ColorConfig
from fabrica_bench.errors import FabricaError
from fabrica_bench.wse.commands import Launch
from fabrica_bench.wse.native import team
from fabrica_bench.wse.native.machine import NativeMachine

STEPS = [("submit", Launch("main")), ("wait", 0), ("submit", Launch("main")), ("wait", 1), ("drain",)]


def pairs(width: int, height: int, *, prints: bool = False) -> ir.Program:
    """PEs of even columns send words to their neighbours in the east, which add them to their own."""

    def element(sends: bool) -> ir.Image:
        main = Fn("main")
        if prints:
            main.do("print_text", text="here\n")
        if sends:
            main.dsd("mov16", fabout(2, 0, 20), mem(100, 20))
        else:
            main.dsd("add16", mem(100, 20), mem(100, 20), fabin(2, 0, 20))
        main.do("unblock_cmd_stream")
        main.ret()
        queues = [ir.QueueInit("input", 2, 0), ir.QueueInit("output", 2, 0)]
        target = image(main, exports=("main",), queues=queues)
        target.globals["data"] = ir.Global("data", 100, 40, bytes(range(40)), "[20]u16")
        return target

    kinds = [x % 2 for x in range(width)]
    route = [{0: ColorConfig(rx=WEST, tx=RAMP) if x % 2 else ColorConfig(rx=RAMP, tx=EAST)} for x in range(width)]
    return program([element(True), element(False)], [kinds] * height, [route] * height, "wse3")


@pytest.mark.parametrize("threads", [2, 3, 5, 16])
def test_lanes_of_a_grid_do_what_one_does(threads: int) -> None:
    code = pairs(8, 16)
    machine = NativeMachine(code, threads=threads, thin=0)
    several = observe(machine, STEPS)
    assert machine._team is not None
    assert several.executor == "native"
    assert several.steps == observe(NativeMachine(code, threads=1), STEPS).steps


def test_idle_cycles_go_back_to_one_lane() -> None:
    code = pairs(2, 2)
    machine = NativeMachine(code, threads=2)
    assert observe(machine, STEPS).steps == observe(NativeMachine(code, threads=1), STEPS).steps


def test_pes_that_print_are_stepped_by_one_lane() -> None:
    code = pairs(4, 4, prints=True)
    machine = NativeMachine(code, threads=4, thin=0)
    assert observe(machine, STEPS).steps == observe(NativeMachine(code, threads=1), STEPS).steps
    assert machine._team is None


def test_small_grids_have_one_lane_and_large_ones_a_lane_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(team.VARIABLE, raising=False)
    monkeypatch.setattr(team.os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert team.lane_count(team.LEAST_PES - 1) == 1
    assert team.lane_count(team.LEAST_PES) == 4


@pytest.mark.parametrize(("said", "lanes"), [("1", 1), ("3", 3), ("99", team.MOST_LANES)])
def test_the_number_of_lanes_can_be_said(monkeypatch: pytest.MonkeyPatch, said: str, lanes: int) -> None:
    monkeypatch.setenv(team.VARIABLE, said)
    assert team.lane_count(10_000) == lanes


@pytest.mark.parametrize("said", ["0", "-1", "two", ""])
def test_a_wrong_number_of_lanes_is_told(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv(team.VARIABLE, said)
    with pytest.raises(FabricaError, match="FABRICA_SIM_THREADS"):
        team.lane_count(10_000)


def test_a_machine_without_threads_makes_do_with_one_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise RuntimeError("can't start new thread")

    code = pairs(8, 8)
    monkeypatch.setattr(team.ThreadPoolExecutor, "submit", refuse)
    machine = NativeMachine(code, threads=4, thin=0)
    assert observe(machine, STEPS).steps == observe(NativeMachine(code, threads=1), STEPS).steps
