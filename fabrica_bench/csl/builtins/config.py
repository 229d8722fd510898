"""Configuration registers, filters, random numbers."""

from __future__ import annotations

from typing import Final

from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.registry import Call, builtin
from fabrica_bench.csl.values import VOID_VALUE, Const, Value

#: Config registers are 16-bit words.
WORD = t.U16
#: Addresses at which the router's registers, or the library's stand-ins for their addresses, lie: 24 colors each.
ROUTER_WORDS: Final = tuple(range(start, start + 24) for start in (0x7000, 0x7F20, 0x7F40))


@builtin("get_config", args=(1, 2), contexts="TR")
def get_config(call: Call) -> Value:
    if not call.frame.comptime:
        return call.intrinsic("config_read", (call.operand(0, t.U16),), WORD)
    address = call.integer(0)
    words = call.frame.unit.pe(call.span).config_words
    if address not in words:
        call.fail(
            f"config register {address:#x} has no value that is known at comptime", 0, "set it with @set_config first"
        )
    return Const(WORD, words[address])


@builtin("set_config", args=(2, 3), contexts="TR")
def set_config(call: Call) -> Value:
    value = call.typed(1, WORD)
    if not call.frame.comptime:
        where = call.operand(0, t.U16)
        return call.intrinsic("config_write", (where, call.frame.operand(value, call.arg_span(1))))
    address = call.integer(0)
    if not 0 <= address <= 0xFFFF:
        call.fail(f"{address} is not a register address", 0)
    if any(address in words for words in ROUTER_WORDS):
        call.fail(f"config register {address:#x} is reserved for routing at comptime", 0, "use @set_local_color_config")
    assert isinstance(value, Const)
    call.frame.unit.pe(call.span).config_words[address] = value.data
    return VOID_VALUE


@builtin("get_config_unchecked", args=1, contexts="R")
def get_config_unchecked(call: Call) -> Value:
    return call.intrinsic("config_read", (call.operand(0, t.U16),), WORD)


@builtin("set_config_unchecked", args=2, contexts="R")
def set_config_unchecked(call: Call) -> Value:
    return call.intrinsic("config_write", (call.operand(0, t.U16), call.operand(1, WORD)))


@builtin("get_filter_id", args=1)
def get_filter_id(call: Call) -> Value:
    """Filters are numbered by ascending color among the filtered colors of the PE."""
    color = call.const(0, t.COLOR)
    if color.type != t.COLOR:
        call.fail(f"expected type 'color', got: '{color.type.name}'", 0)
    state = call.frame.unit.pe(call.span)
    configs = {**state.layout_colors, **state.local_colors}
    filtered = sorted(number for number, config in configs.items() if config.filter is not None)
    if color.data not in filtered:
        call.fail(f"color {color.data} has no filter on this PE", 0)
    return Const(t.U16, filtered.index(color.data))


@builtin("random16", args=0, contexts="R")
def random16(call: Call) -> Value:
    return call.intrinsic("random16", (), t.U16)


@builtin("set_active_prng", args=1, contexts="R")
def set_active_prng(call: Call) -> Value:
    return call.intrinsic("set_active_prng", (call.operand(0, t.U16),))


@builtin("import_comptime_value", args=2)
def import_comptime_value(call: Call) -> Value:
    from fabrica_bench.csl.builtins.json_values import load_json

    return load_json(call, call.type(0), call.string(1))
