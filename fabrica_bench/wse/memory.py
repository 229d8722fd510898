"""Memory of the PEs: 48 KiB each, byte addressed, little endian, touched lazily.

All PEs share one zeroed arena, so that untouched pages cost nothing. A PE sees its slice through typed views. Executors
index the views directly; a negative or too large index, or an odd address of a 16-bit access, raises a Python exception
that the executor turns into a `Fault` with its source line. Nothing outside the slice can be reached.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

MEMORY_BYTES = 48 * 1024  # SRAM of one PE (Cerebras SDK docs 1.4)
CALL_FRAME_BYTES = 4  # return address and one saved register: the least a call takes of the stack

View = Any  # memoryview; typed access is checked by the executor's generated code, not by mypy


class AccessError(Exception):
    """An access outside the PE's memory or at an odd address; carries the text for the fault."""


class Arena:
    """Zeroed memory for `count` PEs."""

    def __init__(self, count: int) -> None:
        self._bytes: npt.NDArray[np.uint8] = np.zeros(max(count, 1) * MEMORY_BYTES, dtype=np.uint8)

    def slice(self, index: int) -> npt.NDArray[np.uint8]:
        """The memory of PE `index`."""
        return self._bytes[index * MEMORY_BYTES : (index + 1) * MEMORY_BYTES]


class PeMemory:
    """One PE's memory and its typed views.

    `u8`, `i8` are indexed by address. `u16`, `i16` are selected by `address & 0xC001` (odd: missing; the last quarter
    of the address space: registers, see `config_space`) and indexed by `address >> 1`. `u32`, `i32`, `f32` are selected
    by `address & 3` (odd: None) and indexed by `address >> 2`; a 32-bit element needs only 2-byte alignment, as the
    machine word has 16 bits.
    """

    __slots__ = ("array", "f32", "i8", "i16", "i32", "u8", "u16", "u32")

    def __init__(self, array: npt.NDArray[np.uint8]) -> None:
        self.array = array
        raw = memoryview(array.data)
        late = raw[2 : MEMORY_BYTES - 2]
        self.u8: View = raw
        self.i8: View = raw.cast("b")
        self.u16: dict[int, View] = dict.fromkeys((0, 0x4000, 0x8000), raw.cast("H"))
        self.i16: dict[int, View] = dict.fromkeys((0, 0x4000, 0x8000), raw.cast("h"))
        self.u32: tuple[View, None, View, None] = (raw.cast("I"), None, late.cast("I"), None)
        self.i32: tuple[View, None, View, None] = (raw.cast("i"), None, late.cast("i"), None)
        self.f32: tuple[View, None, View, None] = (raw.cast("f"), None, late.cast("f"), None)

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes; raises `AccessError` if they do not all lie in memory."""
        self.check(address, size)
        return bytes(self.u8[address : address + size])

    def write(self, address: int, data: bytes) -> None:
        """Store bytes; raises `AccessError` if they do not all lie in memory."""
        self.check(address, len(data))
        self.u8[address : address + len(data)] = data

    def read_int(self, address: int, size: int) -> int:
        """Unsigned little-endian integer of `size` bytes at an address of the machine word's alignment."""
        if size > 1 and address & 1:
            raise AccessError(misaligned(address, size))
        return int.from_bytes(self.read(address, size), "little")

    def write_int(self, address: int, value: int, size: int) -> None:
        """Store the low `size` bytes of `value`."""
        if size > 1 and address & 1:
            raise AccessError(misaligned(address, size))
        self.write(address, (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little"))

    def check(self, address: int, size: int) -> None:
        """Raise `AccessError` unless [address, address + size) lies in memory."""
        if address < 0 or address + size > MEMORY_BYTES:
            raise AccessError(out_of_range(address, size))

    def elements(self, base: int, step: int, count: int, size: int) -> npt.NDArray[Any]:
        """Strided view of `count` elements of `size` (2 or 4) bytes, `step` bytes apart; raises `AccessError`."""
        last = base + step * (count - 1)
        self.check(base, size)
        self.check(last, size)
        if (base | step) & 1:
            raise AccessError(misaligned(base, size))
        dtype = np.uint16 if size == 2 else np.uint32
        return np.ndarray((count,), dtype, self.array, base, (step,))


def out_of_range(address: int, size: int) -> str:
    """Text of the fault for an access outside memory."""
    return f"access of {size} bytes at address {address} is outside the PE's memory of {MEMORY_BYTES} bytes"


def misaligned(address: int, size: int) -> str:
    """Text of the fault for an odd address."""
    return f"access of {size} bytes at odd address {address}: the machine word has 16 bits"
