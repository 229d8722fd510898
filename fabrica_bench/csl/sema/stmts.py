"""Declarations, assignments and expression statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema import access, arith, limits, lower, places
from fabrica_bench.csl.sema.control import run_statements
from fabrica_bench.csl.sema.dispatch import EXPRESSIONS, STATEMENTS, statement
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.modules import with_label
from fabrica_bench.csl.values import Cell, Const, MemVar, RegVar, Rt, Value, copy_data, zero_data

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame


# ----------------------------------------------------------------------------------------------- declarations


@statement(ast.VarDecl)
def declaration(frame: Frame, node: ast.VarDecl) -> None:
    if node.storage is not None:
        fail(node.span, f"'{node.storage}' is only allowed at top level")
    if node.kind is ast.VarKind.PARAM:
        fail(node.span, "'param' is only allowed at top level")
    type_ = frame.type_expr(node.type_expr) if node.type_expr is not None else None
    at_comptime = frame.comptime or node.is_comptime
    value: Value | None = None
    if node.init is not None:
        value = frame.comptime_expr(node.init, type_) if node.is_comptime else frame.expr(node.init, type_)
        if type_ is not None:
            value = frame.coerce(value, type_, node.init.span)
    elif type_ is None:
        fail(node.name_span, f"'{node.name}' needs a type or an initial value")
    if node.kind is ast.VarKind.CONST:
        if value is None:
            fail(node.name_span, f"constant '{node.name}' has no value")
        _declare_const(frame, node, value)
    elif at_comptime:
        _declare_cell(frame, node, type_, value)
    else:
        _declare_runtime(frame, node, type_, value)


def _declare_const(frame: Frame, node: ast.VarDecl, value: Value) -> None:
    if isinstance(value, Const):
        frame.declare(node.name, with_label(value, node.name), node.name_span)
        return
    if value.type.is_comptime_only and isinstance(value, Rt):
        fail(node.name_span, f"variable of type '{value.type.name}' must be comptime-known")
    lower.bind_value(frame, node.name, lower.copy_to_register(frame, value, node.span), node.name_span)


def _declare_cell(frame: Frame, node: ast.VarDecl, type_: t.Type | None, value: Value | None) -> None:
    if value is None:
        assert type_ is not None
        value = Const(type_, zero_data(type_))
    if not isinstance(value, Const):
        fail(node.name_span, f"comptime variable '{node.name}' needs a comptime-known value")
    if isinstance(value.type, t.ArrayType | t.StructType):
        frame.unit.session.step(node.name_span, limits.bulk_steps(t.leaf_count(value.type)))
    frame.declare(node.name, Cell(value.type, copy_data(value.data), frame.depth), node.name_span)


def _declare_runtime(frame: Frame, node: ast.VarDecl, type_: t.Type | None, value: Value | None) -> None:
    found = type_ if type_ is not None else value.type if value is not None else t.VOID
    lower.check_runtime_type(frame, found, node.name_span)
    if found == t.VOID:
        fail(node.name_span, "variable of type 'void' must be comptime-known")
    scalar = t.scalar_type(found)
    if scalar is None or node.name in frame.activation.address_taken:
        slot = _memory(frame, node, found)
        if value is not None:
            lower.store(frame, slot, 0, found, value, node.span)
        frame.declare(node.name, MemVar(found, slot), node.name_span)
        return
    code = frame.code(node.span)
    source: ir.Operand
    if value is None:
        zero = zero_data(found)
        source = ir.Imm(int(zero) if isinstance(zero, bool) else zero) if not isinstance(zero, list) else ir.Imm(0)
    else:
        source = lower.operand(frame, value, node.span)
    code = frame.code(node.span)
    register = code.register(scalar, is_variable=True)
    code.emit(ir.Move(0, register, source))
    frame.declare(node.name, RegVar(found, register), node.name_span)


def _memory(frame: Frame, node: ast.VarDecl, type_: t.Type) -> ir.Reg:
    code = frame.code(node.span)
    alignment = t.align_of(type_)
    if node.attributes.align is not None:
        alignment = max(alignment, int(frame.comptime_expr(node.attributes.align).data))
    dst = code.register(ir.U16)
    code.emit(ir.FrameAddr(0, dst, code.frame_slot(t.size_of(type_), alignment)))
    return dst


# ------------------------------------------------------------------------------------------------ assignments


@statement(ast.Assign)
def assign(frame: Frame, node: ast.Assign) -> None:
    if isinstance(node.target, ast.Ident) and node.target.name == "_" and node.op == "=":
        frame.expr(node.value)
        return
    place = _target(frame, node.target)
    if node.op == "=":
        value = frame.expr(node.value, place.type)
    else:
        current = access.load(frame, place, node.target.span)
        operand = frame.expr(node.value)
        sides = node.target.span, node.value.span
        value = arith.binary(frame, node.op[:-1], current, operand, node.span, sides)
    access.store(frame, place, frame.coerce(value, place.type, node.value.span), node.span)


def _target(frame: Frame, node: ast.Expr) -> places.Place:
    place = places.place_of(frame, node)
    if isinstance(place, places.ValuePlace | places.ConstPlace):
        fail(node.span, "cannot assign to a constant", _constant_hint(frame, node, place.type))
    return place


def _constant_hint(frame: Frame, node: ast.Expr, type_: t.Type) -> str | None:
    whole = node
    while isinstance(node, ast.Index | ast.FieldAccess):
        node = node.base
    if not isinstance(node, ast.Ident):
        return None
    name = node.name
    if whole is not node:
        entry = frame.module.entries.get(name)
        is_whole = entry is not None and entry.value and isinstance(entry.value.type, t.ArrayType | t.StructType)
        return f"declare '{name}' with 'var'" if is_whole else None
    if frame.scope.find(name) is None:
        return f"declare '{name}' with 'var'"
    if isinstance(type_, t.PointerType) and not type_.is_const and not type_.is_many:
        return f"to change what it points to, write '{name}.* = ...'"
    return f"declare '{name}' with 'var'; a parameter or loop variable can't change, but a 'var' copy of it can"


# ----------------------------------------------------------------------------------------- expression statements


@statement(ast.ExprStmt)
def expression_statement(frame: Frame, node: ast.ExprStmt) -> None:
    frame.execute(node.expr)


@statement(ast.Block)
def block_statement(frame: Frame, node: ast.Block) -> None:
    if node.label is None:
        run_statements(frame, node.stmts)
    else:
        frame.expr(node)


@statement(ast.ComptimeExpr)
def comptime_statement(frame: Frame, node: ast.ComptimeExpr) -> None:
    frame.at_comptime().execute(node.operand)


def _evaluate(frame: Frame, node: ast.Expr) -> None:
    frame.expr(node)


def register_remaining() -> None:
    """Every other expression is a statement whose value is dropped."""
    for node_type in EXPRESSIONS:
        STATEMENTS.setdefault(node_type, _evaluate)
