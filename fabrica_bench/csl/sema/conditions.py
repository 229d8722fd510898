"""Conditions of assertions: evaluated like any expression, and their parts noted for the report of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema import arith
from fabrica_bench.csl.sema.calls import call_noting
from fabrica_bench.csl.sema.exprs import short_circuit
from fabrica_bench.csl.values import Const, Rt, Value

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame

_MOST_SHOWN: Final = 8
_LONGEST_NAME: Final = 60


def source_text(node: ast.Expr) -> str:
    """The text of an expression on one line."""
    span = node.span
    return " ".join(span.file.text[span.start : span.end].split())


class Condition:
    """A condition and its operands.

    Attributes:
        value: the condition.
        shown: operands of its comparisons, what `and` and `or` join, and the arguments of calls; literals are left out.
    """

    def __init__(self, frame: Frame, node: ast.Expr) -> None:
        self._frame = frame
        self._guards: tuple[tuple[ir.Operand, bool], ...] = ()
        self._notes: list[ir.Shown] = []
        self.value = frame.coerce(self._evaluate(node, is_part=False), t.BOOL, node.span)

    @property
    def shown(self) -> tuple[ir.Shown, ...]:
        return tuple(self._notes[:_MOST_SHOWN])

    def _evaluate(self, node: ast.Expr, *, is_part: bool) -> Value:
        frame = self._frame
        match node:
            case ast.Binary(op="and" | "or"):
                return short_circuit(frame, node, lambda side, guard: self._side(side, guard, node.op == "and"))
            case ast.Binary(op=op) if op in arith.CMP_OPS:
                a, b = frame.expr(node.lhs), frame.expr(node.rhs)
                self._note(node.lhs, a)
                self._note(node.rhs, b)
                return arith.binary(frame, op, a, b, node.span, (node.lhs.span, node.rhs.span))
            case ast.Unary(op="!"):
                return arith.unary(frame, "!", self._evaluate(node.operand, is_part=is_part), node.span)
            case ast.Call():
                value = call_noting(frame, node, self._note_argument)
            case _:
                value = frame.expr(node, t.BOOL)
        if is_part:
            self._note(node, value)
        return value

    def _side(self, node: ast.Expr, guard: ir.Operand | None, wanted: bool) -> Value:
        before = self._guards
        if guard is not None:
            self._guards = (*before, (guard, wanted))
        value = self._evaluate(node, is_part=True)
        self._guards = before
        return value

    def _note_argument(self, node: ast.Expr, value: Value) -> None:
        """Note what a call got, but for addresses, which say nothing to a reader."""
        if not isinstance(value.type, t.PointerType):
            self._note(node, value)

    def _note(self, node: ast.Expr, value: Value) -> None:
        if isinstance(node, ast.Unary):
            node = node.operand if isinstance(node.operand, ast.IntLit | ast.FloatLit) else node
        if isinstance(node, ast.IntLit | ast.FloatLit | ast.BoolLit):
            return
        name = source_text(node)
        if len(name) > _LONGEST_NAME:
            name = f"{name[: _LONGEST_NAME - 3]}..."
        if isinstance(value, Rt) and isinstance(value.operand, ir.Reg):
            type_ = t.scalar_type(value.type)
            if type_ is not None and type_.kind != "dsd":
                self._notes.append(ir.Shown(name, value.operand, type_, self._guards))
        elif isinstance(value, Const) and isinstance(value.data, int | float):
            type_ = t.scalar_type(value.type) or (ir.I64 if isinstance(value.data, int) else ir.F32)
            self._notes.append(ir.Shown(name, ir.Imm(value.data), type_, self._guards))
