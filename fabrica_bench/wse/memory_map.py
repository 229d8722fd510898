"""What lies where in the 48 KiB of a PE: code, variables, free space and stack, for each distinct PE program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from fabrica_bench.csl import ir
from fabrica_bench.csl.linker import CALL_OVERHEAD_BYTES
from fabrica_bench.wse.memory import MEMORY_BYTES
from fabrica_bench.wse.routes import Region, rectangles

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import Image, Program

AreaKind = Literal["code", "const", "var", "padding", "free", "stack"]

UNKNOWN_DEPTH: Final = -1


class Area(NamedTuple):
    """`size` bytes from `address`. `place` is `file:line` of a variable's declaration."""

    address: int
    size: int
    kind: AreaKind
    name: str = ""
    type_name: str = ""
    place: str = ""


@dataclass(frozen=True)
class MemoryMap:
    """The map of one PE program.

    Attributes:
        name, file: of the program.
        regions: the PEs that run it.
        areas: everything from address 0 to the end, in order, without gaps.
        code: bytes of code, an estimate: the machine's instruction set is not public.
        data: bytes of variables with their padding.
        stack: bytes that the deepest chain of calls needs by the frames' sizes; -1 if a recursion makes it unknown.
        free: bytes between the data and that stack.
    """

    name: str
    file: str
    regions: tuple[Region, ...]
    areas: tuple[Area, ...]
    code: int
    data: int
    stack: int
    free: int


def memory_maps(program: Program) -> list[MemoryMap]:
    """The maps of all distinct PE programs, in the order of the compiler."""
    places: dict[int, list[tuple[int, int]]] = {}
    for y, row in enumerate(program.tiles):
        for x, number in enumerate(row):
            places.setdefault(number, []).append((x, y))
    return [
        _memory_map(image, tuple(rectangles(places[number])))
        for number, image in enumerate(program.images)
        if number in places
    ]


def _memory_map(image: Image, regions: tuple[Region, ...]) -> MemoryMap:
    areas = [Area(0, image.code_bytes, "code", "(estimate)")]
    for variable in sorted(image.globals.values(), key=lambda item: item.address):
        _pad(areas, variable.address)
        kind: AreaKind = "const" if variable.is_const else "var"
        areas.append(
            Area(variable.address, variable.size, kind, variable.name, variable.type_name, _place(image, variable.loc))
        )
    _pad(areas, image.data_end)
    stack = stack_bytes(image)
    top = image.stack_top or MEMORY_BYTES
    reserved = max(stack, 0)
    free = top - reserved - image.data_end
    areas += [Area(image.data_end, free, "free"), Area(top - reserved, reserved, "stack")]
    data = image.data_end - image.code_bytes
    return MemoryMap(image.name, image.file, regions, tuple(areas), image.code_bytes, data, stack, free)


def _pad(areas: list[Area], address: int) -> None:
    """Fill the gap below `address`."""
    end = areas[-1].address + areas[-1].size
    if end < address:
        areas.append(Area(end, address - end, "padding"))


def _place(image: Image, loc: int) -> str:
    if not 0 < loc < len(image.locations):
        return ""
    file, line, _ = image.locations[loc]
    return f"{file}:{line}"


def stack_bytes(image: Image) -> int:
    """Stack of the deepest chain of direct calls, or `UNKNOWN_DEPTH` if functions call themselves."""
    depths: dict[str, int] = {}
    for name in image.functions:
        if _depth(image, name, depths, set()) == UNKNOWN_DEPTH:
            return UNKNOWN_DEPTH
    return max(depths.values(), default=0)


def _depth(image: Image, name: str, depths: dict[str, int], above: set[str]) -> int:
    if name in depths:
        return depths[name]
    if name in above:
        return UNKNOWN_DEPTH
    function = image.functions.get(name)
    if function is None:
        return 0
    deepest = 0
    called = {i.fn for block in function.blocks for i in block if isinstance(i, ir.Call | ir.MapOp)}
    for callee in sorted(called):
        below = _depth(image, callee, depths, above | {name})
        if below == UNKNOWN_DEPTH:
            return UNKNOWN_DEPTH
        deepest = max(deepest, below)
    depths[name] = function.frame_size + CALL_OVERHEAD_BYTES + deepest
    return depths[name]
