"""Router registers that programs of WSE-2 reach through pointers, as a published program explains them."""

from __future__ import annotations

from typing import Final

#: Word addresses of the blocks with one word per color: route of position 0 with its modes, and switch positions.
ROUTES: Final = 0x7F20
SWITCHES: Final = 0x7F40
COLORS: Final = 24


def is_router_register(byte_address: int, size: int) -> bool:
    """Whether `size` bytes from an address are registers of one block."""
    word, end = byte_address >> 1, (byte_address + size + 1) >> 1
    return any(block <= word and end <= block + COLORS for block in (ROUTES, SWITCHES))
