"""Arrays for intermediate results, used again where they are free."""

from __future__ import annotations

from collections.abc import Iterable

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import Space, Ty
from fabrica_agent.lowering.names import Names

LIMIT = 24 * 1024
"""Bytes that local arrays may take together: the rest of a PE's memory holds code and the host's arrays."""


class Scratch:
    """The scratch arrays of one pass.

    Args:
        names: Where new arrays are added.
        base: What they are called.
    """

    def __init__(self, names: Names, base: str) -> None:
        self.names = names
        self.base = base
        self.free: list[str] = []

    def take(self, ty: Ty, length: int) -> str | None:
        """An array of at least `length` elements; None where there is no room for it."""
        buffers = self.names.program.buffers
        for name in self.free:
            buffer = buffers[name]
            if buffer.ty is ty and (fold.int_value(buffer.length or fold.i32(0)) or 0) >= length:
                self.free.remove(name)
                return name
        total = sum(
            (fold.int_value(b.length) or 0) * b.ty.bits // 8
            for b in buffers.values() if b.space is Space.LOCAL and b.length is not None
        )  # fmt: skip
        if total + length * ty.bits // 8 > LIMIT:
            return None
        return self.names.buffer(self.base, ty, fold.i32(length), Space.LOCAL)

    def give_back(self, names: Iterable[str]) -> None:
        """Arrays whose contents nobody needs any more."""
        self.free.extend(names)

    def forget_removed(self) -> None:
        """After an attempt whose arrays were taken out of the program again."""
        self.free = [n for n in self.free if n in self.names.program.buffers]
