"""Queues and FIFOs."""

from __future__ import annotations

from typing import Any

from fabrica_bench.csl import ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.dsd import PRIORITIES, SIMD_MODES, Properties
from fabrica_bench.csl.builtins.registry import Call, builtin
from fabrica_bench.csl.builtins.tasks import check_teardown_id, handler_argument
from fabrica_bench.csl.linker import FIFO_ALIGNMENT
from fabrica_bench.csl.sema import access, places
from fabrica_bench.csl.sema.calls import runtime_instance
from fabrica_bench.csl.sema.unit import PeState
from fabrica_bench.csl.values import VOID_VALUE, Const, FifoRef, FnValue, GlobalVar, Ref, Value

# --------------------------------------------------------------------------------------------------------- queues


def _queue(call: Call, index: int) -> tuple[Any, int]:
    """A comptime-known queue: direction and number."""
    value = call.const(index)
    if value.type not in (t.INPUT_QUEUE, t.OUTPUT_QUEUE):
        hint = "make one with @get_input_queue(n) or @get_output_queue(n)"
        call.fail(f"expected a queue, got: '{value.type.name}'", index, hint)
    return ("input" if value.type == t.INPUT_QUEUE else "output"), int(value.data)


@builtin("initialize_queue", args=(1, 2), contexts="T")
def initialize_queue(call: Call) -> Value:
    state = call.frame.unit.pe(call.span)
    direction, number = _queue(call, 0)
    arch = call.frame.unit.session.arch
    if (direction, number) in state.queues:
        place = state.queues[direction, number][1]
        call.fail(f"{direction} queue {number} is initialized twice", hint=f"first initialized at {place}")
    known = ("color", "priority") if arch == "wse2" else ("color", "ctrl_table_id")
    values: dict[str, Value] = {}
    priority, table = "", 0
    color = -1
    if call.count == 2:
        given = Properties(call.frame, call.value(1), call.arg_span(1), "the queue configuration", known)
        values = given.values
        value = given.typed("color", t.COLOR)
        if value is not None:
            if not isinstance(value, Const):
                call.fail("the color of a queue must be comptime-known", 1)
            color = value.data
        priority = given.one_of("priority", PRIORITIES)
        table_value = given.typed("ctrl_table_id", t.U16)
        table = table_value.data if isinstance(table_value, Const) else 0
    if arch == "wse2" and direction == "output":
        if values:
            call.fail("an output queue takes no configuration on wse2", 1)
    elif color < 0:
        call.fail(f"{direction} queue {number} needs a color", hint=".{ .color = c }")
    if table and direction == "output":
        call.fail("'ctrl_table_id' belongs to input queues", 1)
    state.queues[direction, number] = (ir.QueueInit(direction, number, color, priority, table), call.span)
    return VOID_VALUE


@builtin("queue_flush", args=1, contexts="R")
def queue_flush(call: Call) -> Value:
    if call.frame.unit.session.arch != "wse3":
        call.fail("@queue_flush is not available on wse2")
    value = call.value(0)
    if value.type not in (t.INPUT_QUEUE, t.OUTPUT_QUEUE):
        call.fail(f"expected a queue, got: '{value.type.name}'", 0)
    text = "input" if value.type == t.INPUT_QUEUE else "output"
    return call.intrinsic("queue_flush", (call.frame.operand(value, call.arg_span(0)),), text=text)


@builtin("set_empty_queue_handler", args=2, contexts="T")
def set_empty_queue_handler(call: Call) -> Value:
    if call.frame.unit.session.arch != "wse3":
        call.fail("@set_empty_queue_handler is not available on wse2")
    state = call.frame.unit.pe(call.span)
    queue = _queue(call, 1)
    if queue in state.empty_queue:
        call.fail(f"{queue[0]} queue {queue[1]} has a handler already", hint=f"set at {state.empty_queue[queue][1]}")
    check_teardown_id(call)
    state.empty_queue[queue] = (handler_argument(call, 0), call.span)
    return VOID_VALUE


# ---------------------------------------------------------------------------------------------------------- FIFOs

_ACTIONS = ("test_or_suspend", "terminate", "suspend", "fault")


@builtin("allocate_fifo", args=(1, 2), contexts="CT")
def allocate_fifo(call: Call) -> Value:
    if not call.frame.decl_name:
        call.fail("@allocate_fifo must be the value of a global constant")
    state = call.frame.unit.pe(call.span)
    buffer = _buffer(call)
    assert isinstance(buffer.type, t.ArrayType)
    name = call.frame.module.symbol(call.frame.decl_name)
    fifo = ir.Fifo(name, 0, t.size_of(buffer.type.element), buffer.type.count)
    push = pop = None
    if call.count == 2:
        given = Properties(call.frame, call.value(1), call.arg_span(1), "the FIFO configuration", _fifo_fields(call))
        fifo, push, pop = _configure_fifo(call, state, fifo, given)
    buffer.is_runtime_used = True
    state.fifos.append((fifo, buffer, push, pop))
    return Const(t.FifoType(buffer.type.element), FifoRef(len(state.fifos) - 1, name))


def _fifo_fields(call: Call) -> tuple[str, ...]:
    common = ("activate_push", "activate_pop", "priority", "empty_action", "dest", "src", "xdsr")
    return (*common, "simd_mode") if call.frame.unit.session.arch == "wse2" else (*common, "full_action")


def _buffer(call: Call) -> GlobalVar:
    place = places.place_of(call.frame, call.node.args[0])
    if isinstance(place.type, t.PointerType):
        pointer = access.load(call.frame, place, call.arg_span(0))
        found = pointer.data.root if isinstance(pointer, Const) and isinstance(pointer.data, Ref) else None
    else:
        found = place.variable if isinstance(place, places.GlobalPlace) else None
    if found is None or not isinstance(found.type, t.ArrayType) or found.is_const:
        call.fail("the buffer of a FIFO must be a global variable of array type", 0)
    element = found.type.element
    if not isinstance(element, t.IntType | t.FloatType) or element.bits not in (16, 32):
        call.fail(f"the elements of a FIFO must be 16-bit or 32-bit numbers, got: '{element.name}'", 0)
    if found.alignment not in (t.align_of(found.type), FIFO_ALIGNMENT) and found.alignment < FIFO_ALIGNMENT:
        call.fail(f"the buffer of a FIFO needs an alignment of at least {FIFO_ALIGNMENT} bytes", 0)
    found.alignment = max(found.alignment, FIFO_ALIGNMENT)
    return found


def _configure_fifo(
    call: Call, state: PeState, fifo: ir.Fifo, given: Properties
) -> tuple[ir.Fifo, ir.Operand | None, ir.Operand | None]:
    registers = [name for name in ("dest", "src", "xdsr") if name in given.values]
    if registers and len(registers) != 3:
        call.fail("'dest', 'src' and 'xdsr' must be given together", 1)
    if registers:
        dest, src = given.const("dest"), given.const("src")
        assert dest is not None
        assert src is not None
        if not (isinstance(dest.data, ir.DsrRef) and isinstance(src.data, ir.DsrRef)):
            call.fail("'dest' and 'src' must be DSRs", 1)
        if dest.data.index != src.data.index:
            call.fail("the 'dest' and 'src' registers of a FIFO must have the same number", 1)
        for register in (dest.data, src.data):
            if register in state.fifo_registers:
                call.fail(f"register {register.index} of file '{register.file}' holds another FIFO already", 1)
            state.fifo_registers[register] = len(state.fifos)
    if given.one_of("simd_mode", SIMD_MODES) not in ("", "simd_off"):
        call.fail("the SIMD modes of a FIFO are not supported", 1, "remove 'simd_mode'")
    empty = given.one_of("empty_action", _ACTIONS) or _ACTIONS[0]
    full = given.one_of("full_action", _ACTIONS) or _ACTIONS[0]
    if call.frame.unit.session.arch == "wse2" and empty in ("suspend", "fault"):
        call.fail(f"empty_action '{empty}' is not available on wse2", 1)
    fifo = fifo._replace(empty_action=empty, full_action=full, priority=given.one_of("priority", PRIORITIES))
    return fifo, _local_task(call, given, "activate_push"), _local_task(call, given, "activate_pop")


def _local_task(call: Call, given: Properties, name: str) -> ir.Operand | None:
    value = given.const(name)
    if value is None:
        return None
    if isinstance(value.data, FnValue) and value.data.decl.kind == "task":
        return ir.FnAddr(runtime_instance(call.frame.unit, value.data, call.arg_span(1)).name)
    if value.type != t.LOCAL_TASK_ID:
        call.fail(f"'{name}' needs a local_task_id or a task, got: '{value.type.name}'", 1)
    return ir.Imm(value.data)


@builtin("set_fifo_read_length", "set_fifo_write_length", args=2, contexts="R")
def set_fifo_length(call: Call) -> Value:
    fifo = call.const(0)
    if not isinstance(fifo.data, FifoRef):
        call.fail(f"expected a FIFO, got: '{fifo.type.name}'", 0)
    name = "fifo_read_length" if call.name == "set_fifo_read_length" else "fifo_write_length"
    return call.intrinsic(name, (ir.Imm(fifo.data.number), call.operand(1, t.U16)))
