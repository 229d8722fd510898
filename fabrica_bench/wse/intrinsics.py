"""What only the machine does: one entry per name of `ir.INTRINSICS`.

`synchronizes`: the intrinsic looks at, or changes, something that others change in the meantime (queues, routers, the
host), so the thread must first let the clock catch up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from fabrica_bench.csl import ir
from fabrica_bench.csl.floats import FORMATS
from fabrica_bench.wse import numeric
from fabrica_bench.wse.costs import CostTable
from fabrica_bench.wse.filters import Filter
from fabrica_bench.wse.messages import open_link
from fabrica_bench.wse.router import ColorState

if TYPE_CHECKING:
    from fabrica_bench.wse.pe import ProcessingElement as Pe


class IntrinsicEntry(NamedTuple):
    """`run(pe, *args[, text])`; `cost` names the table entry."""

    run: Callable[..., Any]
    cost: str = "intrinsic.default"
    takes_text: bool = False
    synchronizes: bool = False
    prepare: Callable[[str, str], Callable[..., float]] | None = None


class AssertionFailed(Exception):
    """`@assert` found false; carries the condition's source text and the values of its operands, by name."""

    def __init__(self, text: str, values: Mapping[str, str]) -> None:
        super().__init__(text)
        self.values = values


class Unsupported(Exception):
    """A machine feature whose behaviour is not documented well enough to simulate."""


INTRINSIC_TABLE: dict[str, IntrinsicEntry] = {}


def _intrinsic(
    name: str, cost: str = "intrinsic.default", *, text: bool = False, sync: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        INTRINSIC_TABLE[name] = IntrinsicEntry(function, cost, text, sync)
        return function

    return register


def intrinsic_cost(instr: ir.Intrinsic, costs: CostTable) -> int:
    """Cycles of an intrinsic."""
    if instr.name == "math":
        return costs.get(f"math.{instr.text.split(':')[0]}", "math.default")
    return costs[INTRINSIC_TABLE[instr.name].cost]


# ------------------------------------------------------------------------------------------------------- tasks


@_intrinsic("activate", "task.activate")
def _activate(pe: Pe, id_: int) -> None:
    pe.activate(id_)


@_intrinsic("block", "task.activate", text=True)
def _block(pe: Pe, id_: int, space: str) -> None:
    pe.block(space, id_)


@_intrinsic("unblock", "task.activate", text=True)
def _unblock(pe: Pe, id_: int, space: str) -> None:
    pe.unblock(space, id_)


@_intrinsic("task_priority")
def _task_priority(pe: Pe, id_: int, level: int) -> None:
    pe.set_task_priority(id_, level)


@_intrinsic("main_priority", sync=True)
def _main_priority(pe: Pe, level: int) -> None:
    pe.set_main_priority(level)


@_intrinsic("assert", text=True)
def _assert(pe: Pe, condition: int, text: str) -> None:
    if not condition:
        raise AssertionFailed(text, {})


def fail_assertion(instr: ir.Intrinsic, registers: Mapping[str, Any]) -> None:
    """End the run for an assertion that shows values; registers are named as in generated code (`r7`)."""

    def value_of(operand: ir.Operand) -> Any:
        return registers[f"r{operand.index}"] if isinstance(operand, ir.Reg) else getattr(operand, "value", None)

    raise AssertionFailed(
        instr.text,
        {
            name: numeric.show(value_of(operand), type_)
            for name, operand, type_, guards in instr.shown
            if all(bool(value_of(guard)) == wanted for guard, wanted in guards)
        },
    )


# --------------------------------------------------------------------------------------------- place, time, host


@_intrinsic("x_coord")
def _x_coord(pe: Pe) -> int:
    return pe.x


@_intrinsic("y_coord")
def _y_coord(pe: Pe) -> int:
    return pe.y


@_intrinsic("tsc_enable")
def _tsc_enable(pe: Pe) -> None:
    pe.counter.enable(pe.t)
    pe.clock.first_read = -1


@_intrinsic("tsc_disable")
def _tsc_disable(pe: Pe) -> None:
    pe.counter.disable(pe.t)


@_intrinsic("tsc_reset")
def _tsc_reset(pe: Pe) -> None:
    pe.counter.reset(pe.t)


@_intrinsic("tsc_read", "intrinsic.tsc_read")
def _tsc_read(pe: Pe, address: int) -> None:
    value = pe.counter.value(pe.t)
    pe.memory.write_int(address, value, 6)
    pe.note_reading(value)


@_intrinsic("perf_read", "intrinsic.tsc_read")
def _perf_read(pe: Pe, address: int, id_: int) -> None:
    raise Unsupported(f"performance counter {id_}: what the hardware counters count is not documented")


@_intrinsic("unblock_cmd_stream", sync=True)
def _unblock_cmd_stream(pe: Pe) -> None:
    pe.unblock_cmd_stream()


@_intrinsic("print", "intrinsic.print")
def _print(pe: Pe, address: int, length: int) -> None:
    pe.print_bytes(pe.memory.read(address, length))


@_intrinsic("print_text", "intrinsic.print", text=True)
def _print_text(pe: Pe, text: str) -> None:
    pe.print_bytes(text.encode("latin-1", "replace"))


@_intrinsic("symbol_value", text=True)
def _symbol_value(pe: Pe, id_: int, type_name: str) -> int | float:
    type_ = scalar_type(type_name)
    return numeric.from_bits(pe.memory.read_int(pe.export_address(id_), type_.size), type_)


@_intrinsic("tensor_ptr")
def _tensor_ptr(pe: Pe, id_: int) -> int:
    return pe.memory.read_int(pe.export_address(id_), 2)


def scalar_type(name: str) -> ir.ScalarType:
    """Scalar type of a CSL name such as `u16` or `f32`."""
    if name in FORMATS:
        return ir.ScalarType("float", FORMATS[name].bits, True, name)
    if name == "bool":
        return ir.BOOL
    if name[:1] in "iu" and name[1:].isdigit():
        return ir.int_type(int(name[1:]), name[0] == "i")
    return ir.U16


# ------------------------------------------------------------------------------------------------ random, math

_LFSR_BITS = 23
_LFSR_STEPS = 128


def _step_lfsr(state: int) -> int:
    for _ in range(_LFSR_STEPS):
        state = state >> 1 | ((state ^ state >> 5) & 1) << (_LFSR_BITS - 1)
    return state


@cache
def _lfsr_tables() -> list[list[int]]:
    """The register is linear: its next state is the XOR of the next states of its bytes."""
    return [[_step_lfsr(byte << shift) for byte in range(256)] for shift in (0, 8, 16)]


def advance_lfsr(state: int) -> int:
    """128 steps of the LFSR x^23 + x^18 + 1 (Cerebras SDK docs, `@random16`).

    The documentation doesn't say which way the register shifts. To the right, the Monte Carlo estimate of the official
    tutorial topic-02-libraries is inside its tolerance, as on the vendor's simulator; to the left it is not.
    """
    low, middle, high = _lfsr_tables()
    return low[state & 255] ^ middle[state >> 8 & 255] ^ high[state >> 16]


@_intrinsic("random16", "intrinsic.random")
def _random16(pe: Pe) -> int:
    index = pe.active_prng
    pe.prngs[index] = state = advance_lfsr(pe.prngs[index])
    return state & 0xFFFF


@_intrinsic("set_active_prng")
def _set_active_prng(pe: Pe, index: int) -> None:
    pe.active_prng = index % len(pe.prngs)


def _prepare_math(text: str, half: str) -> Callable[..., float]:
    name, _, type_name = text.partition(":")
    if name not in numeric.MATH_FUNCTIONS:
        raise Unsupported(f"math function {name!r}")
    function = numeric.MATH_FUNCTIONS[name]
    round_ = numeric.rounder(ir.F32 if type_name == "f32" else ir.ScalarType("float", 16, True, half))

    def run(*args: float) -> float:
        return round_(function(*args))

    return run


INTRINSIC_TABLE["math"] = IntrinsicEntry(_activate, prepare=_prepare_math)


# ------------------------------------------------------------------------------------------------------ queues


@_intrinsic("queue_flush", "intrinsic.config_access", text=True, sync=True)
def _queue_flush(pe: Pe, queue: int, side: str) -> None:
    pe.flush_queue(side, queue)


@_intrinsic("queue_flush_exit", "intrinsic.config_access", text=True, sync=True)
def _queue_flush_exit(pe: Pe, queue: int, side: str) -> None:
    pe.flushed[side] &= ~(1 << queue)


@_intrinsic("queue_flush_status", "intrinsic.config_access", text=True, sync=True)
def _queue_flush_status(pe: Pe, side: str) -> int:
    return pe.flushed[side]


@_intrinsic("queue_status", "intrinsic.config_access", text=True, sync=True)
def _queue_status(pe: Pe, side: str) -> int:
    return pe.queue_status(side)


@_intrinsic("rebind_queue", "intrinsic.config_access", text=True, sync=True)
def _rebind_queue(pe: Pe, queue: int, color: int, side: str) -> None:
    pe.rebind_queue(side, queue, color)


# ------------------------------------------------------------------------------------------------------ router


@_intrinsic("config_read", "intrinsic.config_access", sync=True)
def _config_read(pe: Pe, address: int) -> int:
    return pe.registers.read(address) or 0


@_intrinsic("config_write", "intrinsic.config_access", sync=True)
def _config_write(pe: Pe, address: int, value: int) -> None:
    if not pe.registers.write(address, value & 0xFFFF):
        pe.config_words[address] = value & 0xFFFF


@_intrinsic("teardown_pending", "intrinsic.config_access", sync=True)
def _teardown_pending(pe: Pe) -> int:
    return pe.take_teardown_pending()


@_intrinsic("teardown_exit", "intrinsic.config_access", sync=True)
def _teardown_exit(pe: Pe, color: int) -> None:
    _reconfigured(pe, color).teardown = False


@_intrinsic("color_set_routes", "intrinsic.config_access", sync=True)
def _color_set_routes(pe: Pe, color: int, rx: int, tx: int) -> None:
    _set_routes(pe, color, rx, tx)


@_intrinsic("color_toggle_route", "intrinsic.config_access", sync=True)
def _color_toggle_route(pe: Pe, color: int, rx: int, tx: int) -> None:
    old_rx, old_tx, _ = pe.router.color_state(color).overrides[0]
    _set_routes(pe, color, old_rx ^ rx, old_tx ^ tx)


@_intrinsic("color_clear_route", "intrinsic.config_access", sync=True)
def _color_clear_route(pe: Pe, color: int, rx: int, tx: int) -> None:
    old_rx, old_tx, _ = pe.router.color_state(color).overrides[0]
    _set_routes(pe, color, old_rx & ~rx, old_tx & ~tx)


@_intrinsic("color_add_route", "intrinsic.config_access", sync=True)
def _color_add_route(pe: Pe, color: int, rx: int, tx: int) -> None:
    old_rx, old_tx, _ = pe.router.color_state(color).overrides[0]
    _set_routes(pe, color, old_rx | rx, old_tx | tx)


def _set_routes(pe: Pe, color: int, rx: int, tx: int) -> None:
    state = _reconfigured(pe, color)
    state.overrides[0] = (rx & 31, tx & 31, True)
    state.resolve()


@_intrinsic("switch_set_position", "intrinsic.config_access", sync=True)
def _switch_set_position(pe: Pe, color: int, position: int, rx: int, tx: int) -> None:
    state = _reconfigured(pe, color)
    if 1 <= position <= 3:
        state.overrides[position] = (rx & 31, tx & 31, True)
    state.resolve()


@_intrinsic("switch_invalidate", "intrinsic.config_access", sync=True)
def _switch_invalidate(pe: Pe, color: int) -> None:
    state = _reconfigured(pe, color)
    state.overrides[1:] = [(0, 0, False)] * 3
    state.resolve()


@_intrinsic("switch_set_current", "intrinsic.config_access", sync=True)
def _switch_set_current(pe: Pe, color: int, position: int) -> None:
    _reconfigured(pe, color).current = position & 3


@_intrinsic("switch_set_ring", "intrinsic.config_access", sync=True)
def _switch_set_ring(pe: Pe, color: int, ring: int) -> None:
    _reconfigured(pe, color).ring = bool(ring)


@_intrinsic("switch_set_pop", "intrinsic.config_access", sync=True)
def _switch_set_pop(pe: Pe, color: int, mode: int) -> None:
    _reconfigured(pe, color).pop_mode = mode & 3


def _reconfigured(pe: Pe, color: int) -> ColorState:
    """State of a color about to be changed; the router looks at it again in the next cycle."""
    if not 0 <= color < 24:
        raise Unsupported(f"color {color}: only colors 0 to 23 are routable")
    pe.fabric.wake_router(pe.router, pe.fabric.now + 1)
    return pe.router.color_state(color)


@_intrinsic("filter_set", "intrinsic.config_access", text=True, sync=True)
def _filter_set(pe: Pe, id_: int, value: int, what: str) -> None:
    filter_ = _filter(pe, id_)
    if what == "counter":
        filter_.counter = value
    elif what == "max_counter":
        filter_.max_counter = value
    else:
        filter_.limit = value


@_intrinsic("filter_get", "intrinsic.config_access", text=True, sync=True)
def _filter_get(pe: Pe, id_: int, what: str) -> int:
    filter_ = _filter(pe, id_)
    values = {
        "counter": filter_.counter,
        "state": int(filter_.counter > filter_.max_counter),
        "pass_count": filter_.passed,
        "drop_count": filter_.dropped,
    }
    return values[what] & 0xFFFF


def _filter(pe: Pe, id_: int) -> Filter:
    """Filters are numbered in the order of their colors."""
    filters = [state.filter for _, state in sorted(pe.router.colors.items()) if state.filter is not None]
    if not 0 <= id_ < len(filters):
        raise Unsupported(f"filter {id_}: this PE has {len(filters)} filter(s)")
    return filters[id_]


@_intrinsic("message_open", sync=True)
def _message_open(pe: Pe, color: int) -> None:
    open_link(pe, color)


@_intrinsic("control_transform_mask", "intrinsic.config_access", sync=True)
def _control_transform_mask(pe: Pe, mask: int) -> None:
    pe.transform_mask = mask & 0x3F


@_intrinsic("fifo_read_length")
def _fifo_read_length(pe: Pe, index: int, length: int) -> None:
    pe.fifos[index].read_length = length


@_intrinsic("fifo_write_length")
def _fifo_write_length(pe: Pe, index: int, length: int) -> None:
    pe.fifos[index].write_length = length
