"""Tasks: activation, blocking, data and control tasks, priorities, rotation."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.ir_programs import Fn, activate, fabin, fabout, image, mem, ping_pong, program, unblock

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import I16, RAMP, U16, U32, ColorConfig, TaskBinding
from fabrica_bench.wse import control
from fabrica_bench.wse.commands import Launch
from fabrica_bench.wse.faults import Fault
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.tasks import TaskTable

LOG = 600  # count, then entries


def log(f: Fn, value: Any) -> None:
    """Append a u16 to the list at LOG."""
    count = f.load(U16, LOG)
    f.store(U16, f.bin("add", U16, f.bin("mul", U16, count, 2), LOG + 2), value)
    f.store(U16, LOG, f.bin("add", U16, count, 1))


def logged(machine: Machine, x: int = 0) -> list[int]:
    memory = machine.pe(x, 0).memory
    return [memory.read_int(LOG + 2 + 2 * k, 2) for k in range(memory.read_int(LOG, 2))]


def logging_task(name: str, value: int) -> Fn:
    f = Fn(name, task=True)
    log(f, value)
    f.ret()
    return f


def run(f: Fn, *others: Fn, arch: Any = "wse3", **fields: Any) -> Machine:
    f.do("unblock_cmd_stream")
    colors = [[{4: ColorConfig(rx=RAMP, tx=RAMP)}]]
    queues = [ir.QueueInit("input", 2, 4), ir.QueueInit("output", 3, 4)]
    target = image(f.ret(), *others, exports=("main",), queues=queues, **fields)
    machine = Machine(program(target, colors=colors, arch=arch))
    machine.wait(machine.submit(Launch("main")))
    machine.drain()
    return machine


def test_ping_pong_counts_up() -> None:
    machine = Machine(ping_pong())
    machine.wait(machine.submit(Launch("main")))
    machine.drain()
    left, right = (machine.pe(x, 0).memory for x in (0, 1))
    assert [right.read_int(2 + 2 * k, 2) for k in range(3)] == [9, 27, 45]
    assert [left.read_int(2 + 2 * k, 2) for k in range(3)] == [18, 36, 54]


class TestLocalTasks:
    def test_activation_while_blocked_is_remembered(self) -> None:
        f = Fn("main")
        f.do("block", 10, text="task")
        f.do("activate", 10)
        f.do("activate", 11)
        opener = logging_task("opener", 11)
        opener.function.blocks[0].insert(-1, ir.Intrinsic(0, None, "unblock", (ir.Imm(10),), "task"))
        tasks = [TaskBinding("local", 10, "late"), TaskBinding("local", 11, "opener")]
        assert logged(run(f, logging_task("late", 10), opener, tasks=tasks)) == [11, 10]

    def test_activation_is_a_flag_not_a_counter(self) -> None:
        f = Fn("main")
        f.do("activate", 10)
        f.do("activate", 10)
        assert logged(run(f, logging_task("t", 1), tasks=[TaskBinding("local", 10, "t")])) == [1]

    def test_high_priority_runs_first(self) -> None:
        f = Fn("main")
        f.do("task_priority", 12, 1)
        f.do("activate", 10)
        f.do("activate", 12)
        tasks = [TaskBinding("local", 10, "low"), TaskBinding("local", 12, "high")]
        assert logged(run(f, logging_task("low", 10), logging_task("high", 12), tasks=tasks)) == [12, 10]

    def test_a_task_that_activates_itself_does_not_starve_others(self) -> None:
        f = Fn("main")
        f.do("activate", 10)
        f.do("activate", 12)
        spin = Fn("spin", task=True)
        again, out = spin.block(), spin.block()
        spin.branch(spin.cmp("eq", U16, spin.load(U16, LOG), 0), again, out)
        spin.at(again)
        spin.do("activate", 10)
        spin.ret()
        spin.at(out)
        spin.ret()
        tasks = [TaskBinding("local", 10, "spin"), TaskBinding("local", 12, "other")]
        assert logged(run(f, spin, logging_task("other", 12), tasks=tasks)) == [12]

    def test_tasks_activated_at_comptime_run_before_any_launch(self) -> None:
        t = logging_task("t", 5)
        machine = Machine(program(image(t, tasks=[TaskBinding("local", 10, "t")], activated=[10])))
        machine.drain()
        assert logged(machine) == [5]

    def test_activating_an_unbound_id_is_a_fault(self) -> None:
        f = Fn("main")
        f.do("activate", 20)
        with pytest.raises(Fault, match="local task 20 is activated, but no task is bound"):
            run(f)

    def test_dispatch_takes_three_cycles(self) -> None:
        f = Fn("main")
        f.do("tsc_enable")
        f.do("activate", 10)
        t = Fn("t", task=True)
        t.do("tsc_read", 0)
        t.ret()
        done = Fn("done", task=True)
        done.ret()
        machine = run(f, t, tasks=[TaskBinding("local", 10, "t")])
        costs = machine.costs
        # enable, activate, unblock_cmd_stream, return, end of task, dispatch
        expected = costs["intrinsic.default"] * 2 + costs["task.activate"]
        expected += costs["branch.return"] + costs["task.end"] + 3
        assert machine.pe(0, 0).memory.read_int(0, 6) == expected


class TestWaveletTasks:
    def test_halves_of_the_payload(self) -> None:
        f = Fn("main")
        f.dsd("mov32", fabout(3, 4, 1), ("scalar", 0x00070005, U32))
        t = Fn("t", U16, U16, task=True)
        log(t, t.params[0])
        log(t, t.params[1])
        t.ret()
        assert logged(run(f, t, tasks=[TaskBinding("data", 2, "t")])) == [5, 7]

    def test_a_single_16_bit_parameter_is_the_low_half_with_its_sign(self) -> None:
        f = Fn("main")
        f.dsd("mov32", fabout(3, 4, 1), ("scalar", 0x0007FFFF, U32))
        t = Fn("t", I16, task=True)
        log(t, t.bin("sub", I16, 0, t.params[0]))
        t.ret()
        assert logged(run(f, t, tasks=[TaskBinding("data", 2, "t")])) == [1]

    def test_on_wse2_the_color_is_the_id_and_needs_no_queue(self) -> None:
        f = Fn("main")
        f.dsd("mov32", fabout(3, 4, 1), ("scalar", 9, U32))
        t = Fn("t", U32, task=True)
        log(t, t.params[0])
        t.ret()
        assert logged(run(f, t, arch="wse2", tasks=[TaskBinding("data", 4, "t")])) == [9]

    def test_blocking_itself_until_its_answer_is_sent(self) -> None:
        """The standard way to serialise a data task with its asynchronous send."""
        f = Fn("main")
        f.dsd("mov32", fabout(3, 4, 5), mem(0, 5))
        t = Fn("t", U32, task=True)
        t.do("block", 2, text="input_queue")
        log(t, t.params[0])
        t.dsd("mov32", fabout(1, 6, 1), ("scalar", t.params[0], U32), is_async=True, on_done=unblock(2))
        t.ret()
        f.do("unblock_cmd_stream")
        queues = [
            ir.QueueInit("input", 2, 4), ir.QueueInit("output", 3, 4), ir.QueueInit("output", 1, 6),
            ir.QueueInit("input", 5, 6),
        ]  # fmt: skip
        back = Fn("back", U32, task=True)
        log(back, back.bin("add", U32, back.params[0], 100))
        back.ret()
        target = image(
            f.ret(), t, back, exports=("main",), queues=queues,
            tasks=[TaskBinding("data", 2, "t"), TaskBinding("data", 5, "back")],
        )  # fmt: skip
        loop = ColorConfig(rx=RAMP, tx=RAMP)
        machine = Machine(program(target, colors=[[{4: loop, 6: loop}]]))
        for k in range(5):
            machine.pe(0, 0).memory.write_int(4 * k, k, 4)
        machine.submit(Launch("main"))
        machine.drain()
        assert sorted(logged(machine)) == [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]

    def test_control_task_gets_the_data_half(self) -> None:
        f = Fn("main")
        word = control.encode([(0, False)], task=40, data=1234)
        f.dsd("mov32", fabout(3, 4, 1, control=True), ("scalar", word, U32))
        t = Fn("t", U16, task=True)
        log(t, t.params[0])
        t.ret()
        tasks = [TaskBinding("control", 40, "t")]
        assert logged(run(f, t, tasks=tasks, unblocked=[("input_queue", 2)])) == [1234]

    def test_an_unbound_control_task_is_a_fault(self) -> None:
        f = Fn("main")
        f.dsd("mov32", fabout(3, 4, 1, control=True), ("scalar", control.encode([(0, False)], task=9), U32))
        with pytest.raises(Fault, match="names control task 9, which is not bound"):
            run(f, unblocked=[("input_queue", 2)])

    def test_completion_activates(self) -> None:
        f = Fn("main")
        f.dsd("mov32", mem(0, 2), fabin(2, 4, 2), is_async=True, on_done=activate(10))
        f.dsd("mov32", fabout(3, 4, 2), mem(64, 2), is_async=True)
        assert logged(run(f, logging_task("t", 3), tasks=[TaskBinding("local", 10, "t")])) == [3]

    def test_rotating_tasks(self) -> None:
        f = Fn("main")
        f.dsd("mov32", fabout(3, 4, 7), ("scalar", 1, U32))

        def task(name: str, value: int) -> Fn:
            t = Fn(name, U32, task=True)
            log(t, value)
            t.ret()
            return t

        machine = run(
            f, task("even", 1), task("odd", 2), tasks=[TaskBinding("data", 2, "even")],
            rotating_tasks=[("even", "odd", 2, 2, 0)],
        )  # fmt: skip
        assert logged(machine) == [1, 1, 2, 1, 1, 2, 1]


def test_unbound_data_ids_start_blocked() -> None:
    bound = Fn("t", U32, task=True)
    bound.ret()
    table = TaskTable(image(bound, tasks=[TaskBinding("data", 2, "t")]), 8)
    assert not table.is_blocked(2)
    assert table.is_blocked(3)
    assert not table.is_blocked(30)
