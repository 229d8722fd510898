"""Functions, PE programs, and the whole compiled program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from fabrica_bench.csl.ir.instructions import Instr, LoadDsr
from fabrica_bench.csl.ir.routes import ColorConfig
from fabrica_bench.csl.ir.scalars import ScalarType


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
