"""Router registers seen through pointers (WSE-2 layout)."""

from __future__ import annotations

import pytest
from helpers.ir_programs import Fn, image, program

from fabrica_bench.csl.ir import EAST, NORTH, RAMP, U16, WEST, ColorConfig, SwitchPosition
from fabrica_bench.wse.commands import Launch
from fabrica_bench.wse.faults import Fault
from fabrica_bench.wse.machine import Machine

CONFIG = ColorConfig(
    rx=WEST,
    tx=EAST | RAMP,
    positions=(SwitchPosition(rx=RAMP), SwitchPosition(tx=NORTH), None),
    ring_mode=True,
    pop_mode="pop_on_advance",
)


def machine(f: Fn | None = None, arch: str = "wse2") -> Machine:
    f = f or Fn("main")
    f.do("unblock_cmd_stream")
    return Machine(program(image(f.ret(), exports=("main",)), colors=[[{7: CONFIG}]], arch=arch))


def test_route_word_of_a_configuration() -> None:
    assert machine().pe(0, 0).registers[0x7F27] == 0x20 | 0x12 | 2 << 12


def test_switch_word_of_a_configuration() -> None:
    assert machine().pe(0, 0).registers[0x7F47] == (8 | 4) | 3 << 4 | 5 << 8 | 1 << 12


def test_writing_a_word_back_changes_nothing() -> None:
    target = machine()
    pe = target.pe(0, 0)
    state = pe.router.color_state(7)
    before = (list(state.rx), list(state.tx), list(state.valid), state.current, state.ring, state.pop_mode)
    for address in (0x7F27, 0x7F47):
        pe.registers[address] = pe.registers[address]
    assert (list(state.rx), list(state.tx), list(state.valid), state.current, state.ring, state.pop_mode) == before


def test_an_invalid_position_keeps_its_select_bit() -> None:
    pe = machine().pe(0, 0)
    state = pe.router.color_state(7)
    pe.registers[0x7F47] = pe.registers[0x7F47] & 0xFFF8 | 5
    assert not state.valid[1]
    pe.registers[0x7F47] = pe.registers[0x7F47] & 0xFFF8 | 4
    assert state.valid[1]
    assert state.rx[1] == RAMP


def test_code_reaches_registers_through_pointers() -> None:
    f = Fn("main")
    address = f.reg(U16)
    f.move(address, 2 * 0x7F27)
    f.store(U16, address, f.bin("or", U16, f.load(U16, address), 1 << 14))
    target = machine(f)
    target.wait(target.submit(Launch("main")))
    assert target.pe(0, 0).router.color_state(7).teardown


def test_unknown_registers_are_a_fault() -> None:
    f = Fn("main")
    address = f.reg(U16)
    f.move(address, 2 * 0x7E00)
    f.store(U16, address, 1)
    target = machine(f)
    handle = target.submit(Launch("main"))
    with pytest.raises(Fault, match="register word 0x7e00 through a pointer"):
        target.wait(handle)


def test_set_config_remembers_words_without_a_known_meaning() -> None:
    f = Fn("main")
    f.do("config_write", 0x7E00, 42)
    f.store(U16, 0, f.do("config_read", 0x7E00, result=U16))
    target = machine(f)
    target.wait(target.submit(Launch("main")))
    assert target.pe(0, 0).memory.read_int(0, 2) == 42
