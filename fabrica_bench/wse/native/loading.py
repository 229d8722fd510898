"""A program put into flat arrays: images, PEs, routers, queues, memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fabrica_bench.csl import ir
from fabrica_bench.csl.floats import FORMATS
from fabrica_bench.wse import numeric
from fabrica_bench.wse.commands import Limits
from fabrica_bench.wse.costs import CostTable
from fabrica_bench.wse.element import INPUT_QUEUES, ROUTABLE_COLORS
from fabrica_bench.wse.evidence import CLOCK_FIELDS, HeldWords, held_range
from fabrica_bench.wse.intrinsics import _lfsr_tables
from fabrica_bench.wse.memory import MEMORY_BYTES
from fabrica_bench.wse.native.layout import Records, address_of, lazy_words
from fabrica_bench.wse.native.library import Library, private_directory
from fabrica_bench.wse.native.program_code import ImageContext, ProgramCode
from fabrica_bench.wse.native.sites import DSR_COUNT, dsd_words
from fabrica_bench.wse.native.support import NativeUnsupported
from fabrica_bench.wse.router import ColorState
from fabrica_bench.wse.tasks import TaskTable

_FIFO_ACTIONS = {"suspend": 0, "test_or_suspend": 1, "fault": 3}
_FRAME_WORDS = 8192
_UNBOUNDED = 1 << 62
_MOST_QUEUES = 16  # entries of the kernel's tables of depths
_DEEPEST = 64  # wavelets of a queue
_DEEPEST_ROUTER = 4  # wavelets of a router's input
#: most that a PE can be given on first use: 96 channels, 8 output queues, 40 input queues, 24 operations, 24 colors,
#: calls and a line of text
ARENA_WORDS = 96 * 24 + 8 * 144 + 40 * 144 + 24 * 216 + 24 * 64 + 40 * 18 + 128 + 64
_BLANK_WORDS = 512


@dataclass
class LoadedImage:
    """What the host needs of one image.

    Attributes:
        indexes: Its PEs, ascending.
        table: Its functions for the kernel.
        functions: Numbers of its functions by name.
        held: For each of its PEs the bytes that its variables held when it last read the counter.
    """

    image: ir.Image
    number: int
    indexes: npt.NDArray[np.int64]
    table: Records
    functions: dict[str, int] = field(default_factory=dict)
    held: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.uint8))


@dataclass(frozen=True)
class _Translation:
    """A program's code, and where each function lies in memory by its symbol. `quick`: as of `Library.load`."""

    program: ir.Program
    costs: CostTable
    code: ProgramCode
    address: Callable[[str], int]
    quick: bool


_kept: dict[int, _Translation] = {}


def keep_code_of(program: ir.Program, costs: CostTable, lib: Library) -> None:
    """Translate a program once for the forks of this process; only the last one is kept."""
    found = _translate(program, costs, lib)
    _kept.clear()
    _kept[id(program)] = found


def _translate(program: ir.Program, costs: CostTable, lib: Library, quick: bool | None = None) -> _Translation:
    # A program whose code nobody keeps is run a few times; only its run tells whether better code is worth the wait.
    quick = private_directory() is not None if quick is None else quick
    kept = _kept.get(id(program))
    if kept is not None and kept.costs is costs and kept.quick == quick:
        return kept
    code = ProgramCode(program, costs, lib.structs)
    return _Translation(program, costs, code, lib.load(code.text(), quick=quick), quick)


class LoadedProgram:
    """See the module's docstring. Raises NativeUnsupported for what the kernel does not do.

    Args:
        quick: Begin with code that is made in little time, see `optimise`; by default for what only a private folder
            keeps.
    """

    def __init__(
        self, program: ir.Program, costs: CostTable, limits: Limits, lib: Library, quick: bool | None = None
    ) -> None:
        self.program = program
        self.costs = costs
        self.lib = lib
        self._kept: list[Any] = []
        self.count = program.width * program.height
        self.tiles = np.array(program.tiles, dtype=np.int64).reshape(-1)
        self._translation = _translate(program, costs, lib, quick)
        self.quick = self._translation.quick
        self.machine = Records(lib.structs["M"], 1)
        pe = lib.structs["Pe"]
        self.pes = Records(pe, self.count, lazy_words(pe.words * self.count, dense=True))
        self.memory = lazy_words(self.count * MEMORY_BYTES // 8).view(np.uint8).reshape(self.count, MEMORY_BYTES)
        self.m = self.machine.address
        self._fill_machine(limits)
        self._fill_pes()
        self.images = [self._fill_image(context, number) for number, context in enumerate(self.contexts)]
        self._fill_colors()
        lib.call("wake_all_active", self.m)

    @property
    def contexts(self) -> list[ImageContext]:
        """What the translation of each image looked at."""
        return self._translation.code.images

    def keep(self, array: Any) -> int:
        """Hold an array for as long as the program lives; its address."""
        self._kept.append(array)
        return address_of(array)

    # ------------------------------------------------------------------------------------------ machine

    def set(self, name: str, value: int) -> None:
        """Set a field of the machine."""
        self.machine[name][0] = value

    def get(self, name: str) -> int:
        """A field of the machine."""
        return int(self.machine[name][0])

    def _fill_machine(self, limits: Limits) -> None:
        costs, half = self.costs, self.program.fp16
        room = ARENA_WORDS * (self.count + 1)
        arena = self.keep(lazy_words(room, dense=True))
        fields = {
            "arch_wse2": int(costs.arch == "wse2"),
            "hop": costs["fabric.hop"],
            "ramp": costs["fabric.ramp"],
            "buffer_depth": costs["fabric.router_buffer"],
            "edge_room": _UNBOUNDED if self.program.memcpy else costs["fabric.router_buffer"],
            "max_cycles": limits.max_cycles,
            "task_dispatch": costs["task.dispatch"],
            "task_redispatch": costs["task.redispatch"],
            "task_wake": costs["task.wake"],
            "task_launch": costs["task.launch"],
            "task_end": costs["task.end"],
            "dsd_launch": costs["dsd.launch"],
            "switch_quarters": round(4 * costs.number("issue.ut_switch")),
            "main_alternates": int(bool(costs["issue.main_alternates"])),
            "input_extra": costs["fabric.input_queue_extra"],
            "output_extra": costs["fabric.output_queue_extra"],
            "implicit_depth": costs["fabric.implicit_queue_depth"],
            "stream_in_interval": costs["host.stream_in_interval"],
            "stream_out_interval": costs["host.stream_out_interval"],
            "half_values": self.keep(numeric.half_values_array(half)),
            "lfsr": self.keep(np.array(_lfsr_tables(), dtype=np.int64)),
            "pes": self.pes.address,
            "pe_count": self.count,
            "end_pe": (1 << 63) - 1,
            "arena_next": arena,
            "arena_end": arena + 8 * room,
            "blank": self.keep(lazy_words(_BLANK_WORDS)),
            "half_quiet": numeric.half_encoder(half)(numeric.NAN) & 0x7FFF,
        }
        form = FORMATS[half]
        fields["half_bias"] = form.bias
        fields["half_mantissa"] = form.mantissa_bits
        fields["half_top"] = form.max_exponent_field << form.mantissa_bits
        for name, value in fields.items():
            self.set(name, value)
        for side in ("input", "output"):
            depths = costs.by_queue(f"fabric.{side}_queue_depth")
            extra = costs[f"fabric.{side}_queue_extra"]
            if len(depths) > _MOST_QUEUES or max(depths) + extra > _DEEPEST:
                raise NativeUnsupported("queues deeper than the kernel's memory for them")
            self.machine[f"{side}_depths"][0, : len(depths)] = depths
            self.set(f"{side}_depth_count", len(depths))
        if costs["fabric.router_buffer"] > _DEEPEST_ROUTER:
            raise NativeUnsupported("router buffers deeper than the kernel's memory for them")
        event_pools(self, self.machine, self.count)
        self.log = lazy_words(1 << 22)
        self.set("log", self.keep(self.log))
        self.set("log_capacity", 1 << 22)

    # ------------------------------------------------------------------------------------------ PEs

    def _fill_pes(self) -> None:
        pes, width = self.pes, self.program.width
        order = np.arange(self.count, dtype=np.int64)
        pes["machine"] = self.m
        pes["memory"] = address_of(self.memory) + MEMORY_BYTES * order
        pes["x"] = order % width
        pes["y"] = order // width
        stamps = ("scheduled", "stepped", "router_scheduled", "router_stepped", "task_ended", "late_at")
        for name in (*stamps, "last_task", *CLOCK_FIELDS):
            pes[name] = -1
        for name in ("by_color", "output_colors"):
            pes[name] = -1
        pes["colors"] = self.get("blank")
        for name in ("listening", "stream_ready", "result", "main_priority"):
            pes[name] = 1
        pes["transform_mask"] = 0x30
        pes["prngs"] = 0xDEADBEEF & 0x7FFFFF
        addresses = pes.addresses().reshape(self.program.height, width)
        neighbors = pes["neighbors"].reshape(self.program.height, width, 4)
        neighbors[1:, :, 0] = addresses[:-1]
        neighbors[:-1, :, 1] = addresses[1:]
        neighbors[:, :-1, 2] = addresses[:, 1:]
        neighbors[:, 1:, 3] = addresses[:, :-1]

    def optimise(self) -> None:
        """Go on with better machine code, if this is not the best; while none of it runs."""
        if not self.quick:
            return
        self.quick = False
        quick, better = self._translation.address, self.lib.load(self._translation.code.text())
        pairs: dict[int, int] = {}
        for loaded, context in zip(self.images, self._translation.code.images, strict=True):
            for index, name in enumerate(context.names):
                symbol = context.symbol(name)
                pairs[quick(symbol)] = better(symbol)
                loaded.table["address"][index] = better(symbol)
        # Frames hold what a function keeps from one call to the next, the same in either code.
        table = np.array(sorted(pairs.items()), dtype=np.int64)
        self.lib.call("exchange_code", self.m, address_of(table), len(table))

    def _fill_image(self, context: ImageContext, number: int) -> LoadedImage:
        image, structs = context.image, self.lib.structs
        names = context.names
        functions = Records(structs["Fn"], max(len(names), 1))
        loaded = LoadedImage(image, number, np.flatnonzero(self.tiles == number), functions)
        loaded.functions = {name: index for index, name in enumerate(names)}
        for index, name in enumerate(names):
            fn = image.functions[name]
            functions["address"][index] = self._translation.address(context.symbol(name))
            functions["frame_words"][index] = context.frame_words[name]
            functions["param_count"][index] = fn.param_count
            if fn.param_count > 16:
                raise NativeUnsupported(f"{name} has more than 16 parameters")
            for position in range(fn.param_count):
                functions["param_kinds"][index, position] = _param_kind(fn.registers[position], self.program.fp16)
        record = Records(structs["Image"], 1)
        record["functions"] = self.keep(functions.words)
        record["function_count"] = len(names)
        table = TaskTable(image, ROUTABLE_COLORS if self.costs.arch == "wse2" else INPUT_QUEUES)
        self._fill_tasks(record, table, image, loaded.functions)
        self.keep(record.words)
        rows = loaded.indexes
        pes = self.pes
        pes["image"][rows] = record.address
        pes["active_tasks"][rows] = _mask(table.active)
        pes["blocked_tasks"][rows] = _mask(table.blocked)
        for id_, value in table.counters.items():
            pes["rotating_counters"][rows, id_] = value
        pes["sp"][rows] = image.stack_top or MEMORY_BYTES
        pes["stack_floor"][rows] = image.data_end
        self._fill_frames(rows, max(context.frame_words.values(), default=8))
        self._fill_held(record, loaded)
        self._fill_memory(image, rows)
        self._fill_registers(context, image, rows)
        self._fill_queues(image, rows)
        return loaded

    def _fill_tasks(self, record: Records, table: TaskTable, image: ir.Image, functions: dict[str, int]) -> None:
        for name in ("local_tasks", "data_tasks", "control_tasks", "rotating", "teardown_handlers"):
            record[name] = -1
        for name, tasks in (("local_tasks", table.local), ("data_tasks", table.data), ("control_tasks", table.control)):
            for id_, fn in tasks.items():
                if not 0 <= id_ < min(record[name].shape[1], 63 if name != "control_tasks" else 128):
                    raise NativeUnsupported(f"task id {id_}")
                record[name][0, id_] = functions[fn]
        for id_, (alternative, limit) in table.rotating.items():
            if not 0 <= id_ < 63:
                raise NativeUnsupported(f"task id {id_}")
            record["rotating"][0, id_] = functions[alternative]
            record["rotating_limit"][0, id_] = limit
        for color, handler in image.teardown_handlers.items():
            record["teardown_handlers"][0, color] = functions[handler]
        if len(image.empty_queue_handlers) > 32:
            raise NativeUnsupported("more than 32 handlers of empty queues")
        record["empty_count"] = len(image.empty_queue_handlers)
        for position, (side, queue, handler) in enumerate(image.empty_queue_handlers):
            record["empty_side"][0, position] = int(side == "output")
            record["empty_queue"][0, position] = queue
            record["empty_handler"][0, position] = functions[handler]

    def _fill_frames(self, rows: npt.NDArray[np.int64], largest: int) -> None:
        words = max(_FRAME_WORDS, 16 * largest)
        start = self.keep(lazy_words(words * len(rows)))
        places = start + 8 * words * np.arange(len(rows), dtype=np.int64)
        self.pes["frames"][rows] = places
        self.pes["frame_end"][rows] = places + 8 * words

    def _fill_held(self, record: Records, loaded: LoadedImage) -> None:
        begin, end = held_range(loaded.image)
        words, rows = max(end - begin, 0) // 8, loaded.indexes
        held = lazy_words(words * len(rows))[: words * len(rows)]
        self.pes["held"][rows] = self.keep(held) + 8 * words * np.arange(len(rows), dtype=np.int64)
        record["held_begin"], record["held_words"] = begin, words
        loaded.held = held.view(np.uint8).reshape(len(rows), 8 * words)

    def held(self, index: int) -> HeldWords:
        """What a PE's variables held when it last read the counter."""
        loaded = self.images[int(self.tiles[index])]
        row = int(np.searchsorted(loaded.indexes, index))
        return HeldWords(held_range(loaded.image)[0], memoryview(loaded.held[row]))

    def _fill_memory(self, image: ir.Image, rows: npt.NDArray[np.int64]) -> None:
        for variable in image.globals.values():
            if variable.init:
                end = variable.address + len(variable.init)
                if variable.address < 0 or end > MEMORY_BYTES:
                    raise NativeUnsupported(f"variable {variable.name!r} does not fit")
                self.memory[rows, variable.address : end] = np.frombuffer(variable.init, dtype=np.uint8)

    def _fill_registers(self, context: ImageContext, image: ir.Image, rows: npt.NDArray[np.int64]) -> None:
        for name, _ in image.settings:
            raise NativeUnsupported(
                "<message_passing>" if name == "message_open" else "priorities and masks that are set at comptime"
            )
        structs = self.lib.structs
        count = DSR_COUNT
        dsrs = Records(structs["Dsr"], count * len(rows))
        self.keep(dsrs.words)
        starts = np.arange(len(rows), dtype=np.int64) * count
        self.pes["dsrs"][rows] = dsrs.address + 8 * structs["Dsr"].words * starts
        for load in image.dsr_loads:
            assert isinstance(load.dsd, ir.Imm)
            assert isinstance(load.dsd.value, ir.Dsd)
            places = starts + context.sites.dsr(load.dsr)
            dsrs["valid"][places] = 1
            dsrs["save_address"][places] = int(load.save_address)
            dsrs["done_id"][places] = _wake_id(load.config.on_done)
            dsrs["control_id"][places] = _wake_id(load.config.on_control)
            config = np.array(context.sites.config_words(load.config), dtype=np.int64)
            dsrs["config"][places] = self.keep(config)
            dsrs.part("dsd", 23)[places, 0] = dsd_words(load.dsd.value)
        fifos = Records(structs["Fifo"], max(len(image.fifos), 1) * len(rows))
        self.keep(fifos.words)
        starts = np.arange(len(rows), dtype=np.int64) * max(len(image.fifos), 1)
        self.pes["fifos"][rows] = fifos.address + 8 * structs["Fifo"].words * starts
        for number, fifo in enumerate(image.fifos):
            places = starts + number
            if fifo.capacity <= 0:
                raise NativeUnsupported("a FIFO without room")
            for name in ("address", "element_bytes", "capacity"):
                fifos[name][places] = getattr(fifo, name)
            fifos["activate_push"][places] = fifo.activate_push
            fifos["activate_pop"][places] = fifo.activate_pop
            fifos["empty_action"][places] = _FIFO_ACTIONS.get(fifo.empty_action, 2)
            fifos["full_action"][places] = _FIFO_ACTIONS.get(fifo.full_action, 2)

    def _fill_queues(self, image: ir.Image, rows: npt.NDArray[np.int64]) -> None:
        """As `ports.Ports.__init__`."""
        pes, offset = self.pes, 8 * self.lib.structs["InQ"]["table_offset"]
        for queue in image.queues:
            if not 0 <= queue.color < ROUTABLE_COLORS or not 0 <= queue.queue < INPUT_QUEUES:
                raise NativeUnsupported(f"queue {queue.queue} with color {queue.color}")
            if queue.direction == "output":
                pes["output_colors"][rows, queue.queue] = queue.color
                continue
            for row in rows:
                place = self.lib.call("add_input", self.m, pes.address_at(int(row)), queue.queue, queue.color)
                if image.control_table is not None:
                    entry = ctypes.c_int64.from_address(place + offset)
                    entry.value = queue.ctrl_table_id * image.control_table[1]
        if self.get("stop"):
            raise NativeUnsupported("too many queues")

    # ------------------------------------------------------------------------------------------ colors

    def _fill_colors(self) -> None:
        layout = self.lib.structs["Color"]
        outlets = [color for color, way in self.program.stream_colors.items() if way == "d2h"]
        rows: list[int] = []
        colors: list[int] = []
        kinds: list[int] = []
        known: dict[int, int] = {}
        found: list[ir.ColorConfig | None] = [None]
        every = (configs for line in self.program.colors for configs in line)
        for row, configs in enumerate(every):
            for color, config in configs.items():
                kind = known.setdefault(id(config), len(found))
                if kind == len(found):
                    found.append(config)
                rows.append(row)
                colors.append(color)
                kinds.append(kind)
            for color in outlets:
                if color not in configs:
                    rows.append(row)
                    colors.append(color)
                    kinds.append(0)
        for color in (*self.program.stream_colors, *set(colors)):
            if not 0 <= color < ROUTABLE_COLORS:
                raise NativeUnsupported(f"color {color}")
        if not rows:
            return
        words = np.array([_color_words(config, layout) for config in found], dtype=np.int64)
        states = Records(layout, len(rows), lazy_words(layout.words * len(rows), dense=True))
        states.words[: words.shape[1] * len(rows)] = words[kinds].reshape(-1)
        self.keep(states.words)
        states["has_sink"] = np.isin(colors, outlets)
        self.pes["colors"][rows, colors] = states.addresses()
        for name in ("swap_x", "swap_y"):
            swapped = np.array([config is not None and getattr(config, f"color_{name}") for config in found])[kinds]
            np.bitwise_or.at(self.pes[name], np.array(rows)[swapped], np.int64(1) << np.array(colors)[swapped])


def event_pools(state: LoadedProgram, machine: Records, pes: int) -> None:
    """Give a machine room for the events of so many PEs."""
    structs = state.lib.structs
    reserve = 24 * pes + 4096
    capacity = 8 * reserve
    machine["reserve"] = reserve
    machine["nodes"] = state.keep(lazy_words(structs["Node"].words * capacity, dense=True))
    machine["slots"] = state.keep(lazy_words(structs["Slot"].words * capacity))
    machine["heap"] = state.keep(lazy_words(capacity))
    machine["heap_slots"] = state.keep(lazy_words(capacity))
    machine["buckets"] = state.keep(lazy_words(1 << 16))
    machine["bucket_mask"] = (1 << 16) - 1
    for pool in ("node", "slot"):
        machine[f"{pool}_capacity"] = capacity
        machine[f"{pool}_next"] = 1
        machine[f"{pool}_free"] = 0
        machine[f"{pool}_live"] = 0
    machine["heap_count"] = 0


def _color_words(config: ir.ColorConfig | None, layout: Any) -> list[int]:
    words = [0] * layout.words
    if config is None:
        return words
    state = ColorState(0, config)

    def put(name: str, value: int, index: int = 0) -> None:
        words[layout[name] + index] = int(value)

    put("exists", 1)
    put("configured", state.configured)
    put("current", state.current)
    put("ring", state.ring)
    put("pop_mode", state.pop_mode)
    put("teardown", state.teardown)
    put("merges", state.merges)
    for position in range(4):
        put("rx", state.rx[position], position)
        put("tx", state.tx[position], position)
        put("valid", state.valid[position], position)
        rx, tx, valid = state.overrides[position]
        put("new_rx", rx, position)
        put("new_tx", tx, position)
        put("new_valid", valid, position)
    if not 0 <= state.current <= 3:
        raise NativeUnsupported(f"switch position {state.current}")
    filter_ = config.filter
    if filter_ is not None:
        put("has_filter", 1)
        put("filter_range", filter_.kind == "range")
        put("filter_sparse", filter_.kind == "sparse_counter")
        put("count_data", filter_.count_data)
        put("count_control", filter_.count_control)
        put("filter_control", filter_.filter_control)
        put("counter", filter_.init_counter)
        put("limit", filter_.limit1)
        put("second_limit", filter_.limit2)
        put("max_counter", filter_.max_counter)
        put("min_idx", filter_.min_idx)
        put("max_idx", filter_.max_idx)
    return words


def _mask(bits: int) -> int:
    if bits >> 63:
        raise NativeUnsupported("task ids above 62")
    return bits


def _wake_id(wake: ir.Wake | None) -> int:
    return int(wake.id.value) if wake is not None and isinstance(wake.id, ir.Imm) else 0  # type: ignore[arg-type]


def _param_kind(type_: ir.ScalarType, half: str) -> int:
    """As the kernel's `argument` reads it: 4 * bits + (0 unsigned, 1 signed, 2 f32, 3 half)."""
    if type_.kind == "dsd":
        return 0
    if type_.kind == "int":
        return 4 * type_.bits + int(type_.signed)
    if type_.bits == 32:
        return 4 * 32 + 2
    if type_.name != half:
        raise NativeUnsupported(f"a parameter of {type_.name} in a program of {half}")
    return 4 * 16 + 3
