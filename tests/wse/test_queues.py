"""Queue flush, status, re-binding, and control task tables of WSE-3; timing of back-pressure."""

from __future__ import annotations

import pytest
from helpers.ir_programs import Fn, fabin, fabout, image, mem, program

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import EAST, RAMP, U16, U32, WEST, ColorConfig, QueueInit, TaskBinding
from fabrica_bench.wse import control
from fabrica_bench.wse.commands import Launch
from fabrica_bench.wse.faults import Fault
from fabrica_bench.wse.machine import Machine

LOOP = ColorConfig(rx=RAMP, tx=RAMP)


def machine_of(*functions: Fn, **fields: object) -> Machine:
    queues = fields.pop("queues", [QueueInit("input", 2, 4), QueueInit("output", 3, 4)])
    target = image(*functions, exports=("main",), queues=queues, **fields)
    return Machine(program(target, colors=[[{4: LOOP, 6: LOOP}]]))


def launch(machine: Machine) -> Machine:
    machine.submit(Launch("main"))
    machine.drain()
    return machine


class TestFlush:
    def test_the_handler_runs_once_the_last_word_has_left(self) -> None:
        f = Fn("main")
        f.dsd("mov32", fabout(3, 4, 6), mem(0, 6), is_async=True)
        f.do("queue_flush", 3, text="output")
        f.do("unblock_cmd_stream")
        f.ret()
        handler = Fn("handler")
        handler.store(U16, 400, handler.do("queue_status", text="output", result=U16))
        handler.do("queue_flush_exit", 3, text="output")
        handler.do("rebind_queue", 3, 6, text="output")
        handler.dsd("mov32", fabout(3, 6, 1), ("scalar", 7, U32))
        handler.ret()
        data = Fn("data", U32, task=True)
        data.ret()
        late = Fn("late", U32, task=True)
        late.store(U32, 408, late.params[0])
        late.ret()
        machine = launch(
            machine_of(
                f, handler, data, late, empty_queue_handlers=[("output", 3, "handler")],
                queues=[QueueInit("input", 2, 4), QueueInit("output", 3, 4), QueueInit("input", 5, 6)],
                tasks=[TaskBinding("data", 2, "data"), TaskBinding("data", 5, "late")],
            )
        )  # fmt: skip
        memory = machine.pe(0, 0).memory
        assert memory.read_int(400, 2) == 0x00FF
        assert memory.read_int(408, 4) == 7

    def test_a_queue_that_is_empty_already_fires_at_once(self) -> None:
        f = Fn("main")
        f.do("queue_flush", 2, text="input")
        f.do("unblock_cmd_stream")
        f.ret()
        handler = Fn("handler")
        handler.store(U16, 400, handler.do("queue_flush_status", text="input", result=U16))
        handler.do("queue_flush_exit", 2, text="input")
        handler.store(U16, 402, handler.do("queue_flush_status", text="input", result=U16))
        handler.ret()
        memory = launch(machine_of(f, handler, empty_queue_handlers=[("input", 2, "handler")])).pe(0, 0).memory
        assert memory.read_int(400, 2) == 1 << 2
        assert memory.read_int(402, 2) == 0

    def test_rebinding_a_queue_that_holds_words_is_a_fault(self) -> None:
        f = Fn("main")
        f.dsd("mov32", fabout(3, 4, 6), mem(0, 6))
        f.do("rebind_queue", 3, 6, text="output")
        f.ret()
        with pytest.raises(Fault, match="output queue 3 is bound to another color while it holds"):
            launch(machine_of(f))


def test_a_full_input_queue_shows_in_its_status() -> None:
    f = Fn("main")
    f.dsd("mov32", fabout(3, 4, 20), mem(0, 20), is_async=True)
    f.loop(30, lambda i: None)
    f.store(U16, 400, f.do("queue_status", text="input", result=U16))
    f.dsd("mov32", mem(128, 20), fabin(2, 4, 20))
    f.do("unblock_cmd_stream")
    f.ret()
    status = launch(machine_of(f)).pe(0, 0).memory.read_int(400, 2)
    assert status >> 8 & 1 << 2
    assert not status & 1 << 2


def test_each_queue_may_have_its_own_control_task_table() -> None:
    f = Fn("main")
    word = control.encode([(0, False)], task=1, data=5)
    f.dsd("mov32", fabout(3, 4, 1, control=True), ("scalar", word, U32))
    f.do("unblock_cmd_stream")
    f.ret()
    wrong, right = Fn("wrong", U16, task=True), Fn("right", U16, task=True)
    wrong.ret()
    right.store(U16, 400, right.params[0])
    right.ret()
    machine = machine_of(
        f, wrong, right,
        queues=[QueueInit("input", 2, 4, ctrl_table_id=2), QueueInit("output", 3, 4)],
        tasks=[TaskBinding("control", 1, "wrong"), TaskBinding("control", 7, "right")],
        control_table=(4, 3),
        unblocked=[("input_queue", 2)],
    )  # fmt: skip
    assert launch(machine).pe(0, 0).memory.read_int(400, 2) == 5


def test_back_pressure_reaches_the_sender_through_a_chain() -> None:
    """A receiver that starts late loses nothing, and the sender finishes only after it began to receive."""
    count = 60
    send = Fn("main")
    send.dsd("mov32", fabout(3, 4, count), mem(0, count))
    send.do("tsc_enable")
    send.do("unblock_cmd_stream")
    receive = Fn("main")
    receive.loop(100, lambda i: None)
    receive.dsd("mov32", mem(1024, count), fabin(2, 4, count))
    receive.do("unblock_cmd_stream")
    queues = [QueueInit("input", 2, 4), QueueInit("output", 3, 4)]
    passing = Fn("main")
    passing.do("unblock_cmd_stream")
    images = [image(f.ret(), exports=("main",), queues=queues) for f in (send, passing, receive)]
    colors = [
        [
            {4: ColorConfig(rx=RAMP, tx=EAST)},
            {4: ColorConfig(rx=WEST, tx=EAST)},
            {4: ColorConfig(rx=WEST, tx=RAMP)},
        ]
    ]
    machine = Machine(program(images, [[0, 1, 2]], colors))
    words = list(range(count))
    for k in words:
        machine.pe(0, 0).memory.write_int(4 * k, k, 4)
    handle = machine.submit(Launch("main"))
    machine.wait(handle)
    assert [machine.pe(2, 0).memory.read_int(1024 + 4 * k, 4) for k in words] == words
    assert machine.pe(0, 0).counter._start - handle.start_cycle > 100 * machine.costs["branch.loop_back"]


def test_status_of_unused_queues_is_empty() -> None:
    f = Fn("main")
    f.store(U16, 400, f.do("queue_status", text="output", result=ir.U16))
    f.do("unblock_cmd_stream")
    f.ret()
    assert launch(machine_of(f)).pe(0, 0).memory.read_int(400, 2) == 0x00FF
