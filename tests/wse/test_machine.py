"""Host commands: order, copies, launches, streams, logs; and what happens when nothing can go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.ir_programs import Fn, fabin, fabout, image, mem, ping_pong, program, tensor

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import F32, RAMP, U16, U32, ColorConfig, TaskBinding
from fabrica_bench.wse.commands import CopyIn, CopyOut, Launch, Limits, StreamIn, StreamOut
from fabrica_bench.wse.faults import BudgetExceeded, Deadlock, Fault, PePosition
from fabrica_bench.wse.machine import Machine


def words(*values: int, shape: tuple[int, int, int] = (1, 1, -1)) -> Any:
    return np.array(values, dtype=np.uint32).reshape(shape)


def scaler() -> ir.Image:
    """`scale(factor)` multiplies the four f32 of `A` (at 256) in place."""
    f = Fn("scale", F32)
    f.dsd("fmuls", mem(256, 4), mem(256, 4), ("scalar", f.params[0], F32))
    f.do("unblock_cmd_stream")
    target = image(f.ret(), exports=("scale",))
    tensor(target, "A", 256, 20)
    return target


def floats(result: Any) -> list[float]:
    return list(result.view(np.float32).reshape(-1).tolist())


class TestCopiesAndLaunches:
    def test_commands_run_in_order(self) -> None:
        machine = Machine(program(scaler()))
        data = np.array([1, 2, 3, 4], dtype=np.float32).view(np.uint32).reshape(1, 1, 4)
        machine.submit(CopyIn("A", 0, 0, 1, 1, 4, data))
        machine.submit(Launch("scale", (int(np.float32(2).view(np.uint32)),)))
        machine.submit(Launch("scale", (int(np.float32(10).view(np.uint32)),)))
        out = machine.submit(CopyOut("A", 0, 0, 1, 1, 4))
        assert not out.done
        machine.wait(out)
        assert out.result is not None
        assert floats(out.result) == [20, 40, 60, 80]
        assert [window.name for window in machine.launch_windows] == ["scale", "scale"]

    def test_rows_and_columns_of_a_region(self) -> None:
        machine = Machine(program(scaler(), [[0, 0, 0], [0, 0, 0]]))
        data = np.arange(12, dtype=np.uint32).reshape(2, 2, 3)
        machine.submit(CopyIn("A", 1, 0, 2, 2, 3, data))
        out = machine.submit(CopyOut("A", 2, 1, 1, 1, 3))
        machine.wait(out)
        assert out.result is not None
        assert out.result.tolist() == [[[9, 10, 11]]]
        untouched = machine.submit(CopyOut("A", 0, 0, 1, 2, 3))
        machine.wait(untouched)
        assert untouched.result is not None
        assert not untouched.result.any()

    def test_16_bit_copies_use_the_low_half_of_each_host_word(self) -> None:
        machine = Machine(program(scaler()))
        machine.submit(CopyIn("A", 0, 0, 1, 1, 3, words(0xAAAA0001, 2, 3), bits=16))
        out = machine.submit(CopyOut("A", 0, 0, 1, 1, 3, bits=16))
        machine.wait(out)
        assert out.result is not None
        assert out.result.reshape(-1).tolist() == [1, 2, 3]
        assert machine.pe(0, 0).memory.read(256, 6) == b"\1\0\2\0\3\0"

    def test_a_launch_begins_on_all_pes_in_the_same_cycle(self) -> None:
        f = Fn("main")
        f.do("tsc_enable")
        f.do("unblock_cmd_stream")
        machine = Machine(program(image(f.ret(), exports=("main",)), [[0] * 5] * 3))
        handle = machine.submit(Launch("main"))
        machine.wait(handle)
        assert {pe.counter._start for pe in machine.elements} == {handle.start_cycle}

    def test_a_launch_ends_when_the_last_pe_unblocks(self) -> None:
        f = Fn("main")
        slow, join = f.block(), f.block()
        x = f.do("x_coord", result=U16)
        assert x is not None
        f.branch(x, slow, join)
        f.at(slow)
        f.loop(100, lambda i: None)
        f.jump(join)
        f.at(join)
        f.do("unblock_cmd_stream")
        machine = Machine(program(image(f.ret(), exports=("main",)), [[0, 0]]))
        machine.wait(machine.submit(Launch("main")))
        (window,) = machine.launch_windows
        assert window.end_cycle - window.start_cycle > 1000

    def test_a_copy_waits_until_the_task_that_unblocked_has_ended(self) -> None:
        f = Fn("main")
        f.do("unblock_cmd_stream")
        f.loop(50, lambda i: None)
        f.store(U32, 256, 7)
        target = image(f.ret(), exports=("main",))
        tensor(target, "A", 256, 20)
        machine = Machine(program(target))
        machine.submit(Launch("main"))
        out = machine.submit(CopyOut("A", 0, 0, 1, 1, 1))
        machine.wait(out)
        assert out.result is not None
        assert out.result.tolist() == [[[7]]]

    def test_symbols_are_readable(self) -> None:
        machine = Machine(program(scaler()))
        assert machine.read_symbol(0, 0, "A") == (256).to_bytes(2, "little")
        assert machine.find_global(0, 0, "nothing") is None

    @pytest.mark.parametrize(
        ("command", "text"),
        [
            (Launch("nothing"), "no PE exports a function 'nothing'"),
            (Launch("scale"), r"'scale' takes 1 argument\(s\), not 0"),
            (CopyOut("A", 1, 0, 1, 1, 4), r"region \(1, 0\) 1x1 is not inside the program rectangle of 1x1 PEs"),
        ],
    )
    def test_bad_commands_are_refused_at_once(self, command: Any, text: str) -> None:
        with pytest.raises(Fault, match=text):
            Machine(program(scaler())).submit(command)

    def test_a_copy_beyond_memory_is_a_fault(self) -> None:
        machine = Machine(program(scaler()))
        handle = machine.submit(CopyOut("A", 0, 0, 1, 1, 20000))
        with pytest.raises(Fault, match=r"copy from 'A' of PE\(0,0\).*outside the PE's memory"):
            machine.wait(handle)


def echo() -> ir.Program:
    """Adds 1 to each word of color 0 by a data task, and sends it back on color 1."""
    t = Fn("t", U32, task=True)
    t.dsd("mov32", fabout(3, 1, 1), ("scalar", t.bin("add", U32, t.params[0], 1), U32))
    queues = [ir.QueueInit("input", 2, 0), ir.QueueInit("output", 3, 1)]
    target = image(t.ret(), queues=queues, tasks=[TaskBinding("data", 2, "t")])
    return program(target, [[0, 0]], stream_colors={0: "h2d", 1: "d2h"})


class TestStreams:
    def test_words_go_in_and_come_back(self) -> None:
        machine = Machine(echo())
        data = np.arange(10, dtype=np.uint32).reshape(1, 2, 5)
        machine.submit(StreamIn(0, 0, 0, 2, 1, data))
        out = machine.submit(StreamOut(1, 0, 0, 2, 1, 5))
        machine.wait(out)
        assert out.result is not None
        assert np.array_equal(out.result, data + 1)

    def test_a_blocking_stream_in_counts_as_buffered_when_nobody_takes_its_words(self) -> None:
        machine = Machine(echo())
        data = np.arange(200, dtype=np.uint32).reshape(1, 2, 100)
        machine.wait(machine.submit(StreamIn(0, 0, 0, 2, 1, data)))
        out = machine.submit(StreamOut(1, 0, 0, 2, 1, 100))
        machine.wait(out)
        assert out.result is not None
        assert np.array_equal(out.result, data + 1)

    def test_two_reads_of_one_stream_share_its_words_in_order(self) -> None:
        machine = Machine(echo())
        machine.submit(StreamIn(0, 0, 0, 1, 1, words(1, 2, 3, 4)))
        first = machine.submit(StreamOut(1, 0, 0, 1, 1, 3))
        second = machine.submit(StreamOut(1, 0, 0, 1, 1, 1))
        machine.wait(second)
        assert first.result is not None
        assert second.result is not None
        assert first.result.reshape(-1).tolist() + second.result.reshape(-1).tolist() == [2, 3, 4, 5]

    def test_too_few_words_are_a_deadlock_that_names_the_stream(self) -> None:
        machine = Machine(echo())
        machine.submit(StreamIn(0, 0, 0, 1, 1, words(1, 2)))
        out = machine.submit(StreamOut(1, 0, 0, 1, 1, 3))
        with pytest.raises(Deadlock, match=r"stream from the device on color 1 .*: 2 of 3 words arrived"):
            machine.wait(out)

    def test_a_launch_that_needs_the_stream_behind_it_is_told_so(self) -> None:
        f = Fn("main")
        f.dsd("fmovs", mem(0, 8), fabin(2, 0, 8))
        f.do("unblock_cmd_stream")
        queues = [ir.QueueInit("input", 2, 0)]
        machine = Machine(program(image(f.ret(), exports=("main",), queues=queues), [[0, 0]], stream_colors={0: "h2d"}))
        machine.submit(Launch("main"))
        with pytest.raises(Deadlock) as caught:
            machine.wait(machine.submit(StreamIn(0, 0, 0, 2, 1, np.arange(16, dtype=np.uint32).reshape(1, 2, 8))))
        text = str(caught.value)
        assert "PE(0..1,0) need what the stream to the device on color 0 brings, which waits behind the launch" in text
        assert "no PE's route leads it" not in text


class TestDeadlocks:
    def test_a_missing_unblock_names_the_pes(self) -> None:
        f = Fn("main")
        machine = Machine(program(image(f.ret(), exports=("main",)), [[0, 0]]))
        handle = machine.submit(Launch("main"))
        with pytest.raises(Deadlock) as caught:
            machine.wait(handle)
        report = caught.value.report
        assert report.never_unblocked == (PePosition(0, 0), PePosition(1, 0))
        assert "never called unblock_cmd_stream: PE(0..1,0)" in str(caught.value)
        assert "a launch ends when every PE has called unblock_cmd_stream" in str(caught.value)

    def test_a_missing_sender_names_line_and_queue(self) -> None:
        f = Fn("main")
        f.line = 33
        f.dsd("fmovs", mem(0, 8), fabin(2, 4, 8))
        f.do("unblock_cmd_stream")
        machine = Machine(program(image(f.ret(), exports=("main",), queues=[ir.QueueInit("input", 2, 4)])))
        handle = machine.submit(Launch("main"))
        with pytest.raises(Deadlock) as caught:
            machine.wait(handle)
        text = str(caught.value)
        assert "in task main at pe.csl:33:1: @fmovs needs 8 more of 8 wavelets of color 4 on input queue 2" in text
        assert "color 4: no PE's route leads it to PE(0,0)" in text

    def test_a_missing_receiver_shows_where_the_wavelets_are(self) -> None:
        f = Fn("main")
        f.dsd("fmovs", fabout(3, 4, 100), mem(0, 100))
        f.do("unblock_cmd_stream")
        idle = Fn("main")
        idle.do("unblock_cmd_stream")
        queues = [ir.QueueInit("output", 3, 4)]
        images = [
            image(f.ret(), exports=("main",), queues=queues),
            image(idle.ret(), exports=("main",), queues=[ir.QueueInit("input", 2, 4)]),
        ]
        colors = [[{4: ColorConfig(rx=RAMP, tx=ir.EAST)}, {4: ColorConfig(rx=ir.WEST, tx=RAMP)}]]
        machine = Machine(program(images, [[0, 1]], colors))
        handle = machine.submit(Launch("main"))
        with pytest.raises(Deadlock) as caught:
            machine.wait(handle)
        text = str(caught.value)
        assert "wavelets of color 4: output queue 3 is full" in text
        assert "color 4 has no receiver on PE(1,0): no data task is bound to it and no DSD operation reads it" in text
        assert caught.value.report.never_unblocked == (PePosition(0, 0),)

    def test_circular_waits_name_both_sides(self) -> None:
        """Each PE waits for the other one's word before it sends its own."""

        def side(into: int, out: int) -> ir.Image:
            f = Fn("main")
            f.dsd("mov32", mem(0, 1), fabin(2, into, 1))
            f.dsd("mov32", fabout(3, out, 1), mem(0, 1))
            f.do("unblock_cmd_stream")
            queues = [ir.QueueInit("input", 2, into), ir.QueueInit("output", 3, out)]
            return image(f.ret(), exports=("main",), queues=queues)

        colors = [
            [
                {4: ColorConfig(rx=RAMP, tx=ir.EAST), 5: ColorConfig(rx=ir.EAST, tx=RAMP)},
                {4: ColorConfig(rx=ir.WEST, tx=RAMP), 5: ColorConfig(rx=RAMP, tx=ir.WEST)},
            ]
        ]
        machine = Machine(program([side(5, 4), side(4, 5)], [[0, 1]], colors))
        handle = machine.submit(Launch("main"))
        with pytest.raises(Deadlock) as caught:
            machine.wait(handle)
        assert {stuck.pe for stuck in caught.value.report.stuck_pes} == {PePosition(0, 0), PePosition(1, 0)}
        (circle,) = caught.value.report.circles
        assert [pe for pe, _ in circle] == [PePosition(0, 0), PePosition(1, 0)]
        assert "waits for color 5" in circle[0][1]
        assert "waits for color 4" in circle[1][1]

    def test_a_blocked_task_is_reported(self) -> None:
        f = Fn("main")
        f.do("block", 10, text="task")
        f.do("activate", 10)
        t = Fn("finish", task=True)
        t.do("unblock_cmd_stream")
        tasks = [TaskBinding("local", 10, "finish")]
        machine = Machine(program(image(f.ret(), t.ret(), exports=("main",), tasks=tasks)))
        handle = machine.submit(Launch("main"))
        with pytest.raises(Deadlock, match=r"local task finish \(id 10\) is activated but blocked"):
            machine.wait(handle)

    def test_two_senders_into_full_queues_are_a_circle(self) -> None:
        """Each PE sends more than the buffers hold before it receives."""

        def side(into: int, out: int) -> ir.Image:
            f = Fn("main")
            f.dsd("mov32", fabout(3, out, 100), mem(0, 100))
            f.dsd("mov32", mem(0, 100), fabin(2, into, 100))
            f.do("unblock_cmd_stream")
            queues = [ir.QueueInit("input", 2, into), ir.QueueInit("output", 3, out)]
            return image(f.ret(), exports=("main",), queues=queues)

        colors = [
            [
                {4: ColorConfig(rx=RAMP, tx=ir.EAST), 5: ColorConfig(rx=ir.EAST, tx=RAMP)},
                {4: ColorConfig(rx=ir.WEST, tx=RAMP), 5: ColorConfig(rx=RAMP, tx=ir.WEST)},
            ]
        ]
        machine = Machine(program([side(5, 4), side(4, 5)], [[0, 1]], colors))
        handle = machine.submit(Launch("main"))
        with pytest.raises(Deadlock) as caught:
            machine.wait(handle)
        (circle,) = caught.value.report.circles
        assert [wait.partition(") ")[2] for _, wait in circle] == [
            "waits for room for color 4",
            "waits for room for color 5",
        ]

    def test_an_idle_receiver_is_told_who_could_send(self) -> None:
        """The data task of the right PE unblocks the stream, but the left PE never sends."""
        idle = Fn("main")
        idle.do("unblock_cmd_stream")
        silent = Fn("main")
        t = Fn("recv", U32, task=True)
        t.do("unblock_cmd_stream")
        images = [
            image(idle.ret(), exports=("main",), queues=[ir.QueueInit("output", 3, 4)]),
            image(
                silent.ret(),
                t.ret(),
                exports=("main",),
                queues=[ir.QueueInit("input", 2, 4)],
                tasks=[TaskBinding("data", 2, "recv")],
            ),
        ]
        colors = [[{4: ColorConfig(rx=RAMP, tx=ir.EAST)}, {4: ColorConfig(rx=ir.WEST, tx=RAMP)}]]
        machine = Machine(program(images, [[0, 1]], colors))
        handle = machine.submit(Launch("main"))
        with pytest.raises(Deadlock) as caught:
            machine.wait(handle)
        text = str(caught.value)
        assert "data task recv (input queue 2): no wavelet waits for it" in text
        assert "color 4: PE(0,0) could send it, but never did, and has nothing to do" in text


class TestLimits:
    def test_a_rectangle_beyond_the_limit_is_refused_before_memory_is_taken(self) -> None:
        with pytest.raises(BudgetExceeded, match="3 by 2 PEs is too large to simulate: at most 5 PEs"):
            Machine(program(scaler(), [[0, 0, 0], [0, 0, 0]]), limits=Limits(max_pes=5))

    def test_a_run_out_of_budget_says_where_its_pes_are(self) -> None:
        f = Fn("main")
        f.line = 21
        f.loop(60000, lambda i: None)
        machine = Machine(program(image(f.ret(), exports=("main",)), [[0, 0]]), limits=Limits(max_cycles=2000))
        handle = machine.submit(Launch("main"))
        with pytest.raises(BudgetExceeded, match=r"2000 cycles\n  PE\(0\.\.1,0\): in task main at pe\.csl:21"):
            machine.wait(handle)

    def test_a_flood_of_lines_is_counted_but_not_kept(self) -> None:
        f = Fn("main")
        f.do("print_text", text="line\n" * 5)
        f.do("unblock_cmd_stream")
        machine = Machine(program(image(f.ret(), exports=("main",))), limits=Limits(log_lines=2))
        machine.wait(machine.submit(Launch("main")))
        assert machine.sim_log[2:] == ["... and 3 more lines, which were not kept"]


class TestLog:
    def test_lines_carry_the_cycle_and_come_in_order(self) -> None:
        f = Fn("main")
        f.do("print_text", text="hello ")
        f.store(ir.U8, 0, 65)
        f.do("print", 0, 1)
        f.do("print_text", text="\nsecond\nnever finished")
        f.do("unblock_cmd_stream")
        machine = Machine(program(image(f.ret(), exports=("main",))))
        machine.wait(machine.submit(Launch("main")))
        lines = machine.sim_log
        assert [line.split(" ", 1)[1] for line in lines] == ["hello A", "second"]
        assert all(line.startswith("@") for line in lines)


def test_two_runs_are_identical() -> None:
    def outcome() -> tuple[Any, ...]:
        machine = Machine(ping_pong())
        machine.wait(machine.submit(Launch("main")))
        machine.drain()
        return machine.cycle, machine.launch_windows, [pe.memory.read(0, 1024) for pe in machine.elements]

    assert outcome() == outcome()
