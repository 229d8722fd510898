"""Which part of an array each PE holds, in a form that a program can compute from its coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from fabrica_agent.mesh.lines import X, Y
from fabrica_agent.records import Placement


@dataclass(frozen=True)
class Dim:
    """`count` elements, `whole` apart in the array and `own` apart in the PE's tensor."""

    count: int
    whole: int
    own: int


@dataclass(frozen=True)
class Shards:
    """An array's parts.

    Attributes:
        array: Name of the array.
        symbol: Exported tensor that holds a PE's part.
        size: Elements of the array.
        length: Elements of the tensor.
        dims: The part as a box, outermost first.
        first: Element of the array with which the part of PE (0, 0) begins.
        own_first: Element of the tensor with which the part begins.
        steps: For columns and rows, how far apart in the array the parts of neighbours are; None if only the PEs at
            `at` have one.
        at: The column, and the row, of the PEs that have a part where not all have one.
    """

    array: str
    symbol: str
    size: int
    length: int
    dims: tuple[Dim, ...]
    first: int
    own_first: int
    steps: tuple[int | None, int | None]
    at: tuple[int, int]

    @property
    def count(self) -> int:
        """Elements of a part."""
        total = 1
        for d in self.dims:
            total *= d.count
        return total


def shards(p: Placement, mesh: tuple[int, int]) -> Shards | None:
    """The parts of an array that isn't whole on every PE; None if they aren't boxes, one on each PE that has any."""
    if p.x is None or p.y is None:
        return None
    strides: list[int] = []
    total = 1
    for n in reversed(p.shape):
        strides.insert(0, total)
        total *= n
    first, steps = 0, [None, None]
    dims: list[Dim] = []
    for axis, (n, stride) in enumerate(zip(p.shape, strides, strict=True)):
        factors = (p.x[axis + 1], p.y[axis + 1], p.offset[axis + 1])
        if n == 1:
            continue
        if sum(f != 0 for f in factors) != 1:
            return None
        for side, factor in zip((X, Y), factors, strict=False):
            if not factor:
                continue
            start = (p.x, p.y)[side][0]
            if steps[side] is not None or factor != 1 or start != 0 or n != mesh[side]:
                return None
            steps[side] = stride  # type: ignore[call-overload]
        if factors[2]:
            dims.append(Dim(n, stride, factors[2]))
    dims.sort(key=lambda d: -d.own)
    fixed = (p.x[0], p.y[0])
    return Shards(
        array=p.array,
        symbol=p.symbol,
        size=total,
        length=p.length,
        dims=tuple(merged(dims)),
        first=first,
        own_first=p.offset[0],
        steps=(steps[0], steps[1]),
        at=(0 if steps[0] is not None else fixed[0], 0 if steps[1] is not None else fixed[1]),
    )


def merged(dims: list[Dim]) -> list[Dim]:
    """The same elements in the same order, in as few dimensions as possible."""
    found: list[Dim] = []
    for d in dims:
        if found and found[-1].whole == d.whole * d.count and found[-1].own == d.own * d.count:
            outer = found.pop()
            d = Dim(outer.count * d.count, d.whole, d.own)
        found.append(d)
    return found or [Dim(1, 1, 1)]
