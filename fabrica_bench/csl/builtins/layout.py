"""Builtins of the layout block, and colors."""

from __future__ import annotations

from pathlib import Path

from fabrica_bench.csl import ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.general import struct_values
from fabrica_bench.csl.builtins.registry import Call, builtin
from fabrica_bench.csl.sema import limits
from fabrica_bench.csl.sema.coerce import make_struct
from fabrica_bench.csl.sema.colors import color_config
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.layout import AdvertisedName, LayoutState, TileCode
from fabrica_bench.csl.sema.reserved import check_color
from fabrica_bench.csl.values import VOID_VALUE, Const, Value

MAX_PARAMETERS = 15


def _state(call: Call) -> LayoutState:
    state = call.frame.unit.layout
    if state is None:
        call.fail(f"@{call.name} belongs in the layout block")
    return state


@builtin("set_rectangle", args=2, contexts="L")
def set_rectangle(call: Call) -> Value:
    state = _state(call)
    width, height = call.integer(0), call.integer(1)
    if state.width:
        call.fail("@set_rectangle may be called only once")
    for index, extent in enumerate((width, height)):
        if extent < 1:
            call.fail(f"the rectangle must be at least 1 PE wide and high, got {extent}", index)
        if extent > 0xFFFF:
            call.fail(f"the rectangle is too large: {extent}", index)
    if width * height > limits.RECTANGLE_PES:
        call.fail(f"the rectangle of {width} by {height} PEs is too large", hint="a whole wafer has 900000 PEs")
    state.width, state.height = width, height
    return VOID_VALUE


@builtin("set_tile_code", args=(2, 4), contexts="L")
def set_tile_code(call: Call) -> Value:
    state = _state(call)
    x, y = call.integer(0), call.integer(1)
    state.check_inside(x, y, call.span)
    if (x, y) in state.tiles:
        call.fail(f"PE ({x}, {y}) already has code", hint=f"first set at {state.tiles[x, y].span}")
    path = Path(call.span.file.absolute)
    if call.count > 2:
        path = call.frame.unit.session.find_import(call.string(2), call.span.file, call.arg_span(2))
    params = struct_values(call.const(3), call.arg_span(3)) if call.count > 3 else {}
    call.frame.unit.session.earn(limits.STEPS_PER_PE)
    state.tiles[x, y] = TileCode(path, params, call.span)
    return VOID_VALUE


@builtin("set_color_config", args=4, contexts="L")
def set_color_config(call: Call) -> Value:
    state = _state(call)
    x, y = call.integer(0), call.integer(1)
    state.check_inside(x, y, call.span)
    color = _color(call, 2)
    configs = state.colors.setdefault((x, y), {})
    if color in configs:
        note = (("first configured here", state.color_spans[x, y][color]),)
        fail(call.span, f"color {color} of PE ({x}, {y}) is configured twice", notes=note)
    check_color(call.frame.unit, color, call.span)
    state.color_spans.setdefault((x, y), {})[color] = call.span
    configs[color] = color_config(call.frame.unit.session, color, call.const(3), call.arg_span(3))
    return VOID_VALUE


@builtin("set_local_color_config", args=2, contexts="T")
def set_local_color_config(call: Call) -> Value:
    state = call.frame.unit.pe(call.span)
    color = _color(call, 0)
    if color in state.local_colors:
        note = (("first configured here", state.local_color_spans[color]),)
        fail(call.span, f"color {color} is configured twice", notes=note)
    state.local_color_spans[color] = call.span
    state.local_colors[color] = color_config(call.frame.unit.session, color, call.const(1), call.arg_span(1))
    return VOID_VALUE


def _color(call: Call, index: int) -> int:
    value = call.const(index, t.COLOR)
    if value.type != t.COLOR:
        call.fail(f"expected type 'color', got: '{value.type.name}'", index, "make one with @get_color(n)")
    return int(value.data)


@builtin("get_rectangle", args=0)
def get_rectangle(call: Call) -> Value:
    unit = call.frame.unit
    options = unit.session.options
    if unit.layout is not None:
        width, height = unit.layout.width, unit.layout.height
        if not width:
            call.fail("the rectangle is not set yet", hint="call @set_rectangle(width, height) first")
    else:
        width, height = unit.pe_state.width, unit.pe_state.height
    fabric = options.fabric_dims or (width + options.fabric_offsets[0], height + options.fabric_offsets[1])
    return make_struct(
        _struct(width=t.U16, height=t.U16, fabric=_PAIR, offsets=_PAIR),
        [
            Const(t.U16, width),
            Const(t.U16, height),
            Const(_PAIR, list(fabric)),
            Const(_PAIR, list(options.fabric_offsets)),
        ],
    )


def _struct(**fields: t.Type) -> t.StructType:
    return t.StructType("struct", "auto", tuple(t.Field(name, type_) for name, type_ in fields.items()))


_PAIR = _struct(width=t.U16, height=t.U16)


# --------------------------------------------------------------------------------------------- exported names


@builtin("export_name", args=(2, 3), contexts="L")
def export_name(call: Call) -> Value:
    state = _state(call)
    name, type_ = call.string(0), call.type(1)
    if name in state.names:
        call.fail(f"the name '{name}' is exported twice", 0)
    is_function = isinstance(type_, t.FnType)
    mutable = False
    if call.count == 3:
        flag = call.const(2, t.BOOL)
        if flag.type != t.BOOL:
            call.fail(f"expected type 'bool', got: '{flag.type.name}'", 2)
        mutable = flag.data
    elif not is_function:
        call.fail(
            f"the export of '{name}' must say whether the host may write it", hint="add true or false as third argument"
        )
    _check_exportable(call, type_)
    params: tuple[str, ...] = ()
    if isinstance(type_, t.FnType):
        params = tuple(param.name for param in type_.params if param is not None)
    shown = type_.result.name if isinstance(type_, t.FnType) and type_.result is not None else type_.name
    entry = ir.ExportName(len(state.names), name, "fn" if is_function else "var", shown, mutable, params)
    state.names[name] = AdvertisedName(entry, type_, call.span)
    return VOID_VALUE


def _check_exportable(call: Call, type_: t.Type) -> None:
    if isinstance(type_, t.FnType):
        if type_.kind != "fn" or len(type_.params) > MAX_PARAMETERS:
            call.fail(f"cannot export name with type '{type_.name}': at most {MAX_PARAMETERS} parameters", 1)
        for part in (*type_.params, type_.result):
            if part is not None and part != t.VOID and not _is_plain(call, part):
                call.fail(
                    f"cannot export name with type '{type_.name}'",
                    1,
                    f"'{part.name}' can't be a parameter or result of a function that the host calls",
                )
    elif not _is_plain(call, type_):
        call.fail(f"cannot export name with type '{type_.name}'", 1, "export a pointer to the data")


def _is_plain(call: Call, type_: t.Type) -> bool:
    if isinstance(type_, t.IdType):
        return type_ == t.COLOR
    if isinstance(type_, t.FloatType):
        return type_ in (t.F32, call.frame.unit.session.fp16)
    return type_ == t.BOOL or isinstance(type_, t.IntType | t.PointerType)
