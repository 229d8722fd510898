"""Routers: switch positions, control wavelets, filters, multicast, back-pressure, color swap, teardown."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from helpers.ir_programs import Fn, fabin, fabout, image, mem, program

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import EAST, NORTH, RAMP, SOUTH, U16, WEST, ColorConfig, FilterConfig, SwitchPosition
from fabrica_bench.wse import control
from fabrica_bench.wse.commands import Launch
from fabrica_bench.wse.faults import Deadlock, Fault
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.selection import EXECUTORS, open_machine

C = 4  # the color under test
BUFFER = 1024


def idle_image() -> ir.Image:
    f = Fn("main")
    f.do("unblock_cmd_stream")
    return image(f.ret(), exports=("main",), queues=_queues())


def _queues() -> list[ir.QueueInit]:
    return [ir.QueueInit("input", 2, C), ir.QueueInit("output", 3, C)]


def sender(words: list[tuple[int, bool]]) -> ir.Image:
    """Sends (payload, is control) words on color C, one DSD operation each, then unblocks."""
    f = Fn("main")
    for word, is_control in words:
        f.dsd("mov32", fabout(3, C, 1, control=is_control), ("scalar", word, ir.U32))
    f.do("unblock_cmd_stream")
    return image(f.ret(), exports=("main",), queues=_queues())


def recorder() -> ir.Image:
    """Stores each data word of color C from BUFFER on; the count is at BUFFER - 2. Control task 5 stores too."""
    main = Fn("main")
    main.do("unblock_cmd_stream")
    main.ret()

    def store(f: Fn) -> None:
        count = f.load(U16, BUFFER - 2)
        place = f.bin("add", U16, f.bin("mul", U16, count, 4), BUFFER)
        f.store(ir.U32, place, f.params[0])
        f.store(U16, BUFFER - 2, f.bin("add", U16, count, 1))
        f.ret()

    data = Fn("data", ir.U32, task=True)
    store(data)
    ctrl = Fn("ctrl", ir.U32, task=True)
    store(ctrl)
    return image(
        main, data, ctrl, exports=("main",), queues=_queues(),
        tasks=[ir.TaskBinding("data", 2, "data"), ir.TaskBinding("control", 5, "ctrl")],
    )  # fmt: skip


def received(machine: Machine, x: int, y: int) -> list[int]:
    memory = machine.pe(x, y).memory
    count = memory.read_int(BUFFER - 2, 2)
    return [memory.read_int(BUFFER + 4 * k, 4) for k in range(count)]


def cross(words: list[tuple[int, bool]], config: ColorConfig) -> dict[str, list[int]]:
    """A 3x3 rectangle: the middle PE sends `words` on color C with `config`; its neighbours record what arrives."""
    tiles = [[0, 1, 0], [1, 2, 1], [0, 1, 0]]
    colors: list[list[dict[int, ColorConfig]]] = [[{} for _ in range(3)] for _ in range(3)]
    colors[1][1] = {C: config}
    for x, y, port in ((1, 0, SOUTH), (1, 2, NORTH), (0, 1, EAST), (2, 1, WEST)):
        colors[y][x] = {C: ColorConfig(rx=port, tx=RAMP)}
    machine = Machine(program([idle_image(), recorder(), sender(words)], tiles, colors))
    machine.submit(Launch("main"))
    machine.drain()
    return {
        "N": received(machine, 1, 0),
        "S": received(machine, 1, 2),
        "W": received(machine, 0, 1),
        "E": received(machine, 2, 1),
    }


RING = ColorConfig(
    rx=RAMP,
    tx=NORTH,
    positions=(SwitchPosition(tx=WEST), SwitchPosition(tx=EAST), SwitchPosition(tx=SOUTH)),
    current=1,
    ring_mode=True,
)
ADVANCE_ONLY = control.encode([(control.Opcode.ADVANCE, True)])


def advance_with_data(data: int) -> int:
    """One SWITCH_ADV, delivered, naming control task 5, with 16 bits of data."""
    return control.encode([(control.Opcode.ADVANCE, False)], task=5, data=data)


class TestSwitches:
    """The two walk-throughs of the SDK's switch tutorial: positions {0: N, 1: W, 2: E, 3: S}, start 1, ring."""

    def test_advance_then_data_goes_to_the_next_position(self) -> None:
        words: list[tuple[int, bool]] = []
        for value in (0, 2, 4, 6):
            words += [(ADVANCE_ONLY, True), (value, False)]
        assert cross(words, RING) == {"E": [0], "S": [2], "N": [4], "W": [6]}

    def test_a_control_wavelet_takes_the_position_in_force_when_it_arrives(self) -> None:
        words = [(advance_with_data(value), True) for value in (1, 2, 4, 6)]
        got = {way: [word & 0xFFFF for word in found] for way, found in cross(words, RING).items()}
        assert got == {"W": [1], "E": [2], "S": [4], "N": [6]}

    def test_without_ring_mode_the_last_position_stays(self) -> None:
        words = [(ADVANCE_ONLY, True)] * 3 + [(7, False), (8, False)]
        assert cross(words, RING._replace(ring_mode=False))["S"] == [7, 8]

    def test_reset_returns_to_position_0(self) -> None:
        reset = control.encode([(control.Opcode.RESET, True)])
        assert cross([(reset, True), (9, False)], RING)["N"] == [9]

    def test_positions_are_cumulative(self) -> None:
        config = ColorConfig(
            rx=WEST, tx=EAST, positions=(SwitchPosition(tx=NORTH), SwitchPosition(rx=RAMP), None), current=2
        )
        assert cross([(3, False)], config)["N"] == [3]

    def test_advance_switch_moves_after_the_last_wavelet_of_the_operation(self) -> None:
        f = Fn("main")
        f.dsd("mov32", fabout(3, C, 2, advance_switch=True), ("scalar", 1, ir.U32))
        f.dsd("mov32", fabout(3, C, 1), ("scalar", 2, ir.U32))
        f.do("unblock_cmd_stream")
        tiles = [[0, 1, 0], [1, 2, 1], [0, 1, 0]]
        colors: list[list[dict[int, ColorConfig]]] = [[{} for _ in range(3)] for _ in range(3)]
        colors[1][1] = {C: RING}
        for x, y, port in ((1, 0, SOUTH), (1, 2, NORTH), (0, 1, EAST), (2, 1, WEST)):
            colors[y][x] = {C: ColorConfig(rx=port, tx=RAMP)}
        images = [idle_image(), recorder(), image(f.ret(), exports=("main",), queues=_queues())]
        machine = Machine(program(images, tiles, colors))
        machine.submit(Launch("main"))
        machine.drain()
        assert received(machine, 0, 1) == [1, 1]
        assert received(machine, 2, 1) == [2]


class TestControlPayload:
    def test_popping_follows_the_documented_constant(self) -> None:
        assert control.pop(0x09DF9249) == 0x091F9249

    def test_encoding_follows_the_documented_constants(self) -> None:
        assert control.encode([(control.Opcode.TEARDOWN, True)]) == 0x09DF9249
        assert control.encode([(control.Opcode.ADVANCE, True)]) == 0x095F9249
        assert control.encode([(0, True), (control.Opcode.ADVANCE, True)], task=0) == 0x0B009249

    @pytest.mark.parametrize(("mode", "expected"), [("no_pop", 0x095F9249), ("always_pop", control.pop(0x095F9249))])
    def test_pop_mode_decides_what_the_next_router_sees(self, mode: Any, expected: int) -> None:
        # Two routers in a row with two positions each; the second advances only if the command is still there.
        assert expected in (0x095F9249, 0x091F9249)
        second = ColorConfig(rx=WEST, tx=EAST, positions=(SwitchPosition(tx=RAMP), None, None))
        first = ColorConfig(rx=RAMP, tx=EAST, pop_mode=mode)
        colors = [[{C: first}, {C: second}, {C: ColorConfig(rx=WEST, tx=RAMP)}]]
        machine = Machine(
            program([sender([(0x095F9249, True), (1, False)]), recorder(), recorder()], [[0, 1, 2]], colors)
        )
        machine.submit(Launch("main"))
        machine.drain()
        place = (1, 0) if mode == "no_pop" else (2, 0)
        assert received(machine, *place) == [1]

    def test_ce_ignore_suppresses_the_copy_for_the_compute_element(self) -> None:
        loopback = ColorConfig(rx=RAMP, tx=RAMP | EAST)
        colors = [[{C: loopback}, {C: ColorConfig(rx=WEST, tx=RAMP)}]]
        word = control.encode([(control.Opcode.NOP, True)], task=5)
        machine = Machine(program([sender([(word, True)]), recorder()], [[0, 1]], colors))
        machine.submit(Launch("main"))
        machine.drain()
        # Neither copy is delivered: the command is not popped, so the second router suppresses its own copy too.
        assert received(machine, 1, 0) == []


class TestFilters:
    def run(self, filter_: FilterConfig, words: list[tuple[int, bool]]) -> list[int]:
        receiver = ColorConfig(rx=WEST, tx=RAMP, filter=filter_)
        colors = [[{C: ColorConfig(rx=RAMP, tx=EAST)}, {C: receiver}]]
        machine = Machine(program([sender(words), recorder()], [[0, 1]], colors))
        machine.submit(Launch("main"))
        machine.drain()
        return received(machine, 1, 0)

    def test_range_filter_keeps_indices_inside(self) -> None:
        words = [(index << 16 | 1, False) for index in range(6)]
        assert [word >> 16 for word in self.run(FilterConfig("range", min_idx=2, max_idx=4), words)] == [2, 3, 4]

    def test_counter_filter_keeps_the_first_two_of_every_five(self) -> None:
        filter_ = FilterConfig("counter", count_data=True, limit1=4, max_counter=1)
        assert self.run(filter_, [(k, False) for k in range(12)]) == [0, 1, 5, 6, 10, 11]

    def test_counter_starts_at_its_initial_value(self) -> None:
        filter_ = FilterConfig("counter", count_data=True, init_counter=2, limit1=2, max_counter=0)
        assert self.run(filter_, [(k, False) for k in range(7)]) == [1, 4]

    def test_sparse_counter_becomes_transparent(self) -> None:
        filter_ = FilterConfig("sparse_counter", count_data=True, init_counter=0, limit1=2, max_counter=0)
        assert self.run(filter_, [(k, False) for k in range(6)]) == [0, 3, 4, 5]


class TestTransport:
    @pytest.mark.parametrize(("arch", "stage"), [("wse2", 6), ("wse3", 9)])
    def test_a_relay_chain_takes_the_published_cycles_per_stage(self, arch: Any, stage: int) -> None:
        """Each PE passes words on with one running operation: 2 ramps + 1 issue + 1 hop (LW-logs, HPDC'24)."""
        count = 8
        images = [sender_on(C), relay_image(C, C + 1), relay_image(C + 1, C), receiver_image(C)]
        tiles = [[0, *(1 + k % 2 for k in range(count)), 3]]
        row: list[dict[int, ColorConfig]] = []
        for x in range(count + 2):
            into, out = (C, C + 1) if x % 2 else (C + 1, C)
            config = {out: ColorConfig(rx=RAMP, tx=EAST)} if x <= count else {}
            if x:
                config[into] = ColorConfig(rx=WEST, tx=RAMP)
            row.append(config)
        colors = [row]
        sink = Landing()
        machine = Machine(program(images, tiles, colors, arch=arch), trace=sink)
        machine.submit(Launch("main"))
        machine.drain()
        landings = [cycle for x, cycle in sorted(sink.first_ramp.items())]
        assert [b - a for a, b in itertools.pairwise(landings)] == [stage] * (len(landings) - 1)
        assert len(landings) == count + 1

    def test_a_link_carries_one_wavelet_per_cycle(self) -> None:
        f = Fn("main")
        f.dsd("mov32", fabout(3, C, 50), mem(64, 50))
        f.do("unblock_cmd_stream")
        receive = Fn("main")
        receive.dsd("mov32", mem(2048, 50), fabin(2, C, 50))
        receive.do("unblock_cmd_stream")
        images = [image(g.ret(), exports=("main",), queues=_queues()) for g in (f, receive)]
        colors = [[{C: ColorConfig(rx=RAMP, tx=EAST)}, {C: ColorConfig(rx=WEST, tx=RAMP)}]]
        sink = Landing()
        machine = Machine(program(images, [[0, 1]], colors), trace=sink)
        machine.submit(Launch("main"))
        machine.drain()
        cycles = sink.ramp[1, 0]
        assert len(cycles) == 50
        assert [b - a for a, b in itertools.pairwise(cycles)] == [1] * 49

    def test_multicast_reaches_every_branch(self) -> None:
        assert cross([(5, False)], ColorConfig(rx=RAMP, tx=NORTH | SOUTH | EAST | WEST)) == {way: [5] for way in "NSWE"}

    def test_color_swap_changes_the_color_of_what_comes_in(self) -> None:
        receiver = {5: ColorConfig(rx=WEST, tx=RAMP, color_swap_x=True)}
        f = Fn("main")
        f.do("unblock_cmd_stream")
        data = Fn("data", ir.U32, task=True)
        data.store(ir.U32, BUFFER, data.params[0])
        data.ret()
        target = image(f.ret(), data, exports=("main",), tasks=[ir.TaskBinding("data", 5, "data")])
        colors = [[{C: ColorConfig(rx=RAMP, tx=EAST)}, receiver]]
        machine = Machine(program([sender([(77, False)]), target], [[0, 1]], colors, arch="wse2"))
        machine.submit(Launch("main"))
        machine.drain()
        assert machine.pe(1, 0).memory.read_int(BUFFER, 4) == 77

    def test_a_wavelet_without_any_route_is_a_fault(self) -> None:
        machine = Machine(program([sender([(1, False)])]))
        machine.submit(Launch("main"))
        with pytest.raises(Fault, match="no route for this color"):
            machine.drain()

    @pytest.mark.parametrize("executor", EXECUTORS)
    def test_wavelets_that_leave_the_rectangle_are_lost_where_memcpy_surrounds_it(self, executor: str) -> None:
        colors = [[{C: ColorConfig(rx=RAMP, tx=EAST)}]]
        machine = open_machine(program([sender([(k, False) for k in range(40)])], [[0]], colors), executor=executor)
        handle = machine.submit(Launch("main"))
        machine.drain()
        assert handle.done

    def test_back_pressure_beyond_the_edge_is_explained(self) -> None:
        colors = [[{C: ColorConfig(rx=RAMP, tx=EAST)}]]
        alone = program([sender([(k, False) for k in range(40)])], [[0]], colors)
        alone.memcpy = False
        machine = Machine(alone)
        machine.submit(Launch("main"))
        with pytest.raises(Deadlock, match="EAST leads out of the program rectangle"):
            machine.drain()


def sender_on(color: int) -> ir.Image:
    f = Fn("main")
    f.dsd("mov32", fabout(3, color, 1), ("scalar", 9, ir.U32))
    f.do("unblock_cmd_stream")
    return image(f.ret(), exports=("main",), queues=[ir.QueueInit("output", 3, color)])


def relay_image(into: int, out: int) -> ir.Image:
    f = Fn("main")
    f.dsd("mov32", fabout(3, out, 1), fabin(2, into, 1))
    f.do("unblock_cmd_stream")
    queues = [ir.QueueInit("input", 2, into), ir.QueueInit("output", 3, out)]
    return image(f.ret(), exports=("main",), queues=queues)


def receiver_image(color: int) -> ir.Image:
    f = Fn("main")
    f.dsd("mov32", mem(BUFFER, 1), fabin(2, color, 1))
    f.do("unblock_cmd_stream")
    return image(f.ret(), exports=("main",), queues=[ir.QueueInit("input", 2, color)])


class Landing:
    """Trace sink that notes when wavelets are delivered to compute elements."""

    def __init__(self) -> None:
        self.ramp: dict[tuple[int, int], list[int]] = {}

    @property
    def first_ramp(self) -> dict[int, int]:
        return {x: cycles[0] for (x, _), cycles in self.ramp.items()}

    def wavelet(self, cycle: int, x: int, y: int, color: int, direction: int, word: int, control: bool) -> None:
        if direction == RAMP:
            self.ramp.setdefault((x, y), []).append(cycle)

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


def test_teardown_runs_the_handler_which_reroutes() -> None:
    """The middle PE passes the color on; a TEARDOWN command makes its handler deliver to itself instead."""
    handler = Fn("handler")
    handler.do("color_set_routes", C, WEST, RAMP)
    handler.do("teardown_exit", C)
    handler.ret()
    base = recorder()
    middle = image(
        *base.functions.values(), handler, exports=("main",), queues=_queues(), tasks=base.tasks,
        teardown_handlers={C: "handler"},
    )  # fmt: skip
    word = control.encode([(control.Opcode.TEARDOWN, True)])
    source = ColorConfig(rx=RAMP, tx=EAST, pop_mode="no_pop")
    # The sender's own router executes the first command as well, so its list starts with a NOP that it pops.
    source = source._replace(pop_mode="always_pop")
    word = control.encode([(control.Opcode.NOP, True), (control.Opcode.TEARDOWN, True)])
    through = ColorConfig(rx=WEST, tx=EAST, pop_mode="always_pop")
    colors = [[{C: source}, {C: through}, {C: ColorConfig(rx=WEST, tx=RAMP)}]]
    words = [(1, False), (word, True), (2, False)]
    machine = Machine(program([sender(words), middle, recorder()], [[0, 1, 2]], colors))
    machine.submit(Launch("main"))
    machine.drain()
    assert received(machine, 2, 0) == [1]
    assert received(machine, 1, 0) == [2]
