"""Instructions of functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from fabrica_bench.csl.ir.operands import Dsd, DsrRef, Imm, Operand, Reg
from fabrica_bench.csl.ir.scalars import ScalarType


@dataclass(slots=True)
class Instr:
    """`loc` indexes `Image.locations` (file, line, column); 0 means unknown."""

    loc: int


@dataclass(slots=True)
class Move(Instr):
    """dst = src (same type)."""

    dst: Reg
    src: Operand


BinOp = Literal["add", "sub", "mul", "div", "rem", "and", "or", "xor", "shl", "shr"]
CmpOp = Literal["eq", "ne", "lt", "le", "gt", "ge"]


@dataclass(slots=True)
class Bin(Instr):
    """dst = a op b in `type`. Integers wrap; `div`/`rem` truncate toward zero (zero divisor is a fault); `shr` is
    arithmetic for signed types; floats round to nearest even in their format."""

    dst: Reg
    op: BinOp
    type: ScalarType
    a: Operand
    b: Operand


@dataclass(slots=True)
class Neg(Instr):
    dst: Reg
    type: ScalarType
    a: Operand


@dataclass(slots=True)
class Not(Instr):
    """Bitwise complement within the type; for `BOOL` logical negation."""

    dst: Reg
    type: ScalarType
    a: Operand


@dataclass(slots=True)
class Cmp(Instr):
    """dst (BOOL) = a op b, operands of `type`. Float comparisons are ordered, except `ne`."""

    dst: Reg
    op: CmpOp
    type: ScalarType
    a: Operand
    b: Operand


@dataclass(slots=True)
class Cast(Instr):
    """Value conversion (`@as`): int to int keeps low bits or extends by the source's signedness, float to int truncates
    and saturates, anything to BOOL is `!= 0` (NaN is true)."""

    dst: Reg
    to: ScalarType
    from_: ScalarType
    a: Operand


@dataclass(slots=True)
class Bitcast(Instr):
    """Same bits, another type of equal width."""

    dst: Reg
    to: ScalarType
    from_: ScalarType
    a: Operand


@dataclass(slots=True)
class Load(Instr):
    """dst = memory[addr + offset] as `type`."""

    dst: Reg
    type: ScalarType
    addr: Operand
    offset: int = 0


@dataclass(slots=True)
class Store(Instr):
    type: ScalarType
    addr: Operand
    value: Operand
    offset: int = 0


@dataclass(slots=True)
class CopyMem(Instr):
    """Copy `size` bytes (whole arrays and structs); regions do not overlap partially."""

    dst_addr: Operand
    src_addr: Operand
    size: int


@dataclass(slots=True)
class FrameAddr(Instr):
    """dst (U16) = address of this activation's frame + offset."""

    dst: Reg
    offset: int


@dataclass(slots=True)
class Call(Instr):
    """Direct call; arguments are scalars (aggregates are passed by address)."""

    dst: Reg | None
    fn: str
    args: tuple[Operand, ...]


@dataclass(slots=True)
class CallIndirect(Instr):
    """Call through a run-time function pointer."""

    dst: Reg | None
    pointer: Operand
    args: tuple[Operand, ...]


# terminators: exactly one, at the end of each block


@dataclass(slots=True)
class Jump(Instr):
    target: int


@dataclass(slots=True)
class Branch(Instr):
    cond: Operand
    then: int
    otherwise: int


@dataclass(slots=True)
class SwitchInt(Instr):
    value: Operand
    cases: tuple[tuple[int, int], ...]
    default: int


@dataclass(slots=True)
class Ret(Instr):
    value: Operand | None


@dataclass(slots=True)
class Unreachable(Instr):
    """Reaching it is a fault with this text."""

    text: str


# DSD instructions


@dataclass(slots=True)
class MakeDsd(Instr):
    """dst = `template` with some fields replaced by run-time values. Keys: `base` (bytes), `offset` (elements of
    `element_bytes`, added to base), `extent`, `stride` (elements), `queue`, `color`."""

    dst: Reg
    template: Dsd
    fields: tuple[tuple[str, Operand], ...]
    element_bytes: int = 2


@dataclass(slots=True)
class SetDsd(Instr):
    """dst = src with one property changed. `length`: extent (wavelets or elements); `stride`: elements; `base`: byte
    address; `advance`: signed byte count added to base."""

    dst: Reg
    src: Operand
    field: Literal["length", "stride", "base", "advance"]
    value: Operand


class DsdArg(NamedTuple):
    """One operand of a DSD operation.

    `dsd`: operand of type DSD · `dsr`: explicit register · `fifo`: index in `Image.fifos` · `scalar`: value of `type` ·
    `pointer`: address of a scalar of `type`.
    """

    kind: Literal["dsd", "dsr", "fifo", "scalar", "pointer"]
    value: Operand | DsrRef | int
    type: ScalarType | None = None


class Wake(NamedTuple):
    """What completion or a control wavelet does: activate or unblock an id. `space` says what the id numbers."""

    action: Literal["activate", "unblock", "terminate"]
    space: Literal["task", "color", "input_queue", "ut"] = "task"
    id: Operand = Imm(0)


class DsdConfig(NamedTuple):
    """Last argument of a DSD operation (or the async settings of a DSR load)."""

    is_async: bool = False
    on_done: Wake | None = None
    on_control: Wake | None = None
    index: Operand | None = None  # type: ignore[assignment] # shadows tuple.index, which nobody needs here
    ut_id: int | None = None
    priority: Literal["", "low", "medium", "high"] = ""


@dataclass(slots=True)
class DsdOp(Instr):
    """A DSD operation. `op` is the builtin's name without `@`. `result` gets BOOL: false if a synchronous FIFO
    operation ended early."""

    result: Reg | None
    op: str
    dest: DsdArg | None
    sources: tuple[DsdArg, ...]
    config: DsdConfig


@dataclass(slots=True)
class MapOp(Instr):
    """`@map`: call `fn` per element. `inputs` in parameter order; `output` gets the results."""

    fn: str
    inputs: tuple[DsdArg, ...]
    output: DsdArg | None
    config: DsdConfig = DsdConfig()  # noqa: RUF009 - a NamedTuple is immutable, so sharing it is safe


@dataclass(slots=True)
class LoadDsr(Instr):
    """`@load_to_dsr` and its xdsr/sr forms."""

    dsr: DsrRef
    dsd: Operand
    config: DsdConfig
    save_address: bool = False
    single_step: bool = False


class Shown(NamedTuple):
    """A value that a fault report names. It exists only if each of `guards`, in order, holds the truth beside it."""

    name: str
    value: Operand
    type: ScalarType
    guards: tuple[tuple[Operand, bool], ...] = ()


@dataclass(slots=True)
class Intrinsic(Instr):
    """Everything only the machine does. `name` is one of `INTRINSICS`, which gives argument and result types.

    `shown`: what a report of its failure says beside `text`; it costs the program nothing.
    """

    dst: Reg | None
    name: str
    args: tuple[Operand, ...]
    text: str = ""
    shown: tuple[Shown, ...] = ()
