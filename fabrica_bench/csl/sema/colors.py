"""Color configurations: from the struct of `@set_color_config` to `ir.ColorConfig`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.values import Const, freeze

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.session import Session

#: Router mask of a direction's run-time code.
DIRECTION_MASKS = {
    ir.DIRECTION_CODES["RAMP"]: ir.RAMP,
    ir.DIRECTION_CODES["NORTH"]: ir.NORTH,
    ir.DIRECTION_CODES["SOUTH"]: ir.SOUTH,
    ir.DIRECTION_CODES["EAST"]: ir.EAST,
    ir.DIRECTION_CODES["WEST"]: ir.WEST,
}
#: Colors whose switches exist on WSE-3 (Cerebras SDK docs, "Switches").
WSE3_SWITCHABLE = frozenset((*range(10), 12, 13, 16, 17, 20, 21))
POP_MODES = ("no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop")
_FILTER_FIELDS = {
    "counter": {"count_data", "count_control", "init_counter", "limit1", "max_counter", "filter_control"},
    "sparse_counter": {
        "count_data",
        "count_control",
        "init_counter",
        "limit1",
        "limit2",
        "max_counter",
        "filter_control",
    },
    "range": {"min_idx", "max_idx"},
}


class Fields:
    """The named fields of a comptime struct, with a check that none is unknown."""

    def __init__(self, value: Const, span: ast.Span, what: str, known: Iterable[str]) -> None:
        if not isinstance(value.type, t.StructType):
            fail(span, f"{what} must be a struct, got: '{value.type.name}'")
        self.span, self.what = span, what
        self.values: dict[str, Const] = {}
        allowed = set(known)
        for entry, data in zip(value.type.fields, value.data, strict=True):
            if entry.name is None:
                fail(span, f"{what} must have named fields", "write .{ .name = value }")
            if entry.name not in allowed:
                fail(span, f"unknown field '{entry.name}' in {what}", f"known fields: {', '.join(sorted(allowed))}")
            self.values[entry.name] = Const(entry.type, data)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str) -> Const | None:
        return self.values.get(name)

    def flag(self, name: str) -> bool:
        value = self.values.get(name)
        if value is None:
            return False
        if value.type != t.BOOL:
            fail(self.span, f"field '{name}' in {self.what}: expected type 'bool', got: '{value.type.name}'")
        return bool(value.data)

    def number(self, name: str, default: int = 0, high: int = 0xFFFF) -> int:
        value = self.values.get(name)
        if value is None:
            return default
        if not t.is_integer(value.type):
            fail(self.span, f"field '{name}' in {self.what}: expected an integer, got: '{value.type.name}'")
        if not 0 <= value.data <= high:
            fail(self.span, f"field '{name}' in {self.what}: {value.data} is not in 0..{high}")
        return int(value.data)

    def one_of(self, name: str, options: Iterable[str], default: str) -> Any:
        """A field that is a struct with exactly one of `options` set to true."""
        value = self.values.get(name)
        if value is None:
            return default
        chosen = Fields(value, self.span, f"'{name}'", options)
        true = [option for option in chosen.values if chosen.flag(option)]
        if len(true) != 1:
            fail(self.span, f"'{name}' in {self.what} must have exactly one field that is true")
        return true[0]


def directions(value: Const, span: ast.Span, what: str) -> int:
    """Mask of a direction, or of a tuple or array of distinct directions."""
    if value.type == t.DIRECTION:
        return DIRECTION_MASKS[value.data]
    items: list[tuple[t.Type, Any]]
    if isinstance(value.type, t.StructType):
        items = [(entry.type, data) for entry, data in zip(value.type.fields, value.data, strict=True)]
    elif isinstance(value.type, t.ArrayType):
        items = [(value.type.element, data) for data in value.data]
    else:
        fail(span, f"{what} must be a direction or a tuple of directions, got: '{value.type.name}'")
    mask = 0
    for type_, data in items:
        if type_ != t.DIRECTION:
            fail(span, f"{what} must hold directions, got: '{type_.name}'")
        if mask & DIRECTION_MASKS[data]:
            fail(span, f"{what} names a direction twice")
        mask |= DIRECTION_MASKS[data]
    return mask


def color_config(session: Session, color: int, value: Const, span: ast.Span) -> ir.ColorConfig:
    """Check and convert a color configuration struct; equal structs are converted once."""
    key = (color if session.arch == "wse3" else -1, value.type, freeze(value.data))
    found = session.color_configs.get(key)
    if found is None:
        found = session.color_configs[key] = _convert(session, color, value, span)
    return found


def _convert(session: Session, color: int, value: Const, span: ast.Span) -> ir.ColorConfig:
    flat = ("rx", "tx", "pop_mode", "color_swap_x", "color_swap_y")
    top = Fields(value, span, "the color configuration", ("routes", "switches", "filter", "teardown", *flat))
    routes_value = top.get("routes")
    if routes_value is None and any(name in top for name in ("rx", "tx")):
        session.warn(
            span, "routes at the top level of a color configuration are deprecated", "write .routes = .{ ... }"
        )
        routes = top
    elif routes_value is None:
        fail(span, "the color configuration has no field 'routes'", "write .routes = .{ .rx = ..., .tx = ... }")
    else:
        routes = Fields(routes_value, span, "'routes'", flat)
    swaps = routes.flag("color_swap_x"), routes.flag("color_swap_y")
    if any(swaps) and session.arch == "wse3":
        fail(span, "color swap is not supported on wse3")
    rx_value, tx_value = routes.get("rx"), routes.get("tx")
    inputs = 0 if rx_value is None else directions(rx_value, span, "'rx'")
    if inputs.bit_count() > 1 and session.arch == "wse3":
        fail(span, "'rx' has several directions: on wse3 a color has one input at a time", "switch positions change it")
    config = ir.ColorConfig(
        rx=inputs,
        tx=0 if tx_value is None else directions(tx_value, span, "'tx'"),
        color_swap_x=swaps[0],
        color_swap_y=swaps[1],
        teardown=top.flag("teardown"),
    )
    if "pop_mode" in routes:
        config = config._replace(pop_mode=routes.one_of("pop_mode", POP_MODES, "no_pop"))
    switches = top.get("switches")
    if switches is not None:
        config = _switches(session, color, config, switches, span)
    filter_value = top.get("filter")
    if filter_value is not None:
        config = config._replace(filter=_filter(session, filter_value, span))
    return config


def _switches(session: Session, color: int, config: ir.ColorConfig, value: Const, span: ast.Span) -> ir.ColorConfig:
    known = ("pos1", "pos2", "pos3", "current_switch_pos", "ring_mode", "pop_mode")
    fields = Fields(value, span, "'switches'", known)
    if session.arch == "wse3" and color not in WSE3_SWITCHABLE and fields.values:
        fail(span, f"color {color} has no switches on wse3", "use one of 0-9, 12, 13, 16, 17, 20, 21")
    first, second, third = (
        None if (entry := fields.get(name)) is None else _position(entry, span, name)
        for name in ("pos1", "pos2", "pos3")
    )
    positions = (first, second, third)
    current = fields.number("current_switch_pos", high=3)
    if current and positions[current - 1] is None:
        fail(span, f"current_switch_pos is {current}, but 'pos{current}' is not given")
    pop_mode = fields.one_of("pop_mode", POP_MODES, config.pop_mode)
    return config._replace(positions=positions, current=current, ring_mode=fields.flag("ring_mode"), pop_mode=pop_mode)


def _position(value: Const, span: ast.Span, name: str) -> ir.SwitchPosition:
    fields = Fields(value, span, f"'{name}'", ("rx", "tx", "invalid"))
    if len(fields.values) != 1:
        fail(span, f"'{name}' must give exactly one of 'rx', 'tx' and 'invalid'")
    if fields.flag("invalid"):
        return ir.SwitchPosition(invalid=True)
    rx, tx = fields.get("rx"), fields.get("tx")
    if rx is not None:
        mask = directions(rx, span, f"'rx' of '{name}'")
        if mask.bit_count() != 1:
            fail(span, f"'rx' of '{name}' must be a single direction")
        return ir.SwitchPosition(rx=mask)
    return ir.SwitchPosition() if tx is None else ir.SwitchPosition(tx=directions(tx, span, f"'tx' of '{name}'"))


def _filter(session: Session, value: Const, span: ast.Span) -> ir.FilterConfig:
    every = set().union(*_FILTER_FIELDS.values())
    fields = Fields(value, span, "'filter'", {"kind", "fast_mode", *every})
    kind = fields.one_of("kind", _FILTER_FIELDS, "")
    if not kind:
        fail(span, "the filter has no field 'kind'", "write .kind = .{ .counter = true }")
    foreign = set(fields.values) - _FILTER_FIELDS[kind] - {"kind", "fast_mode"}
    if foreign:
        fail(span, f"field '{min(foreign)}' does not belong to a {kind} filter")
    if "fast_mode" in fields:
        session.warn(span, "'fast_mode' is not documented and has no effect here")
    return ir.FilterConfig(
        kind=kind,
        count_data=fields.flag("count_data"),
        count_control=fields.flag("count_control"),
        init_counter=fields.number("init_counter"),
        limit1=fields.number("limit1"),
        limit2=fields.number("limit2"),
        max_counter=fields.number("max_counter"),
        filter_control=fields.flag("filter_control"),
        min_idx=fields.number("min_idx"),
        max_idx=fields.number("max_idx"),
    )
