"""Typed intermediate representation: what one PE program does, independent of who executes it.

The analyser (`fabrica_bench.csl.sema`) produces it; executors (`fabrica_bench.wse`) run it. Nothing else passes between
the two. A function is a control-flow graph of basic blocks over typed virtual registers (not SSA: a register may be
assigned more than once). Registers hold scalars only: integers, floats and DSD descriptors. Arrays and structs live in
PE memory (globals and frame slots) and are reached by byte address.

Representation of scalars
    integers   Python int already reduced to the range of its type (wrapping is the producer's `Bin`, not the reader's)
    bool       0 or 1, type `BOOL`
    floats     Python float exactly representable in their format
    pointers, colors, task ids, queues, directions   `U16`
    DSDs       `Dsd` values

After linking every address is absolute: `Sym` operands and relocations exist only inside the analyser.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

# -------------------------------------------------------------------------------------------------- types


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

# --------------------------------------------------------------------------------------------- descriptors

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


# ------------------------------------------------------------------------------------------------ operands


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

# -------------------------------------------------------------------------------------------- instructions


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


#: name -> (meaning). `text` of the instruction carries a comptime string where mentioned.
INTRINSICS: dict[str, str] = {
    "activate": "(id) set the active flag of a local task",
    "block": "(id) block; text = id space: task | color | input_queue | ut",
    "unblock": "(id) unblock; text = id space as for block",
    "assert": "(cond) fault if false; text = source of the condition, shown = its operands",
    "x_coord": "() -> u16 column of this PE in the program rectangle",
    "y_coord": "() -> u16 row of this PE in the program rectangle",
    "tsc_enable": "() start and clear the time stamp counter",
    "tsc_disable": "() stop it",
    "tsc_reset": "() clear it",
    "tsc_read": "(addr) store the 48-bit counter as three little-endian u16 words",
    "perf_read": "(addr, id) as tsc_read for a performance counter",
    "unblock_cmd_stream": "() this PE is ready for the next host command",
    "random16": "() -> u16 next value of the LFSR x^23 + x^18 + 1",
    "set_active_prng": "(i)",
    "math": "(x[, y]) -> same type; text = function name and type, e.g. 'sqrt:f32'",
    "queue_flush": "(queue) text = input | output",
    "queue_flush_exit": "(queue) text = input | output",
    "queue_flush_status": "() -> u16 bit per flushed queue; text = input | output",
    "queue_status": "() -> u16 empty bits in the low byte, full bits in the high byte; text = input | output",
    "rebind_queue": "(queue, color) text = input | output",
    "config_read": "(word address) -> u16/u32",
    "config_write": "(word address, value)",
    "teardown_pending": "() -> u32 bit per color",
    "teardown_exit": "(color)",
    "color_set_routes": "(color, rx mask, tx mask) position 0; bits NORTH=1 SOUTH=2 EAST=4 WEST=8 RAMP=16",
    "color_toggle_route": "(color, rx mask, tx mask) flip these bits of position 0",
    "color_clear_route": "(color, rx mask, tx mask) clear these bits of position 0",
    "color_add_route": "(color, rx mask, tx mask) set these bits of position 0",
    "switch_set_position": "(color, position 1..3, rx mask, tx mask); mask 0 keeps the previous position's set",
    "switch_invalidate": "(color) make positions 1..3 invalid",
    "switch_set_current": "(color, position)",
    "switch_set_ring": "(color, bool)",
    "switch_set_pop": "(color, mode 0..3: no_pop, always_pop, pop_on_advance, pop_on_advance_nop)",
    "filter_set": "(filter id, value) text = counter | max_counter | active_limit",
    "filter_get": "(filter id) -> u16 text = counter | state | pass_count | drop_count",
    "message_open": "(color) join the network of <message_passing> on this color",
    "control_transform_mask": "(mask)",
    "task_priority": "(id, level 0/1)",
    "main_priority": "(level)",
    "fifo_read_length": "(fifo index, n)",
    "fifo_write_length": "(fifo index, n)",
    "print": "(addr, length) append bytes of memory to this PE's simprint buffer",
    "print_text": "() text = literal bytes (latin-1) appended to this PE's simprint buffer",
    "symbol_value": "(export id) -> value of an exported scalar; text = type name",
    "tensor_ptr": "(export id) -> u16 address of an exported tensor",
}


# ---------------------------------------------------------------------------------------- functions, images


@dataclass(slots=True)
class Function:
    """`registers[i]` is the type of `Reg(i)`; parameters are the first `param_count` registers. `frame_size` bytes are
    reserved on the stack per activation. Execution starts at block 0."""

    name: str
    kind: Literal["fn", "task"]
    param_count: int
    result: ScalarType | None
    registers: list[ScalarType]
    blocks: list[list[Instr]]
    frame_size: int = 0
    loc: int = 0


@dataclass(slots=True)
class Global:
    """A variable placed in PE memory. `init` is its initial bytes (little endian), or None for zeros."""

    name: str
    address: int
    size: int
    init: bytes | None
    type_name: str
    is_const: bool = False
    is_export: bool = False
    loc: int = 0


class TaskBinding(NamedTuple):
    """`id` is the number in the task table (color or input queue for data tasks)."""

    kind: Literal["data", "local", "control"]
    id: int
    fn: str


class QueueInit(NamedTuple):
    direction: Literal["input", "output"]
    queue: int
    color: int
    priority: str = ""
    ctrl_table_id: int = 0


class Fifo(NamedTuple):
    """A FIFO DSD. `activate_*` are local task ids or -1; actions are the names of `full_action` and `empty_action`."""

    name: str
    address: int
    element_bytes: int
    capacity: int
    activate_push: int = -1
    activate_pop: int = -1
    empty_action: str = "test_or_suspend"
    full_action: str = "test_or_suspend"
    priority: str = ""


class SwitchPosition(NamedTuple):
    """One of pos1..pos3 as written: a replaced rx or tx mask (0: unchanged), or invalid."""

    rx: int = 0
    tx: int = 0
    invalid: bool = False


class FilterConfig(NamedTuple):
    kind: Literal["counter", "sparse_counter", "range"]
    count_data: bool = False
    count_control: bool = False
    init_counter: int = 0
    limit1: int = 0
    limit2: int = 0
    max_counter: int = 0
    filter_control: bool = False
    min_idx: int = 0
    max_idx: int = 0


class ColorConfig(NamedTuple):
    """Router configuration of one color on one PE. Masks: NORTH=1 SOUTH=2 EAST=4 WEST=8 RAMP=16."""

    rx: int = 0
    tx: int = 0
    positions: tuple[SwitchPosition | None, SwitchPosition | None, SwitchPosition | None] = (None, None, None)
    current: int = 0
    ring_mode: bool = False
    pop_mode: Literal["no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop"] = "no_pop"
    color_swap_x: bool = False
    color_swap_y: bool = False
    filter: FilterConfig | None = None
    teardown: bool = False


NORTH, SOUTH, EAST, WEST, RAMP = 1, 2, 4, 8, 16
#: run-time value of a `direction`, in declaration order of the language's documentation
DIRECTION_CODES = {"RAMP": 0, "NORTH": 1, "SOUTH": 2, "EAST": 3, "WEST": 4}


class ExportedSymbol(NamedTuple):
    """What `@export_symbol` made visible. `target` is the name of a global for variables, of a function for those."""

    name: str
    kind: Literal["var", "fn"]
    target: str
    type_name: str
    params: tuple[ScalarType, ...] = ()


@dataclass(slots=True)
class Image:
    """One distinct PE program: (file, parameters) after analysis and linking. Shared by all PEs that use it."""

    name: str
    file: str
    functions: dict[str, Function] = field(default_factory=dict)
    globals: dict[str, Global] = field(default_factory=dict)
    tasks: list[TaskBinding] = field(default_factory=list)
    activated: list[int] = field(default_factory=list)
    blocked: list[tuple[str, int]] = field(default_factory=list)
    unblocked: list[tuple[str, int]] = field(default_factory=list)
    queues: list[QueueInit] = field(default_factory=list)
    fifos: list[Fifo] = field(default_factory=list)
    dsr_loads: list[LoadDsr] = field(default_factory=list)
    teardown_handlers: dict[int, str] = field(default_factory=dict)
    empty_queue_handlers: list[tuple[str, int, str]] = field(default_factory=list)
    control_table: tuple[int, int] | None = None
    rotating_tasks: list[tuple[str, str, int, int, int]] = field(default_factory=list)
    local_colors: dict[int, ColorConfig] = field(default_factory=dict)
    exports: dict[str, ExportedSymbol] = field(default_factory=dict)
    config_words: dict[int, int] = field(default_factory=dict)
    settings: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    locations: list[tuple[str, int, int]] = field(default_factory=lambda: [("", 0, 0)])
    data_end: int = 0
    code_bytes: int = 0
    stack_top: int = 0


class ExportName(NamedTuple):
    """An `@export_name` of the layout. `id` is the symbol id of the host interface."""

    id: int
    name: str
    kind: Literal["var", "fn"]
    type_name: str
    mutable: bool
    params: tuple[str, ...] = ()


@dataclass(slots=True)
class Program:
    """A compiled CSL program: everything the simulator needs.

    `tiles[y][x]` indexes `images`; `colors[y][x]` maps color -> configuration (layout and local merged).
    `stream_colors` maps a color number to "h2d" or "d2h" for memcpy streaming. `source_lines` has the text of each
    source line that an image's locations name, by file and line, for reports.
    """

    arch: Literal["wse2", "wse3"]
    width: int
    height: int
    fabric: tuple[int, int]
    offset: tuple[int, int]
    images: list[Image]
    tiles: list[list[int]]
    colors: list[list[dict[int, ColorConfig]]]
    exports: list[ExportName]
    params: dict[str, str]
    fp16: Literal["f16", "bf16", "cb16"] = "f16"
    memcpy: bool = True
    channels: int = 1
    stream_colors: dict[int, str] = field(default_factory=dict)
    source_lines: dict[str, dict[int, str]] = field(default_factory=dict)
