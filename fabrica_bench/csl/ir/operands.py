"""Values that instructions take: registers, constants, addresses, descriptors."""

from __future__ import annotations

from typing import Literal, NamedTuple

INFINITE_LENGTH = 0x7FFF
DsdKind = Literal["mem1d", "mem4d", "circbuf", "fabin", "fabout"]


class Sym(NamedTuple):
    """Address of a global of this PE program plus a byte offset; resolved by the linker."""

    name: str
    offset: int = 0


class Dsd(NamedTuple):
    """A data structure descriptor value.

    Memory kinds: `base` is the byte address of the first element, `extents` outermost first, `strides` innermost first
    in elements of the operation that uses the DSD (a DSD has no element type of its own: programs make one over a dummy
    array and later give it the address of an array of another type), each the address step applied when that dimension
    advances (inner dimensions already reset).
    `mem1d` has one extent and one stride. `circbuf` also has `wraparound` (elements).
    Fabric kinds: `extents[0]` counts wavelets (0x7fff: unbounded); `queue` and `color` are -1 when absent.
    """

    kind: DsdKind
    extents: tuple[int, ...]
    base: int | Sym = 0
    strides: tuple[int, ...] = (1,)
    wraparound: int = 0
    queue: int = -1
    color: int = -1
    control: bool = False
    advance_switch: bool = False
    control_transform: bool = False
    wavelet_index_offset: bool = False
    zero_first: bool = False
    zero_second: bool = False
    simd_mode: Literal["off", "32", "64", "32_or_64", "max"] = "off"
    priority: Literal["", "low", "medium", "high"] = ""


DsrFile = Literal["dest", "src0", "src1"]


class DsrRef(NamedTuple):
    """An explicit DSR: register file and number."""

    file: DsrFile
    index: int  # type: ignore[assignment] # shadows tuple.index, which nobody needs here


class Reg(NamedTuple):
    """Virtual register of the enclosing function; its type is `Function.registers[index]`."""

    index: int  # type: ignore[assignment] # shadows tuple.index, which nobody needs here


class Imm(NamedTuple):
    """Constant."""

    value: int | float | Dsd


class FnAddr(NamedTuple):
    """Run-time value of a function pointer: the linker makes it the function's index in `Image.functions`, plus 1."""

    name: str


Operand = Reg | Imm | Sym | FnAddr
