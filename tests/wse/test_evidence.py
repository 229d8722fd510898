"""What the machine keeps for those who judge a program's time stamps, on both executors alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.ir_programs import Fn, image, program, tensor

from fabrica_bench.csl.ir import U16
from fabrica_bench.wse.commands import CopyIn, CopyOut, Launch
from fabrica_bench.wse.evidence import HeldWords, Readback, held_range
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.selection import open_machine

A, OTHER, POINTER, OWN = 256, 512, 20, 40
STAMP = 8


@pytest.fixture(params=["native", "reference"])
def executor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(executor: str, before: list[tuple[int, int]], after: list[tuple[int, int]], reads: bool = True) -> Machine:
    """Three PEs whose `main` stores 16-bit words (address, value), reads the counter, returns and stores others; the
    one in the middle does nothing but return."""
    f = Fn("main")
    f.do("tsc_enable")
    for address, value in before:
        f.store(U16, address, value)
    if reads:
        f.do("tsc_read", STAMP)
    f.do("unblock_cmd_stream")
    for address, value in after:
        f.store(U16, address, value)
    quiet = Fn("main")
    quiet.do("unblock_cmd_stream")
    images = [image(f.ret(), exports=("main",)), image(quiet.ret(), exports=("main",))]
    for item in images:
        tensor(item, "A", A, POINTER)
    machine = open_machine(program(images, [[0, 1, 0]]), executor=executor)
    machine.wait(machine.submit(Launch("main")))
    return machine


def copied(machine: Machine, words: int = 2) -> Readback:
    machine.wait(machine.submit(CopyOut("A", 0, 0, 3, 1, words)))
    return machine.readbacks[-1]


def test_words_that_stay_what_they_were_at_the_reading_are_no_change(executor: str) -> None:
    machine = opened(executor, [(A, 7)], [(A, 7), (OWN, 1)])
    found = copied(machine)
    assert (found.symbol, found.changed, found.latest) == ("A", 0, -1)
    assert found.cycle > machine.launch_windows[0].start_cycle


@pytest.mark.parametrize("after", [[(A, 8)], [(A + 6, 1)], [(POINTER, OTHER)]])
def test_a_store_after_the_reading_is_a_change(executor: str, after: list[tuple[int, int]]) -> None:
    machine = opened(executor, [(A, 7)], after)
    found = copied(machine)
    ended = max(machine.clocks()["ended"])
    assert (found.changed, found.latest) == (2, ended)
    assert ended > max(machine.clocks()["last_read"])


def test_a_pe_that_never_read_the_counter_tells_nothing(executor: str) -> None:
    assert copied(opened(executor, [], [(A, 8)], reads=False)).changed == 0


def test_what_lies_behind_the_variables_counts_as_changed(executor: str) -> None:
    behind = 16384 - 4
    machine = opened(executor, [(POINTER, behind)], [])
    assert copied(machine, 1).changed == 0
    assert copied(machine, 2).changed == 2


def test_what_the_host_stores_is_no_change_of_the_program(executor: str) -> None:
    machine = opened(executor, [(A, 7)], [])
    data = np.arange(6, dtype=np.uint32).reshape(1, 3, 2)
    machine.wait(machine.submit(CopyIn("A", 0, 0, 3, 1, 2, data)))
    assert copied(machine).changed == 0


def test_each_reading_holds_anew(executor: str) -> None:
    f = Fn("main")
    f.do("tsc_enable")
    f.do("tsc_read", STAMP)
    f.store(U16, A, 7)
    f.do("tsc_read", STAMP)
    f.do("unblock_cmd_stream")
    target = image(f.ret(), exports=("main",))
    tensor(target, "A", A, POINTER)
    machine = open_machine(program(target, [[0, 0, 0]]), executor=executor)
    machine.wait(machine.submit(Launch("main")))
    assert copied(machine).changed == 0


def test_held_words_follow_only_where_they_lie() -> None:
    held = HeldWords(8, bytearray(8))
    for address, data in ((0, b"abcd"), (6, b"1234"), (14, b"wxyz"), (40, b"far")):
        held.follow(address, data)
    assert bytes(held.data) == b"34\0\0\0\0wx"
    assert not held.differs(8, b"34\0\0")
    assert held.differs(8, b"35\0\0")
    assert held.differs(6, b"1234")
    assert held.differs(14, b"wxyz")


def test_the_held_range_is_in_whole_words_and_inside_the_memory() -> None:
    target: Any = image()
    target.code_bytes, target.data_end = 13, 49151
    assert held_range(target) == (8, 49152)
