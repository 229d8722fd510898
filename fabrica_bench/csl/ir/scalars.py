"""Types of registers and of memory elements."""

from __future__ import annotations

from typing import Literal, NamedTuple


class ScalarType(NamedTuple):
    """Type of a register or of one memory element. `name` is the CSL spelling (`i16`, `f32`, `bool`, `dsd`)."""

    kind: Literal["int", "float", "dsd"]
    bits: int
    signed: bool
    name: str

    @property
    def size(self) -> int:
        """Bytes in memory. Integers of odd widths take the next power of two bytes."""
        if self.kind == "dsd":
            return DSD_BYTES
        size = 1
        while size * 8 < self.bits:
            size *= 2
        return size


def int_type(bits: int, signed: bool) -> ScalarType:
    return ScalarType("int", bits, signed, f"{'i' if signed else 'u'}{bits}")


DSD_BYTES = 40
BOOL = ScalarType("int", 1, False, "bool")
I8, I16, I32, I64 = (int_type(bits, True) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (int_type(bits, False) for bits in (8, 16, 32, 64))
F16 = ScalarType("float", 16, True, "f16")
BF16 = ScalarType("float", 16, True, "bf16")
CB16 = ScalarType("float", 16, True, "cb16")
F32 = ScalarType("float", 32, True, "f32")
DSD = ScalarType("dsd", DSD_BYTES * 8, False, "dsd")
