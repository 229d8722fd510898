"""Builtins about task ids, queues' ids, binding, activation and blocking."""

from __future__ import annotations

from typing import NamedTuple

from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.registry import Call, builtin
from fabrica_bench.csl.sema.calls import runtime_instance, signature
from fabrica_bench.csl.sema.unit import BoundTask
from fabrica_bench.csl.sema.walk import binds_colors
from fabrica_bench.csl.values import VOID_VALUE, Const, FnValue, Rt, Value

# -------------------------------------------------------------------------------------------------------- ids


#: Local task that teardown and queue flushes activate (Cerebras SDK docs).
TEARDOWN_TASK = 29


class IdRange(NamedTuple):
    """Legal numbers of an id type, per architecture."""

    type: t.IdType
    wse2: range
    wse3: range
    runtime: bool


#: Cerebras SDK docs 1.4: colors, task ids, queues and microthreads of both architectures.
ID_RANGES = {
    "get_color": IdRange(t.COLOR, range(24), range(24), True),
    "get_local_task_id": IdRange(t.LOCAL_TASK_ID, range(31), range(8, 31), True),
    "get_control_task_id": IdRange(t.CONTROL_TASK_ID, range(64), range(64), True),
    "get_input_queue": IdRange(t.INPUT_QUEUE, range(8), range(8), False),
    "get_output_queue": IdRange(t.OUTPUT_QUEUE, range(6), range(8), False),
    "get_ut_id": IdRange(t.UT_ID, range(0), range(8), True),
}


@builtin(*ID_RANGES, args=1)
def get_id(call: Call) -> Value:
    entry = ID_RANGES[call.name]
    arch = call.frame.unit.session.arch
    legal = entry.wse2 if arch == "wse2" else entry.wse3
    if not legal:
        call.fail(f"'{entry.type.name}' does not exist on {arch}")
    value = call.value(0)
    if not t.is_integer(value.type):
        call.fail(f"@{call.name} needs an integer, got: '{value.type.name}'", 0)
    if isinstance(value, Const):
        if value.data not in legal:
            call.fail(
                f"{entry.type.name} {value.data} does not exist on {arch}: legal numbers are "
                f"{legal.start} to {legal.stop - 1}",
                0,
            )
        return Const(entry.type, value.data)
    if not entry.runtime:
        call.fail(f"the argument of @{call.name} must be comptime-known", 0)
    return Rt(entry.type, call.frame.operand(call.frame.coerce(value, t.U16, call.arg_span(0)), call.arg_span(0)))


@builtin("get_data_task_id", args=1)
def get_data_task_id(call: Call) -> Value:
    arch = call.frame.unit.session.arch
    wanted = t.COLOR if arch == "wse2" else t.INPUT_QUEUE
    value = call.value(0, wanted)
    if value.type != wanted:
        call.fail(f"@get_data_task_id takes a '{wanted.name}' on {arch}, got: '{value.type.name}'", 0)
    if isinstance(value, Const):
        return Const(t.DATA_TASK_ID, value.data)
    assert isinstance(value, Rt)
    return Rt(t.DATA_TASK_ID, value.operand)


# ---------------------------------------------------------------------------------------------------- binding


def task_argument(call: Call, index: int) -> FnValue:
    """Argument `index`, which must be a task."""
    value = call.const(index)
    if not (isinstance(value.data, FnValue) and value.data.decl.kind == "task"):
        call.fail(f"expected a task, got: '{value.type.name}'", index)
    return value.data


_TASK_TYPES = {"data": t.DATA_TASK_ID, "local": t.LOCAL_TASK_ID, "control": t.CONTROL_TASK_ID}


@builtin("bind_data_task", "bind_local_task", "bind_control_task", args=2, contexts="T")
def bind_task(call: Call) -> Value:
    kind = call.name.removeprefix("bind_").removesuffix("_task")
    task = task_argument(call, 0)
    id_value = call.const(1, _TASK_TYPES[kind])
    if id_value.type != _TASK_TYPES[kind]:
        call.fail(f"expected type '{_TASK_TYPES[kind].name}', got: '{id_value.type.name}'", 1)
    bind(call, kind, task, id_value.data)
    return VOID_VALUE


def bind(call: Call, kind: str, task: FnValue, number: int) -> None:
    """Bind a task whose parameters suit its kind."""
    _check_parameters(call, kind, task)
    add_binding(call, kind, task, number)


def add_binding(call: Call, kind: str, task: FnValue, number: int) -> None:
    """Bind a task to an id; two tasks can't share an entry of the task table."""
    state = call.frame.unit.pe(call.span)
    separate = state.control_table is not None
    for bound in state.tasks:
        same_table = not separate or (bound.kind == "control") == (kind == "control")
        if bound.id == number and same_table:
            call.fail(
                f"{kind} task '{task.decl.name}' is bound to id {number}, which task "
                f"'{bound.function.decl.name}' has already",
                hint=f"bound at {bound.span}",
            )
    if number == TEARDOWN_TASK and kind == "local":
        for _, place in (*state.teardown.values(), *state.empty_queue.values()):
            call.fail(
                f"local task '{task.decl.name}' is bound to id {number}, which the handlers of this program take",
                hint=f"handler set at {place}",
            )
    state.tasks.append(BoundTask(kind, number, task, call.span))


def check_teardown_id(call: Call) -> None:
    """A handler makes the compiler bind the teardown task, so the program can't."""
    for bound in call.frame.unit.pe(call.span).tasks:
        if bound.id == TEARDOWN_TASK and bound.kind == "local":
            call.fail(
                f"@{call.name} takes local task id {TEARDOWN_TASK}, "
                f"which task '{bound.function.decl.name}' has already",
                hint=f"bound at {bound.span}",
            )


def _check_parameters(call: Call, kind: str, task: FnValue) -> None:
    found = signature(call.frame.unit, task)
    count = len(found.params)
    name = task.decl.name
    if kind == "local" and count:
        call.fail(f"local task '{name}' can't have parameters", 0)
    if kind == "data" and not count:
        call.fail(f"data task '{name}' needs at least one parameter", 0)
    if found.result != t.VOID:
        call.fail(f"task '{name}' must return void", 0)
    bits = 0
    for type_ in found.params:
        legal = isinstance(type_, t.IntType | t.FloatType) and type_.bits in (16, 32)
        if type_ is None or not legal:
            shown = "anytype" if type_ is None else type_.name
            call.fail(
                f"task '{name}' can't have a parameter of type '{shown}'",
                0,
                "the payload of a wavelet is split into 16-bit or 32-bit numbers",
            )
        assert isinstance(type_, t.IntType | t.FloatType)
        bits += type_.bits
    if bits > 32:
        call.fail(f"the parameters of task '{name}' take {bits} bits, a wavelet carries 32", 0)


# --------------------------------------------------------------------------------------- activate, block, unblock


@builtin("activate", args=1, contexts="TR")
def activate(call: Call) -> Value:
    value = call.value(0, t.LOCAL_TASK_ID)
    if isinstance(value, Const) and isinstance(value.data, FnValue) and value.data.decl.kind == "task":
        call.fail(
            f"@activate takes a local_task_id, not task '{value.data.decl.name}'",
            0,
            "give the id that @bind_local_task binds it to",
        )
    if value.type != t.LOCAL_TASK_ID and not names_task(call, value.type):
        call.fail(f"expected type 'local_task_id', got: '{value.type.name}'", 0)
    operand = call.frame.operand(value, call.arg_span(0))
    if call.frame.comptime:
        call.frame.unit.pe(call.span).activated.append(operand)
        return VOID_VALUE
    return call.intrinsic("activate", (operand,))


def names_task(call: Call, type_: t.Type) -> bool:
    """Whether a color stands for a local task, as in files of the dialect that binds tasks to colors (`@bind_task`)."""
    return type_ == t.COLOR and call.frame.unit.session.arch == "wse2" and binds_colors(call.frame.module.file)


def id_space(call: Call, type_: t.Type, index: int) -> str:
    """Id space of something that can be blocked: what its number counts."""
    arch = call.frame.unit.session.arch
    legal = {
        t.LOCAL_TASK_ID: "task",
        t.DATA_TASK_ID: "color" if arch == "wse2" else "input_queue",
        **({t.COLOR: "color"} if arch == "wse2" else {t.INPUT_QUEUE: "input_queue", t.UT_ID: "ut"}),
    }
    space = legal.get(type_)  # type: ignore[call-overload]
    if space is None:
        names = ", ".join(known.name for known in legal)
        call.fail(f"@{call.name} takes {names} on {arch}, got: '{type_.name}'", index)
    return str(space)


@builtin("block", "unblock", args=1, contexts="TR")
def block(call: Call) -> Value:
    value = call.value(0)
    space = id_space(call, value.type, 0)
    operand = call.frame.operand(value, call.arg_span(0))
    if not call.frame.comptime:
        return call.intrinsic(call.name, (operand,), text=space)
    state = call.frame.unit.pe(call.span)
    (state.blocked if call.name == "block" else state.unblocked).append((space, operand))
    return VOID_VALUE


def handler_argument(call: Call, index: int) -> str:
    """Argument `index`, a `fn() void`; returns the name of its IR function."""
    value = call.const(index)
    function = value.data
    if not isinstance(function, FnValue) or function.decl.kind != "fn" or function.decl.params:
        call.fail(f"expected a function of type 'fn() void', got: '{value.type.name}'", index)
    instance = runtime_instance(call.frame.unit, function, call.arg_span(index))
    if instance.result != t.VOID:
        call.fail(f"expected a function of type 'fn() void', got: '{value.type.name}'", index)
    return instance.name


@builtin("set_teardown_handler", args=2, contexts="T")
def set_teardown_handler(call: Call) -> Value:
    state = call.frame.unit.pe(call.span)
    color = call.const(1, t.COLOR)
    if color.type != t.COLOR:
        call.fail(f"expected type 'color', got: '{color.type.name}'", 1)
    if color.data in state.teardown:
        call.fail(f"color {color.data} has a teardown handler already", hint=f"set at {state.teardown[color.data][1]}")
    check_teardown_id(call)
    state.teardown[color.data] = (handler_argument(call, 0), call.span)
    return VOID_VALUE


@builtin("set_control_task_table", args=(0, 1), contexts="T")
def set_control_task_table(call: Call) -> Value:
    from fabrica_bench.csl.sema.colors import Fields

    _wse3_only(call)
    state = call.frame.unit.pe(call.span)
    if state.control_table is not None:
        call.fail("@set_control_task_table may be called only once")
    instructions, stride = 4, 1
    if call.count:
        fields = Fields(call.const(0), call.arg_span(0), "the table configuration", ("instructions", "stride"))
        instructions, stride = fields.number("instructions", 4), fields.number("stride", 1)
    if instructions not in (2, 4, 8):
        call.fail(f"'instructions' must be 2, 4 or 8, got {instructions}", 0)
    if not 1 <= stride <= 7:
        call.fail(f"'stride' must be 1 to 7, got {stride}", 0)
    state.control_table = (instructions, stride)
    return VOID_VALUE


@builtin("bind_rotating_tasks", args=4, contexts="T")
def bind_rotating_tasks(call: Call) -> Value:
    from fabrica_bench.csl.sema.colors import Fields

    _wse3_only(call)
    state = call.frame.unit.pe(call.span)
    main, alternative = task_argument(call, 0), task_argument(call, 1)
    id_value = call.const(2, t.DATA_TASK_ID)
    if id_value.type != t.DATA_TASK_ID:
        call.fail(f"expected type 'data_task_id', got: '{id_value.type.name}'", 2)
    fields = Fields(call.const(3), call.arg_span(3), "the rotation", ("limit", "init"))
    if "limit" not in fields:
        call.fail("the rotation has no field 'limit'", 3)
    if len(state.rotating) == 2:
        call.fail("at most 2 pairs of rotating tasks can be bound")
    add_binding(call, "data", main, id_value.data)
    names = [runtime_instance(call.frame.unit, task, call.span).name for task in (main, alternative)]
    entry = (names[0], names[1], id_value.data, fields.number("limit"), fields.number("init"))
    state.rotating.append(entry)
    return VOID_VALUE


def _wse3_only(call: Call) -> None:
    arch = call.frame.unit.session.arch
    if arch != "wse3":
        call.fail(f"@{call.name} is not available on {arch}")
