"""The configuration struct of DSD operations and DSR loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.dsd import PRIORITIES, Properties
from fabrica_bench.csl.builtins.registry import Call
from fabrica_bench.csl.builtins.tasks import id_space, names_task
from fabrica_bench.csl.sema.calls import runtime_instance
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.values import Const, FnValue, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabrica_bench.csl.builtins.dsd_ops import Operand

ASYNC_FIELDS = ("async", "activate", "unblock", "on_control", "ut_id")
OPERATION_FIELDS = (*ASYNC_FIELDS, "priority", "index")


def operation_config(call: Call, index: int | None, operands: Sequence[Operand]) -> ir.DsdConfig:
    """The configuration of a DSD operation given as argument `index`, checked against its operands."""
    if index is None:
        return ir.DsdConfig()
    given = _properties(call, index, OPERATION_FIELDS, f"the configuration of @{call.name}")
    config = async_config(call, given, index)
    chosen: Any = given.one_of("priority", PRIORITIES)
    if chosen and call.frame.unit.session.arch == "wse3":
        call.fail("the priority of an operation can't be set on wse3", index, "give it to the fabric DSD or FIFO")
    value = given.typed("index", t.U16)
    if value is not None:
        config = config._replace(index=call.frame.operand(value, call.arg_span(index)))
    config = config._replace(priority=chosen)
    reaches_fabric = any(
        operand.dsd_kind in ("fabin", "fabout") or isinstance(operand.type, t.DsrType) for operand in operands
    )
    if config.is_async and not reaches_fabric:
        call.fail("an asynchronous operation needs a fabric operand", index, "remove .async, or use a fabric DSD")
    if config.is_async:
        _check_queues(call, operands)
    return config


def _check_queues(call: Call, operands: Sequence[Operand]) -> None:
    """An asynchronous operation runs on the microthread of its queue, so it must have one."""
    for operand in operands:
        data = operand.value.data if isinstance(operand.value, Const) else None
        if isinstance(data, ir.Dsd) and data.kind in ("fabin", "fabout") and data.queue < 0:
            name = "input_queue" if data.kind == "fabin" else "output_queue"
            fail(operand.span, f"an asynchronous operation needs the '{name}' of its {data.kind}_dsd")


def _properties(call: Call, index: int, known: Sequence[str], what: str) -> Properties:
    return Properties(call.frame, call.value(index), call.arg_span(index), what, known)


def async_config(call: Call, given: Properties, index: int) -> ir.DsdConfig:
    """The fields that DSD operations and DSR loads share."""
    is_async = given.flag("async")
    activate, unblock, control = given.get("activate"), given.get("unblock"), given.get("on_control")
    if activate is not None and unblock is not None:
        call.fail("'activate' and 'unblock' exclude each other", index)
    on_done = None
    if activate is not None:
        on_done = _wake(call, "activate", activate, index)
    elif unblock is not None:
        on_done = _wake(call, "unblock", unblock, index)
    ut_id = None
    ut_value = given.get("ut_id")
    if ut_value is not None:
        if call.frame.unit.session.arch != "wse3":
            call.fail("'ut_id' is not available on wse2", index)
        if not isinstance(ut_value, Const):
            call.fail("DSD op setting 'ut_id' must be comptime-known", index)
        if ut_value.type != t.UT_ID:
            call.fail(f"expected type 'ut_id', got: '{ut_value.type.name}'", index, "make one with @get_ut_id(n)")
        ut_id = int(ut_value.data)
    if not is_async and (on_done is not None or control is not None or ut_id is not None):
        call.fail("'activate', 'unblock', 'on_control' and 'ut_id' need '.async = true'", index)
    on_control = None if control is None else _on_control(call, control, index)
    return ir.DsdConfig(is_async=is_async, on_done=on_done, on_control=on_control, ut_id=ut_id)


def _on_control(call: Call, value: Value, index: int) -> ir.Wake:
    known = ("terminate", "activate", "unblock")
    given = Properties(call.frame, value, call.arg_span(index), "'on_control'", known)
    if len(given.values) != 1:
        call.fail("'on_control' must have exactly one field", index)
    name, part = next(iter(given.values.items()))
    if name == "terminate":
        if not given.flag("terminate"):
            call.fail("'terminate' must be true", index)
        return ir.Wake("terminate")
    return _wake(call, name, part, index)


def _wake(call: Call, action: Any, value: Value, index: int) -> ir.Wake:
    """Activate or unblock an id, or the id that a named task is bound to."""
    if isinstance(value, Const) and isinstance(value.data, FnValue):
        if value.data.decl.kind != "task":
            call.fail(f"'.{action}' needs a task or an id, got: '{value.type.name}'", index)
        # The linker puts the id in, and for `unblock` what the id numbers: the task may be bound later.
        instance = runtime_instance(call.frame.unit, value.data, call.arg_span(index))
        return ir.Wake(action, "task", ir.FnAddr(instance.name))
    if action == "activate":
        if value.type != t.LOCAL_TASK_ID and not names_task(call, value.type):
            call.fail(f"'.activate' needs a local_task_id or a task, got: '{value.type.name}'", index)
        return ir.Wake(action, "task", call.frame.operand(value, call.arg_span(index)))
    space: Any = id_space(call, value.type, index)
    return ir.Wake(action, space, call.frame.operand(value, call.arg_span(index)))
