"""Layout of a control wavelet's payload: eight switch commands and a control task id.

Bits 21..16 hold the task id ("entry", 31: none). The commands form a list of eight 3-bit groups (two bits opcode, then
the CE-ignore bit) that starts at bit 22, runs to bit 29 and goes on at bit 0 (Cerebras SDK docs, "Switches").
"""

from __future__ import annotations

from enum import IntEnum

NO_ENTRY = 31
_LIST_BITS = 24
_TAIL = 0b100 << 21  # NOP with CE-ignore, what popping shifts in


class Opcode(IntEnum):
    """Switch commands."""

    NOP = 0
    ADVANCE = 1
    RESET = 2
    TEARDOWN = 3


def entry(word: int) -> int:
    """Control task id of a payload."""
    return word >> 16 & 0x3F


def first_opcode(word: int) -> int:
    """Opcode of the command the next router executes."""
    return word >> 22 & 3


def first_ignores_ce(word: int) -> bool:
    """True if the copy for the compute element is suppressed."""
    return bool(word >> 24 & 1)


def pop(word: int) -> int:
    """The payload without its first command."""
    commands = (word >> 22 & 0xFF) | (word & 0xFFFF) << 8
    commands = commands >> 3 | _TAIL
    return word & 0xC03F0000 | (commands & 0xFF) << 22 | commands >> 8


def encode(commands: list[tuple[int, bool]], task: int = NO_ENTRY, ignore_rest: bool = True, data: int = 0) -> int:
    """Payload of (opcode, CE-ignore) commands; the remaining ones are NOP. `data` fills the low 16 bits if given."""
    full = [*commands, *([(0, ignore_rest)] * (8 - len(commands)))]
    packed = sum((opcode | ignore << 2) << (3 * index) for index, (opcode, ignore) in enumerate(full))
    low = data or packed >> 8
    return (packed & 0xFF) << 22 | (task & 0x3F) << 16 | low & 0xFFFF
