"""Expressions other than control flow, calls and types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.registry import run_builtin
from fabrica_bench.csl.sema import access, arith, limits, places
from fabrica_bench.csl.sema.coerce import make_struct
from fabrica_bench.csl.sema.dispatch import expression
from fabrica_bench.csl.sema.errors import fail, truth_hint
from fabrica_bench.csl.values import (
    VOID_VALUE,
    Const,
    Rt,
    UnionData,
    Value,
    bool_value,
)

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame

# -------------------------------------------------------------------------------------------------- literals


@expression(ast.IntLit)
def int_literal(frame: Frame, node: ast.IntLit, hint: t.Type | None) -> Value:
    return Const(t.COMPTIME_INT, node.value)


@expression(ast.FloatLit)
def float_literal(frame: Frame, node: ast.FloatLit, hint: t.Type | None) -> Value:
    return Const(t.COMPTIME_FLOAT, node.value)


@expression(ast.StringLit)
def string_literal(frame: Frame, node: ast.StringLit, hint: t.Type | None) -> Value:
    return Const(t.COMPTIME_STRING, node.value)


@expression(ast.BoolLit)
def bool_literal(frame: Frame, node: ast.BoolLit, hint: t.Type | None) -> Value:
    return bool_value(node.value)


@expression(ast.VoidLit)
def void_literal(frame: Frame, node: ast.VoidLit, hint: t.Type | None) -> Value:
    return VOID_VALUE


@expression(ast.AsmExpr)
def inline_assembly(frame: Frame, node: ast.AsmExpr, hint: t.Type | None) -> Value:
    fail(node.span, "inline assembly is not supported", "its target instruction set is not public")


# ---------------------------------------------------------------------------------------- names, components


def _rvalue(frame: Frame, node: ast.Expr, hint: t.Type | None) -> Value:
    return access.load(frame, places.place_of(frame, node), node.span)


for _node_type in (ast.FieldAccess, ast.Deref, ast.Index):
    expression(_node_type)(_rvalue)


@expression(ast.Ident)
def identifier(frame: Frame, node: ast.Ident, hint: t.Type | None) -> Value:
    # Names of known constants are by far the most frequent expressions: no detour over places for them.
    local = frame.scope.find(node.name)
    if type(local) is Const:
        return local
    if local is None:
        entry = frame.module.entries.get(node.name)
        if entry is not None and entry.state == "done" and entry.variable is None and entry.value is not None:
            return entry.value
    return _rvalue(frame, node, hint)


@expression(ast.BuiltinCall)
def builtin_call(frame: Frame, node: ast.BuiltinCall, hint: t.Type | None) -> Value:
    return run_builtin(frame, node, hint)


@expression(ast.ComptimeExpr)
def comptime_expression(frame: Frame, node: ast.ComptimeExpr, hint: t.Type | None) -> Value:
    return frame.comptime_expr(node.operand, hint)


# -------------------------------------------------------------------------------------------------- operators


@expression(ast.Unary)
def unary(frame: Frame, node: ast.Unary, hint: t.Type | None) -> Value:
    if node.op == "&":
        return access.pointer_to(frame, places.place_of(frame, node.operand), node.span)
    return arith.unary(frame, node.op, frame.expr(node.operand, hint), node.span)


@expression(ast.Binary)
def binary(frame: Frame, node: ast.Binary, hint: t.Type | None) -> Value:
    if node.op in ("and", "or"):
        return short_circuit(frame, node, lambda side, guard: frame.expr(side, t.BOOL))
    a = frame.expr(node.lhs)
    b = frame.expr(node.rhs)
    return arith.binary(frame, node.op, a, b, node.span, (node.lhs.span, node.rhs.span))


def short_circuit(frame: Frame, node: ast.Binary, evaluate: Callable[[ast.Expr, ir.Operand | None], Value]) -> Value:
    """`a and b`, `a or b`. `evaluate(side, guard)`: `guard` is the value of the left side if it decides at run time
    whether this side is evaluated."""
    a = _bool(evaluate(node.lhs, None), node.lhs, node.op)
    decides = node.op == "or"
    if isinstance(a, Const):
        return bool_value(decides) if a.data == decides else _bool(evaluate(node.rhs, None), node.rhs, node.op)
    code = frame.code(node.span)
    result = code.register(ir.BOOL)
    more, end = code.new_block(), code.new_block()
    condition = frame.operand(a, node.lhs.span)
    code.emit(ir.Move(0, result, condition))
    code.terminate(ir.Branch(0, condition, end if decides else more, more if decides else end))
    code.enter(more)
    frame.depth += 1
    b = _bool(evaluate(node.rhs, condition), node.rhs, node.op)
    frame.depth -= 1
    code.emit(ir.Move(0, result, frame.operand(b, node.rhs.span)))
    code.jump(end)
    code.enter(end)
    return Rt(t.BOOL, result)


def _bool(value: Value, node: ast.Expr, op: str) -> Value:
    if value.type != t.BOOL:
        fail(node.span, f"operator '{op}' needs type 'bool', got: '{value.type.name}'", truth_hint(value.type))
    return value


# --------------------------------------------------------------------------------------- aggregate literals


@expression(ast.InitList)
def init_list(frame: Frame, node: ast.InitList, hint: t.Type | None) -> Value:
    if node.type_expr is None:
        return _anonymous(frame, node, hint)
    type_ = frame.type_expr(node.type_expr)
    if isinstance(type_, t.ArrayType):
        return _array_literal(frame, node, type_)
    if isinstance(type_, t.StructType):
        return _union_literal(frame, node, type_) if type_.kind == "union" else _struct_literal(frame, node, type_)
    fail(node.type_expr.span, f"type '{type_.name}' has no literal of this form")


def _anonymous(frame: Frame, node: ast.InitList, hint: t.Type | None) -> Value:
    wanted = hint.index if isinstance(hint, t.StructType) and not hint.is_anonymous else None
    parts = []
    for init in node.inits:
        part_hint = None
        if wanted is not None and init.name in wanted and isinstance(hint, t.StructType):
            part_hint = hint.fields[wanted[init.name]].type
        parts.append(frame.expr(init.value, part_hint))
    return make_struct(_anonymous_type(frame, node, parts), parts)


def _anonymous_type(frame: Frame, node: ast.InitList, parts: list[Value]) -> t.StructType:
    """Type of an anonymous literal. A literal in a loop mostly has the type it had before: the last one is kept."""
    known = frame.unit.literal_types.get(node)
    if known is not None and all(entry.type is part.type for entry, part in zip(known.fields, parts, strict=True)):
        return known
    names = [init.name for init in node.inits]
    for position, name in enumerate(names):
        if name is not None and name in names[:position]:
            fail(node.inits[position].span, f"field '{name}' is given twice")
    if None in names and any(name is not None for name in names):
        fail(node.span, "either all fields of a struct literal have a name, or none")
    fields = tuple(t.Field(name, part.type) for name, part in zip(names, parts, strict=True))
    found = frame.unit.literal_types[node] = t.StructType("struct", "auto", fields)
    limits.check_size(found, node.span)
    return found


def _struct_literal(frame: Frame, node: ast.InitList, type_: t.StructType) -> Value:
    given: dict[str, Value] = {}
    for init in node.inits:
        if init.name is None:
            fail(init.span, f"a literal of '{type_.name}' needs field names", "write .name = value")
        if init.name not in type_.index:
            fail(init.span, f"no field named '{init.name}' in '{type_.name}'")
        if init.name in given:
            fail(init.span, f"field '{init.name}' is given twice")
        field_type = type_.fields[type_.index[init.name]].type
        given[init.name] = frame.coerce(frame.expr(init.value, field_type), field_type, init.value.span)
    missing = [name for name in type_.index if name not in given]
    if missing:
        fail(node.span, f"field '{missing[0]}' of '{type_.name}' has no value")
    return make_struct(type_, [given[entry.name] for entry in type_.fields if entry.name is not None])


def _union_literal(frame: Frame, node: ast.InitList, type_: t.StructType) -> Value:
    if len(node.inits) != 1 or node.inits[0].name is None:
        fail(node.span, f"a literal of union '{type_.name}' gives exactly one field")
    init = node.inits[0]
    position = type_.index.get(init.name or "")
    if position is None:
        fail(init.span, f"no field named '{init.name}' in '{type_.name}'")
    field_type = type_.fields[position].type
    value = frame.coerce(frame.expr(init.value, field_type), field_type, init.value.span)
    if isinstance(value, Const):
        return Const(type_, UnionData(position, value.data))
    return _runtime_union(frame, type_, value, init.span)


def _runtime_union(frame: Frame, type_: t.StructType, value: Value, span: ast.Span) -> Value:
    from fabrica_bench.csl.sema import lower

    code = frame.code(span)
    if type_.layout == "packed":
        backing, scalar = t.scalar_type(type_), t.scalar_type(value.type)
        assert backing is not None
        assert scalar is not None
        dst = code.register(backing)
        code.emit(ir.Bitcast(0, dst, backing, scalar, frame.operand(value, span)))
        return Rt(type_, dst)
    slot = lower.frame_memory(frame, type_, span)
    lower.store(frame, slot, 0, value.type, value, span)
    return Rt(type_, slot)


def _array_literal(frame: Frame, node: ast.InitList, type_: t.ArrayType) -> Value:
    charge(frame, type_, node.span)
    if len(node.inits) != type_.count:
        fail(node.span, f"expected {type_.count} elements, got {len(node.inits)}")
    parts = []
    for init in node.inits:
        if init.name is not None:
            fail(init.span, "array elements have no names")
        parts.append(frame.coerce(frame.expr(init.value, type_.element), type_.element, init.value.span))
    if all(isinstance(part, Const) for part in parts):
        return Const(type_, [part.data for part in parts if isinstance(part, Const)])
    return runtime_array(frame, type_, parts, node.span)


def runtime_array(frame: Frame, type_: t.ArrayType, parts: list[Value], span: ast.Span) -> Value:
    """An array in frame memory made of the given elements."""
    from fabrica_bench.csl.sema import lower

    lower.check_runtime_type(frame, type_, span)
    slot = lower.frame_memory(frame, type_, span)
    size = t.size_of(type_.element)
    for position, part in enumerate(parts):
        lower.store(frame, slot, position * size, type_.element, part, span)
    return Rt(type_, slot)


def charge(frame: Frame, type_: t.Type, span: ast.Span) -> None:
    """Count the work of making or copying a value as comptime steps."""
    if isinstance(type_, t.ArrayType | t.StructType):
        frame.unit.session.step(span, limits.bulk_steps(t.leaf_count(type_)))
