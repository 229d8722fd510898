"""What a compute element holds beside its threads and queues: memory, registers, task flags, place and reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ir
from fabrica_bench.wse.config_space import CONFIG_START, ConfigSpace
from fabrica_bench.wse.evidence import HeldWords, PeClock, held_range
from fabrica_bench.wse.faults import Fault, PePosition, SourceLocation
from fabrica_bench.wse.memory import MEMORY_BYTES, AccessError, PeMemory
from fabrica_bench.wse.queues import FifoState
from fabrica_bench.wse.registers import Dsr, TimestampCounter
from fabrica_bench.wse.router import Router
from fabrica_bench.wse.tasks import TEARDOWN_TASK, TaskTable

if TYPE_CHECKING:
    from fabrica_bench.wse.executor import ImageCode
    from fabrica_bench.wse.fabric import Fabric
    from fabrica_bench.wse.machine import Machine

ROUTABLE_COLORS = 24
INPUT_QUEUES = 8
_PRNG_COUNT = 4
_PRNG_START = 0xDEADBEEF & 0x7FFFFF
_PRINT_BUFFER = 1024


class Element(ABC):
    """State of one compute element that its own code changes. `t` is the cycle its main thread has reached, `loc` the
    source location it is at; `result` is the outcome of the last DSD operation."""

    def __init__(self, machine: Machine, fabric: Fabric, router: Router, code: ImageCode, memory: PeMemory) -> None:
        image = code.image
        self.machine = machine
        self.fabric = fabric
        self.router = router
        self.code = code
        self.image = image
        self.memory = memory
        self.x, self.y = router.x, router.y
        self.scheduled = -1
        self.stepped = -1
        self.is_wse2 = fabric.costs.arch == "wse2"
        self.t = 0
        self.loc = 0
        self.task_name = ""
        self.result = 1
        self.sp = image.stack_top or MEMORY_BYTES
        self.stack_floor = image.data_end
        self._wake_delay = fabric.costs["task.wake"]
        self.tasks = TaskTable(image, ROUTABLE_COLORS if self.is_wse2 else INPUT_QUEUES)
        self.blocked_threads = 0
        self.fifos = [FifoState(config) for config in image.fifos]
        self._dsrs: dict[tuple[str, int], Dsr] = {}
        self.counter = TimestampCounter()
        self.clock = PeClock()
        self.held: HeldWords | None = None
        self.prngs = [_PRNG_START] * _PRNG_COUNT
        self.active_prng = 0
        self.carry = 0
        self.transform_mask = 0x30
        self.config_words = dict(image.config_words)
        self.registers = ConfigSpace(self, self.config_words)
        memory.u16[CONFIG_START] = self.registers
        memory.i16[CONFIG_START] = ConfigSpace(self, self.config_words, signed=True)
        self._teardown_pending = 0
        # Cycles by source location, counted by executors that were asked to; see `profile`.
        self.line_cycles: list[int] = [0] * len(image.locations)
        self._print = bytearray()
        self.stream_ready = True
        self._load_image()

    @abstractmethod
    def step(self, now: int) -> None:
        """Execute one cycle."""

    def _load_image(self) -> None:
        for variable in self.image.globals.values():
            if variable.init:
                try:
                    self.memory.write(variable.address, variable.init)
                except AccessError as error:
                    raise self.fault(f"variable {variable.name!r} does not fit: {error}", {}) from error
        for load in self.image.dsr_loads:
            self.load_dsr((load.dsr, load.config, load.save_address, load.single_step), *_static_load(load))

    # ------------------------------------------------------------------------------------------ flags

    def activate(self, id_: int) -> None:
        """Set the active flag of a local task."""
        self._check_bound(id_)
        self.tasks.activate(id_)

    def _check_bound(self, id_: int) -> None:
        if id_ not in self.tasks.local and id_ != TEARDOWN_TASK:
            raise self.fault(f"local task {id_} is activated, but no task is bound to this id", {"id": id_})

    def block(self, space: str, id_: int) -> None:
        """Set a block flag."""
        if space == "ut":
            self.blocked_threads |= 1 << id_
        else:
            self.tasks.blocked |= 1 << (id_ & 31)

    def unblock(self, space: str, id_: int) -> None:
        """Clear a block flag."""
        if space == "ut":
            self.blocked_threads &= ~(1 << id_)
            self.fabric.wake_pe(self, self.fabric.now + 1)
        else:
            self.tasks.blocked &= ~(1 << (id_ & 31))

    def wake(self, wake: ir.Wake, id_: int, cycle: int) -> None:
        """What a completion or a control wavelet asks for in `cycle`."""
        if wake.action == "activate":
            self._check_bound(id_)
            if self._wake_delay:
                self.tasks.activate_at(id_, cycle + self._wake_delay)
                self.fabric.wake_pe(self, cycle + self._wake_delay)
            else:
                self.tasks.activate_late(id_, self.fabric.now)
        elif wake.action == "unblock":
            self.unblock(wake.space, id_)

    def set_task_priority(self, id_: int, level: int) -> None:
        """HIGH (1) or LOW (0)."""
        self.tasks.high = self.tasks.high & ~(1 << id_) | (1 << id_ if level else 0)

    def on_teardown(self, color: int) -> None:
        """A TEARDOWN command took effect at the router."""
        self._teardown_pending |= 1 << color
        self.activate(TEARDOWN_TASK)
        self.fabric.wake_pe(self, self.fabric.now + 1)

    def take_teardown_pending(self) -> int:
        """Colors torn down since the last call."""
        pending, self._teardown_pending = self._teardown_pending, 0
        return pending

    def unblock_cmd_stream(self) -> None:
        """The host may send the next command."""
        self.stream_ready = True
        self.clock.released = self.t
        self.machine.on_unblock(self, self.fabric.now)

    def note_reading(self, value: int) -> None:
        """The program was given this value of the time stamp counter."""
        self.clock.note(self.t, value)
        begin, end = held_range(self.image)
        self.held = HeldWords(begin, bytearray(self.memory.u8[begin:end]))

    # ------------------------------------------------------------------------------------------ registers

    def load_dsr(self, static: tuple[Any, ...], dsd: ir.Dsd, done_id: int, control_id: int) -> None:
        """Fill an explicit DSR."""
        ref, config, save_address, _ = static
        self._dsrs[(ref.file, ref.index)] = Dsr(dsd, config, done_id, control_id, save_address)

    def dsr(self, ref: ir.DsrRef) -> Dsr:
        """Contents of an explicit DSR."""
        dsr = self._dsrs.get((ref.file, ref.index))
        if dsr is None:
            raise self.fault(f"DSR {ref.file} {ref.index} is used before @load_to_dsr", {})
        return dsr

    def add_with_carry(self, a: int, b: int) -> int:
        """16-bit sum with the carry of the previous one."""
        total = a + b + self.carry
        self.carry = total >> 16
        return total & 0xFFFF

    # ------------------------------------------------------------------------------------------ host view, reports

    def export_address(self, id_: int) -> int:
        """Address of the exported variable with this id."""
        for export in self.machine.program.exports:
            if export.id == id_ and export.name in self.image.exports:
                return self.image.globals[self.image.exports[export.name].target].address
        raise self.fault(f"no exported symbol has id {id_} on this PE", {"id": id_})

    def print_bytes(self, data: bytes) -> None:
        """Append to the print buffer; a newline, or a full buffer, ends the line."""
        for byte in data:
            if byte == 10 or len(self._print) >= _PRINT_BUFFER:
                self.machine.log(self.t, self._print)
                self._print.clear()
            if byte != 10:
                self._print.append(byte)

    @property
    def position(self) -> PePosition:
        """Column and row."""
        return PePosition(self.x, self.y)

    def location(self, loc: int) -> SourceLocation:
        """Source place of a location index."""
        if 0 < loc < len(self.image.locations):
            return SourceLocation(*self.image.locations[loc])
        return SourceLocation(self.image.file)

    def source_line(self, location: SourceLocation) -> str:
        """Text of a source line, empty if the program does not carry it."""
        return self.machine.program.source_lines.get(location.file, {}).get(location.line, "")

    def describe(self, loc: int) -> str:
        """Text of a source place."""
        return str(self.location(loc))

    def fault(self, message: str, values: Mapping[str, object]) -> Fault:
        """A fault at the current place."""
        cycle = max(self.t, self.fabric.now)
        location = self.location(self.loc)
        return Fault(self.position, location, self.task_name, message, values, cycle, self.source_line(location))


def _static_load(load: ir.LoadDsr) -> tuple[ir.Dsd, int, int]:
    """Values of a comptime DSR load."""

    def number(wake: ir.Wake | None) -> int:
        return wake.id.value if wake is not None and isinstance(wake.id, ir.Imm) else 0  # type: ignore[return-value]

    assert isinstance(load.dsd, ir.Imm)
    assert isinstance(load.dsd.value, ir.Dsd)
    return load.dsd.value, number(load.config.on_done), number(load.config.on_control)
