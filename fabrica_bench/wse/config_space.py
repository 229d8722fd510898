"""Memory-mapped router registers, for programs that read and write them through pointers or `@get_config`.

Only the WSE-2 registers whose layout a published program explains are known: one word per color from word address
0x7f20 (route of position 0, color swap, pop mode, teardown) and one from 0x7f40 (switch positions). Other words can be
written and read back with `@set_config` and `@get_config`, without effect; through a pointer they are a fault.

Register accesses through pointers are not synchronised with the router's clock: what they do to a color that carries
traffic at that moment is undefined, as on the hardware, where a color is reconfigured in teardown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fabrica_bench.csl.ir import EAST, NORTH, RAMP, SOUTH, WEST
from fabrica_bench.csl.registers import COLORS, ROUTES, SWITCHES
from fabrica_bench.wse.memory import AccessError
from fabrica_bench.wse.router import ColorState

if TYPE_CHECKING:
    from fabrica_bench.wse.element import Element

CONFIG_START: Final = 0xC000  # first byte address that is not memory
_DIRECTIONS: Final = (WEST, EAST, SOUTH, NORTH, RAMP)  # bit or code 0..4 in the registers
_INVALID: Final = 5
_SWAP_Y, _SWAP_X, _TEARDOWN = 1 << 10, 1 << 11, 1 << 14


class ConfigSpace:
    """The register words of one PE, indexed by word address like the 16-bit memory views."""

    __slots__ = ("_pe", "_signed", "_switch_words", "_words")

    def __init__(self, pe: Element, words: dict[int, int], signed: bool = False) -> None:
        self._pe = pe
        self._words = words
        self._signed = signed
        #: last written switch words: an invalid position still holds the select bit of its neighbour field
        self._switch_words: dict[int, int] = {}

    def __getitem__(self, word_address: int) -> int:
        value = self.read(word_address)
        if value is None:
            raise AccessError(_unknown(word_address))
        return value - 65536 if self._signed and value & 0x8000 else value

    def __setitem__(self, word_address: int, value: int) -> None:
        if not self.write(word_address, value & 0xFFFF):
            raise AccessError(_unknown(word_address))

    def read(self, word_address: int) -> int | None:
        """Value of a known register or of a word written before, else None."""
        found = self._color_of(word_address)
        if found is None:
            return self._words.get(word_address)
        block, color = found
        state = self._pe.router.color_state(color)
        return self._route_word(state) if block == ROUTES else self._switch_word(state)

    def write(self, word_address: int, value: int) -> bool:
        """Change a known register; False if the word is unknown."""
        found = self._color_of(word_address)
        if found is None:
            return False
        block, color = found
        state = self._pe.router.color_state(color)
        if block == ROUTES:
            self._set_route(state, value)
        else:
            self._set_switch(state, value)
        state.resolve()
        self._pe.fabric.wake_router(self._pe.router, self._pe.fabric.now + 1)
        return True

    def _color_of(self, word_address: int) -> tuple[int, int] | None:
        if self._pe.is_wse2:
            for block in (ROUTES, SWITCHES):
                if block <= word_address < block + COLORS:
                    return block, word_address - block
        return None

    # ------------------------------------------------------------------------------------------ route words

    def _route_word(self, state: ColorState) -> int:
        rx, tx, _ = state.overrides[0]
        word = sum(1 << bit for bit, way in enumerate(_DIRECTIONS) if tx & way)
        word |= sum(32 << bit for bit, way in enumerate(_DIRECTIONS) if rx & way)
        word |= _SWAP_X * state.config.color_swap_x | _SWAP_Y * state.config.color_swap_y
        return word | state.pop_mode << 12 | _TEARDOWN * state.teardown

    def _set_route(self, state: ColorState, word: int) -> None:
        tx = sum(way for bit, way in enumerate(_DIRECTIONS) if word >> bit & 1)
        rx = sum(way for bit, way in enumerate(_DIRECTIONS) if word >> (bit + 5) & 1)
        state.overrides[0] = (rx, tx, True)
        state.pop_mode = word >> 12 & 3
        state.teardown = bool(word & _TEARDOWN)

    # ------------------------------------------------------------------------------------------ switch words

    def _switch_word(self, state: ColorState) -> int:
        word = self._switch_words.get(state.color)
        if word is None:
            word = 0
            for position in (1, 2, 3):
                rx, tx, valid = state.overrides[position]
                code = _DIRECTIONS.index(_first(rx or tx)) if valid and rx | tx else _INVALID
                word |= (code | (8 if rx else 0)) << 4 * (position - 1)
        return word & 0x0FFF | state.ring << 12 | state.current << 13

    def _set_switch(self, state: ColorState, word: int) -> None:
        before = self._switch_word(state)
        for position in (1, 2, 3):
            field = word >> 4 * (position - 1) & 15
            if field == before >> 4 * (position - 1) & 15:
                continue  # also keeps a set of several directions, which the word cannot express
            code, is_input = field & 7, bool(field & 8)
            if code >= _INVALID:
                state.overrides[position] = (0, 0, False)
            else:
                way = _DIRECTIONS[code]
                state.overrides[position] = (way if is_input else 0, 0 if is_input else way, True)
        self._switch_words[state.color] = word & 0x0FFF
        state.ring = bool(word >> 12 & 1)
        state.current = word >> 13 & 3


def _first(mask: int) -> int:
    return mask & -mask


def _unknown(word_address: int) -> str:
    return (
        f"access to register word {word_address:#06x} through a pointer (byte address {2 * word_address:#06x}): this"
        " register's layout is not known"
    )
