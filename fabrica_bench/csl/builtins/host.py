"""Builtins of the host interface: exported symbols and RPC."""

from __future__ import annotations

from fabrica_bench.csl import ast
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.registry import Call, builtin
from fabrica_bench.csl.sema import places
from fabrica_bench.csl.sema.calls import runtime_instance
from fabrica_bench.csl.sema.unit import Export
from fabrica_bench.csl.values import VOID_VALUE, Const, FnValue, GlobalVar, Value, bool_value


def _symbol(call: Call, index: int) -> GlobalVar | FnValue:
    """Argument `index`: a global variable or a function."""
    node = call.node.args[index]
    place = places.place_of(call.frame, node)
    if isinstance(place, places.ConstPlace):
        return place.module.variable_of(place.entry)
    if isinstance(place, places.GlobalPlace) and place.offset == 0 and place.type == place.variable.type:
        return place.variable
    value = place.value if isinstance(place, places.ValuePlace) else None
    if isinstance(value, Const) and isinstance(value.data, FnValue):
        return value.data
    call.fail("expected a global variable or a function", index)


@builtin("export_symbol", args=(1, 2), contexts="T")
def export_symbol(call: Call) -> Value:
    unit = call.frame.unit
    state = unit.pe(call.span)
    symbol = _symbol(call, 0)
    name = call.string(1) if call.count == 2 else _written_name(call, call.node.args[0])
    if name in state.exports:
        call.fail(f"symbol '{name}' is exported twice", hint=f"first exported at {state.exports[name].span}")
    if isinstance(symbol, GlobalVar):
        symbol.is_runtime_used = True
        state.exports[name] = Export(name, symbol, None, symbol.type, call.span)
        return VOID_VALUE
    if symbol.decl.kind == "task":
        call.fail(f"task '{symbol.decl.name}' can't be exported", 0, "export a function that activates it")
    instance = runtime_instance(unit, symbol, call.arg_span(0))
    type_ = t.FnType("fn", tuple(plan.type for plan in instance.params), instance.result)
    state.exports[name] = Export(name, None, instance, type_, call.span)
    return VOID_VALUE


def _written_name(call: Call, node: ast.Expr) -> str:
    if isinstance(node, ast.Ident | ast.FieldAccess):
        return node.name
    call.fail("the exported symbol needs a name", hint="give it as second argument")


@builtin("get_symbol_id", args=1)
def get_symbol_id(call: Call) -> Value:
    ids = call.frame.unit.pe(call.span).symbol_ids
    node = call.node.args[0]
    name = _written_name(call, node)
    symbol = _symbol(call, 0)
    for export in call.frame.unit.pe(call.span).exports.values():
        exported = export.function.function if export.function is not None else export.variable
        if exported == symbol:
            name = export.name
    if name not in ids:
        call.fail(f"symbol '{name}' is not exported to the host", 0, "the layout must @export_name it")
    return Const(t.U16, ids[name])


@builtin("has_exported_tensors", args=0, contexts="CR")
def has_exported_tensors(call: Call) -> Value:
    exports = call.frame.unit.pe(call.span).exports.values()
    return bool_value(any(isinstance(export.type, t.PointerType) for export in exports))


@builtin("get_tensor_ptr", args=1, contexts="R")
def get_tensor_ptr(call: Call) -> Value:
    result = t.PointerType(t.U16, is_many=True)
    return call.intrinsic("tensor_ptr", (call.operand(0, t.U16),), result)


@builtin("get_symbol_value", args=2, contexts="R")
def get_symbol_value(call: Call) -> Value:
    type_ = call.type(0)
    return call.intrinsic("symbol_value", (call.operand(1, t.U16),), type_, text=type_.name)
