"""Translation of operators: arithmetic, assignment, pointers, conditionals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.addresses import each
from fabrica_agent.cuda.expressions import Expressions
from fabrica_agent.cuda.pointers import moved
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.state import SCALAR_NODES
from fabrica_agent.cuda.types import ctype, scalar_count
from fabrica_agent.cuda.values import (
    Aggregate,
    ArrayType,
    ArrayVar,
    Chosen,
    ChosenPlace,
    CType,
    Element,
    Fixed,
    Opaque,
    Place,
    Pointer,
    ScalarType,
    Value,
)  # fmt: skip
from fabrica_agent.cuda.variable_arrays import to_index
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import COMPARISONS, Assign, Call, Expr, If, Load, Op, Ty, walk

T = TypeVar("T")

_OPERATORS = {
    "+": Op.ADD, "-": Op.SUB, "*": Op.MUL, "/": Op.DIV, "%": Op.MOD, "<<": Op.SHL, ">>": Op.SHR, "&": Op.AND,
    "|": Op.OR, "^": Op.XOR, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE, "==": Op.EQ, "!=": Op.NE,
}  # fmt: skip


class Operators(Expressions):
    """Operator part of the translator."""

    def settled(self, cond: Expr) -> fold.Number | None:
        """The value of a condition where it is known while translating."""
        return fold.value(cond)

    def _binary_operator(self, cursor: Cursor) -> Value:
        op = cu.binary_operator(cursor)
        left, right = cu.kids(cursor)
        if op == "=":
            value = self.value(right)
            if isinstance(value, Aggregate):
                value = self.held(value)
            place = self.place(left)
            self.write(place, value, cursor)
            return self.read(place, cursor) if not isinstance(place, Element | ChosenPlace) else value
        if op == ",":
            self.value(left)
            return self.value(right)
        if op in ("&&", "||"):
            return self._short_circuit(op, left, right)
        a, b = self.operands([left, right])
        if isinstance(a, Pointer | Chosen | Opaque) or isinstance(b, Pointer | Chosen | Opaque):
            return self._pointer_arithmetic(op, a, b, cursor)
        x, y = self.scalar_from(a, cursor), self.scalar_from(b, cursor)
        return self.arithmetic(_OPERATORS[op], x, y, ctype(cursor.type), cursor)

    def arithmetic(self, op: Op, x: Expr, y: Expr, result: CType, cursor: Cursor) -> Expr:
        """`x op y`; operands already have their common type, except for shifts."""
        if not isinstance(result, ScalarType):
            self.fail("arithmetic on this type is not supported", cursor)
        if op in COMPARISONS:
            return fold.binary(op, x, fold.cast(y, x.ty), Ty.BOOL)
        if op in (Op.SHL, Op.SHR):
            return fold.binary(op, fold.cast(x, result.ty), fold.cast(y, result.ty), result.ty)
        return fold.binary(op, fold.cast(x, result.ty), fold.cast(y, result.ty), result.ty)

    def _short_circuit(self, op: str, left: Cursor, right: Cursor) -> Expr:
        a = self.condition(left)
        before = self.pointing()
        with self.capture() as effects:
            b = self.condition(right)
        self.forget_changes(right)
        if moved(before):
            self.fail(f"moving a pointer to another array after {op} is not supported", right)
        combine = fold.logical_and if op == "&&" else fold.logical_or
        if not effects:
            return combine(a, b)
        known = fold.value(a)
        if known is not None:
            if bool(known) == (op == "&&"):
                self.out.extend(effects)
                return b
            return a
        var = self.fresh("both" if op == "&&" else "either", Ty.BOOL)
        self.out.append(Assign(var.name, a))
        taken = (*effects, Assign(var.name, b))
        self.out.append(If(var if op == "&&" else fold.logical_not(var), taken))
        return var

    def _pointer_arithmetic(self, op: str, a: Value, b: Value, cursor: Cursor) -> Value:
        if isinstance(a, Chosen):
            if op in ("+", "-") and isinstance(b, SCALAR_NODES):
                # Null stays null: a program doesn't use what it would compute from it.
                by = self.scalar_from(b, cursor)
                return each(a, lambda p: self._advance(p, by, op, cursor))
            yes, no = (self._pointer_arithmetic(op, p, b, cursor) for p in (a.yes, a.no))
            return self.either(a.cond, yes, no, cursor)
        if isinstance(b, Chosen):
            if op == "+":
                return self._pointer_arithmetic(op, b, a, cursor)
            yes, no = (self._pointer_arithmetic(op, a, p, cursor) for p in (b.yes, b.no))
            return self.either(b.cond, yes, no, cursor)
        if op in ("==", "!=") and (isinstance(a, Opaque) or isinstance(b, Opaque)):
            same = isinstance(a, Opaque) and isinstance(b, Opaque)
            return fold.const(same == (op == "=="), Ty.BOOL)
        if isinstance(a, Pointer) and isinstance(b, Pointer):
            if a.buffer == b.buffer and op in ("-", "==", "!=", "<", ">", "<=", ">="):
                if op != "-":
                    return fold.binary(_OPERATORS[op], a.offset, b.offset, Ty.BOOL)
                stride = fold.i32(scalar_count(a.target) or 1)
                return fold.binary(Op.DIV, fold.binary(Op.SUB, a.offset, b.offset, Ty.I32), stride, Ty.I32)
            if op in ("==", "!="):
                return fold.const(op == "!=", Ty.BOOL)
            self.fail("comparing pointers into different arrays is not supported", cursor)
        if isinstance(b, Pointer) and op == "+":
            a, b = b, a
        if isinstance(a, Pointer) and op in ("+", "-"):
            return self._advance(a, self.scalar_from(b, cursor), op, cursor)
        self.fail("this pointer arithmetic is not supported", cursor)

    def _advance(self, p: Pointer, by: Expr, op: str, cursor: Cursor) -> Pointer:
        stride = scalar_count(p.target)
        if stride is None:
            self.fail("arithmetic on a pointer of unknown element size", cursor)
        step = fold.binary(Op.MUL, to_index(by), fold.i32(stride), Ty.I32)
        return Pointer(p.buffer, fold.binary(_OPERATORS[op], p.offset, step, Ty.I32), p.target)

    def _compound_assignment_operator(self, cursor: Cursor) -> Value:
        op = cu.binary_operator(cursor)[:-1]
        left, right = cu.kids(cursor)
        value = self.value(right)
        place = self.place(left)
        self._fasten(place)
        old = self.read(place, cursor)
        if isinstance(old, Pointer | Chosen):
            by = self.scalar_from(value, cursor)
            self.write(place, each(old, lambda p: self._advance(p, by, op, cursor)), cursor)
            return self.read(place, cursor)
        x, y = self.scalar_from(old, cursor), self.scalar_from(value, cursor)
        common = usual_type(x.ty, y.ty) if op not in ("<<", ">>") else promoted(x.ty)
        new = self.arithmetic(_OPERATORS[op], fold.cast(x, common), fold.cast(y, common), ScalarType(common), cursor)
        self.write(place, fold.cast(new, x.ty), cursor)
        return self.read(place, cursor)

    def _fasten(self, place: Place) -> None:
        """Make a place that is read and then written the same one both times."""
        if isinstance(place, Element):
            place.offset = self._stable(place.offset)
        elif isinstance(place, ChosenPlace):
            self._fasten(place.yes)
            self._fasten(place.no)

    def _stable(self, offset: Expr) -> Expr:
        """An index that is used twice: saved when reading it costs a memory access."""
        return self.save(offset) if any(isinstance(n, Load | Call) for n in walk(offset)) else offset

    def _unary_operator(self, cursor: Cursor) -> Value:
        op = cu.unary_operator(cursor)
        (below,) = cu.kids(cursor)
        if op in ("pre++", "pre--", "post++", "post--"):
            return self._step(op, below, cursor)
        if op == "&":
            return self._address(below, cursor)
        if op == "*":
            return self.read(self.place(cursor), cursor)
        if op == "!":
            return fold.logical_not(self.condition(below))
        x = self.scalar(below)
        target = ctype(cursor.type)
        if not isinstance(target, ScalarType) or op not in ("-", "+", "~"):
            self.fail(f"operator {op} is not supported here", cursor)
        x = fold.cast(x, target.ty)
        return x if op == "+" else fold.unary(op, x, target.ty)

    def _step(self, op: str, below: Cursor, cursor: Cursor) -> Value:
        place = self.place(below)
        old = self.read(place, cursor)
        sign = "+" if op.endswith("++") else "-"
        if isinstance(old, Pointer | Chosen):
            if op.startswith("post"):
                old = each(old, lambda p: Pointer(p.buffer, self._copy(p.offset), p.target))
            self.write(place, each(old, lambda p: self._advance(p, fold.i32(1), sign, cursor)), cursor)
        else:
            x = self.scalar_from(old, cursor)
            if op.startswith("post"):
                x = self._copy(x)
            old = x
            ty = promoted(x.ty) if x.ty.is_int else x.ty
            new = fold.binary(_OPERATORS[sign], fold.cast(x, ty), fold.const(1, ty), ty)
            self.write(place, fold.cast(new, x.ty), cursor)
        return old if op.startswith("post") else self.read(place, cursor)

    def _copy(self, e: Expr) -> Expr:
        var = self.fresh("old", e.ty)
        self.out.append(Assign(var.name, e))
        return var

    def _address(self, below: Cursor, cursor: Cursor) -> Value:
        return self._address_of(self.place(below), cursor)

    def _address_of(self, place: Place, cursor: Cursor) -> Value:
        match place:
            case ChosenPlace(cond=cond, yes=yes, no=no):
                return self.either(cond, self._address_of(yes, cursor), self._address_of(no, cursor), cursor)
            case Element(buffer=buffer, offset=offset, type=t):
                return Pointer(buffer, offset, t)
            case ArrayVar(buffer=buffer, type=t):
                return Pointer(buffer, fold.i32(0), t)
            case Fixed(value=Pointer() as p) if isinstance(p.target, ArrayType):
                return p
        self.fail("taking the address of a local variable is not supported", cursor)

    def _choice(self, cursor: Cursor, take: Callable[[Cursor], T], between: Callable[[Expr, Cursor, Cursor], T]) -> T:
        """What a conditional expression stands for.

        Args:
            cursor: The expression.
            take: Translates the operand that is sure to be chosen, where that is known.
            between: Translates the choice by a condition between the other two operands.
        """
        test, yes, no = cu.kids(cursor)
        cond = self.condition(test)
        known = self.settled(cond)
        if known is not None:
            return take(yes if known else no)
        return between(cond, yes, no)

    def either_place(self, cursor: Cursor) -> Place:
        """The place that a conditional expression names."""

        def between(cond: Expr, yes: Cursor, no: Cursor) -> Place:
            before = self.pointing()
            with self.capture() as effects:
                a, b = self.place(yes), self.place(no)
            in_memory = isinstance(a, Element | ChosenPlace) and isinstance(b, Element | ChosenPlace)
            if not in_memory or effects or moved(before):
                self.fail("choosing between these two places is not supported", cursor)
            return ChosenPlace(self.chosen_by(cond, cursor), a, b)

        return self._choice(cursor, self.place, between)

    def _conditional_operator(self, cursor: Cursor) -> Value:
        return self._choice(cursor, self.value, lambda cond, yes, no: self._either_value(cond, yes, no, cursor))

    def _either_value(self, cond: Expr, yes: Cursor, no: Cursor, cursor: Cursor) -> Value:
        before = self.pointing()
        with self.capture() as effects_a:
            a = self.value(yes)
        self.forget_changes(yes)
        with self.capture() as effects_b:
            b = self.value(no)
        self.forget_changes(no)
        if moved(before):
            self.fail("moving a pointer to another array inside a conditional expression is not supported", cursor)
        if isinstance(a, Pointer) and isinstance(b, Pointer) and a.buffer == b.buffer:
            return Pointer(a.buffer, fold.select(cond, a.offset, b.offset), a.target)
        if isinstance(a, Pointer | Chosen | Opaque) and isinstance(b, Pointer | Chosen | Opaque):
            if isinstance(a, Opaque) and isinstance(b, Opaque):
                self.fail("choosing between two values of this type is not supported", cursor)
            cond = self.chosen_by(cond, cursor)
            if effects_a or effects_b:
                self.out.append(If(cond, tuple(effects_a), tuple(effects_b)))
            return self.either(cond, a, b, cursor)
        if isinstance(a, Aggregate) and isinstance(b, Aggregate) and not effects_a and not effects_b:
            cond = self.save(cond)
            pairs = {n: (a.fields[n], b.fields[n]) for n in a.fields}
            return Aggregate(
                {
                    n: fold.select(cond, self.scalar_from(x, cursor), self.scalar_from(y, cursor))
                    for n, (x, y) in pairs.items()
                }
            )
        x, y = self.scalar_from(a, cursor), self.scalar_from(b, cursor)
        if not effects_a and not effects_b:
            return fold.select(cond, x, y)
        var = self.fresh("choice", x.ty)
        self.out.append(If(cond, (*effects_a, Assign(var.name, x)), (*effects_b, Assign(var.name, fold.cast(y, x.ty)))))
        return var


def promoted(ty: Ty) -> Ty:
    """Integral promotion."""
    return Ty.I32 if ty is Ty.BOOL or (ty.bits < 32 and not ty.is_float) else ty


def usual_type(a: Ty, b: Ty) -> Ty:
    """Usual arithmetic conversions."""
    if a.is_float or b.is_float:
        return Ty.F32 if Ty.F32 in (a, b) or not (a.is_float and b.is_float) else Ty.F16
    a, b = promoted(a), promoted(b)
    if a is b:
        return a
    wide, narrow = (a, b) if a.bits >= b.bits else (b, a)
    return wide if wide.bits > narrow.bits or not wide.is_signed else narrow
