"""Host copies that reach beyond the variable they begin in.

A tensor is exported as a pointer without a length, so the vendor's tools can't check a copy's size, and a copy that is
too long changes or reads whatever lies behind. `cs_python` warns: a wrong result far from its cause costs hours.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from fabrica_bench.csl import ir
from fabrica_bench.wse.faults import PePosition


class Overrun(NamedTuple):
    """A copy of `size` bytes that begins in `variable`, `room` bytes before the variable's end."""

    pe: PePosition
    variable: str
    size: int
    room: int


class Extents:
    """Looks at the copies of one run; remembers the first overrun for each tensor and direction."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Overrun] = {}
        """By preposition (`to` or `from`) and name of the tensor."""
        self._variables: dict[int, tuple[list[int], list[ir.Global]]] = {}

    def check(self, image: ir.Image, pe: PePosition, where: tuple[str, str], address: int, size: int) -> None:
        """Note a copy of `size` bytes at `address`, if it is too long. `where` is the key for `found`."""
        known = self._variables.get(id(image))
        if known is None:
            variables = sorted(image.globals.values(), key=lambda item: item.address)
            known = self._variables[id(image)] = ([item.address for item in variables], variables)
        addresses, variables = known
        index = bisect_right(addresses, address) - 1
        if index < 0 or where in self.found:
            return
        variable = variables[index]
        room = variable.address + variable.size - address
        # An address behind all variables, or in a gap, is none that this can judge.
        if 0 < room < size:
            self.found[where] = Overrun(pe, variable.name, size, room)

    def describe(self) -> list[str]:
        """The text of one warning for each overrun."""
        return [
            f"a copy {way} {tensor!r} takes {item.size} bytes of each PE, but variable {item.variable!r} of {item.pe}"
            f" ends after {item.room}: the rest {'changed' if way == 'to' else 'is'} what lies behind it"
            for (way, tensor), item in self.found.items()
        ]
