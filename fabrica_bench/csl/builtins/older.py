"""Builtins of programs written for SDK 1.0 and earlier: `@rpc` and `@bind_task`.

There colors were task ids as well, and a program asked for the dispatcher of host calls itself. Both give a warning.
"""

from __future__ import annotations

from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.registry import Call, builtin
from fabrica_bench.csl.builtins.tasks import bind, task_argument
from fabrica_bench.csl.sema.reserved import launch_colors
from fabrica_bench.csl.values import VOID_VALUE, Value


@builtin("rpc", args=1, contexts="T")
def rpc(call: Call) -> Value:
    """Accepted for the LAUNCH color of `<memcpy/memcpy>`, which dispatches host calls with or without it.

    On any other id a task would decode calls that PEs of the program send. How an id and arguments of 16 and 32 bits
    stand in wavelets, and what tells it a wrong number of arguments, isn't public; a guess would miscompile in silence.
    """
    channel = call.const(0, t.DATA_TASK_ID)
    if channel.type not in (t.COLOR, t.DATA_TASK_ID):
        call.fail(f"expected type 'data_task_id', got: '{channel.type.name}'", 0)
    if call.frame.unit.session.arch != "wse2" or channel.data not in launch_colors(call.frame.unit):
        call.fail(
            "@rpc is not supported",
            hint="<memcpy/memcpy> dispatches host calls by itself; for calls between PEs bind a data task, because how "
            "@rpc expects an id and arguments in wavelets isn't documented",
        )
    call.frame.unit.session.warn(
        call.span, "@rpc is deprecated and has no effect", "<memcpy/memcpy> dispatches the calls of the host"
    )
    return VOID_VALUE


@builtin("bind_task", args=2, contexts="T")
def bind_task(call: Call) -> Value:
    """`@bind_task(task, color)`: a local task if it takes no data, else the data task of the color."""
    if call.frame.unit.session.arch != "wse2":
        call.fail("@bind_task is not available on wse3", hint="use @bind_local_task or @bind_data_task")
    task = task_argument(call, 0)
    color = call.const(1, t.COLOR)
    if color.type != t.COLOR:
        call.fail(f"expected type 'color', got: '{color.type.name}'", 1)
    kind = "data" if task.decl.params else "local"
    call.frame.unit.session.warn(call.span, "@bind_task is deprecated", f"use @bind_{kind}_task")
    bind(call, kind, task, color.data)
    return VOID_VALUE
