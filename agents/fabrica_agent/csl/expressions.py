"""Expressions as CSL text.

Index and counter arithmetic is done in i16, the machine's word, wherever ranges prove that nothing overflows; CSL wants
both operands of an operator to have exactly the same type, so conversions are written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal

import numpy as np

from fabrica_agent.csl.functions import DEPENDS, HELPERS, LIBRARY, USES_MATH
from fabrica_agent.csl.names import Identifiers
from fabrica_agent.lowering.fold import int_value
from fabrica_agent.lowering.ir import (
    COMPARISONS,
    Bin,
    Bitcast,
    Call,
    Cast,
    Const,
    Expr,
    LaneRead,
    Load,
    Op,
    Param,
    Select,
    Ty,
    Un,
    UnsupportedError,
    Var,
    walk,
)  # fmt: skip
from fabrica_agent.lowering.ranges import Range, fits, span

_COMPARE = {Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">=", Op.EQ: "==", Op.NE: "!="}
_ARITHMETIC = {
    Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/", Op.MOD: "%", Op.SHL: "<<", Op.SHR: ">>", Op.AND: "&",
    Op.OR: "|", Op.XOR: "^",
}  # fmt: skip
# Binding strength of the operators that the output leaves unbracketed.
_LEVEL = {"*": 5, "/": 5, "%": 5, "+": 4, "-": 4, "<<": 3, ">>": 3, "&": 2, "^": 2, "|": 2}
_ATOM, _PREFIX, _COMPARISON, _LOGIC, _LOOSE = 9, 7, 1, 0, -1


def float_text(value: float, ty: Ty) -> str:
    """A float as a CSL expression; decimal, since exponents are not part of the documented syntax."""
    if not math.isfinite(value):
        if ty is not Ty.F32:
            raise UnsupportedError(f"the constant {value} in {ty.value}")
        bits = int(np.array([value], np.float32).view(np.uint32)[0])
        return f"@bitcast(f32, @as(u32, {bits:#010x}))"
    shortest = str(np.float32(value)) if ty is Ty.F32 else str(np.float16(value))
    text = format(Decimal(shortest), "f")
    return text if "." in text else text + ".0"


class Expressions:
    """Writes expressions.

    Args:
        identifiers: Names of variables and buffers.
        types: Storage type of every variable as declared in the output.
        buffers: Element type of every buffer.
        ranges: Ranges of integer variables.
        cells: Buffers of one element that are scalars in the output.
        own: Names of modules and functions of the output that are not the usual ones, because those are taken.
    """

    def __init__(
        self,
        identifiers: Identifiers,
        types: Mapping[str, Ty],
        buffers: Mapping[str, Ty],
        ranges: Mapping[str, Range],
        cells: frozenset[str] = frozenset(),
        own: Mapping[str, str] | None = None,
    ) -> None:
        self.own = own or {}
        self.cells = cells
        self.identifiers = identifiers
        self.types = types
        self.buffers = buffers
        self.ranges = ranges
        self.helpers: dict[str, None] = {}
        self.uses_math = False
        self.params: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------- entry points

    def as_type(self, e: Expr, ty: Ty) -> str:
        """`e` as a value of exactly this type, loosely bound."""
        return self._typed(e, ty)[0]

    def operand(self, e: Expr, ty: Ty) -> str:
        """As `as_type`, bracketed so that any operator may stand around it."""
        text, level = self._typed(e, ty)
        return text if level >= _PREFIX else f"({text})"

    def condition(self, e: Expr) -> str:
        """A BOOL expression."""
        return self._bool(e)[0]

    def index(self, e: Expr) -> str:
        """An element index."""
        return self.as_type(e, self.natural(e))

    def element(self, buffer: str, index: Expr) -> str:
        """An array element, or the scalar that stands for the buffer."""
        name = self.identifiers.of(buffer)
        return name if buffer in self.cells else f"{name}[{self.index(index)}]"

    def natural(self, e: Expr) -> Ty:
        """The type in which an integer expression is computed: i16 if all of it fits, else its own."""
        if e.ty.is_int and all(self._small(n) for n in self._arithmetic_nodes(e)):
            return Ty.I16
        return e.ty

    def _arithmetic_nodes(self, e: Expr) -> list[Expr]:
        """The nodes of an integer expression that are computed in its type (not what is below loads and calls)."""
        found = [e]
        match e:
            case Bin(a=a, b=b) if e.ty.is_int:
                found += self._arithmetic_nodes(a) + self._arithmetic_nodes(b)
            case Un(a=a) if e.ty.is_int:
                found += self._arithmetic_nodes(a)
            case Cast(a=a) if a.ty.is_int:
                found += self._arithmetic_nodes(a)
            case Select(a=a, b=b):
                found += self._arithmetic_nodes(a) + self._arithmetic_nodes(b)
            case _:
                pass
        return found

    def _small(self, e: Expr) -> bool:
        if isinstance(e, Load) and self.buffers[e.buffer].bits > 16:
            return False
        if isinstance(e, Var) and self.types.get(e.name, e.ty).bits > 16:
            return False
        return fits(span(e, self.ranges), Ty.I16)

    # ------------------------------------------------------------------------------------------------------ typing

    def _typed(self, e: Expr, ty: Ty) -> tuple[str, int]:
        if ty is Ty.BOOL:
            return self._bool(e)
        if ty.is_float:
            return self._float(e, ty)
        return self._int(e, ty)

    def _convert(self, text: str, level: int, have: Ty, want: Ty) -> tuple[str, int]:
        return (text, level) if have is want else (f"@as({want.value}, {text})", _ATOM)

    def _int(self, e: Expr, ty: Ty) -> tuple[str, int]:
        match e:
            case Const(value=v):
                return (str(int(v)), _ATOM if v >= 0 else _PREFIX)
            case Param(name=name, value=value):
                self.params[name] = value
                return f"@as({ty.value}, {self.identifiers.of(name)})", _ATOM
            case Var(name=name):
                return self._convert(self.identifiers.of(name), _ATOM, self.types.get(name, e.ty), ty)
            case Load(buffer=buffer, index=index):
                text = self.element(buffer, index)
                return self._convert(text, _ATOM, self.buffers[buffer], ty)
            case Cast(a=a):
                return self._cast(e, a, ty)
            case Call(fn=fn, args=args):
                text = f"{self._function(fn)}({', '.join(self.as_type(a, Ty.U32) for a in args)})"
                return self._convert(text, _ATOM, Ty.I32, ty)
            case Bitcast(a=a):
                return self._convert(f"@bitcast({e.ty.value}, {self._not_literal(a, a.ty)})", _ATOM, e.ty, ty)
        # Computed here: in the wanted type if that can't overflow, else in the natural one, then converted.
        own = self.natural(e)
        if own is not ty and ty.bits >= 16 and all(fits(span(n, self.ranges), ty) for n in self._arithmetic_nodes(e)):
            own = ty
        text, level = self._computed(e, own)
        return self._convert(text, level, own, ty)

    def _cast(self, e: Cast, a: Expr, ty: Ty) -> tuple[str, int]:
        if a.ty is Ty.BOOL:
            return f"(if ({self.condition(a)}) @as({ty.value}, 1) else @as({ty.value}, 0))", _ATOM
        if a.ty.is_float:
            text = f"@as({e.ty.value}, {self.as_type(a, a.ty)})"
            return self._convert(text, _ATOM, e.ty, ty)
        if fits(span(a, self.ranges), e.ty):
            return self._int(a, ty)
        text, level = self._int(a, a.ty)
        text, level = self._convert(text, level, a.ty, e.ty)
        return self._convert(text, level, e.ty, ty)

    def _computed(self, e: Expr, ty: Ty) -> tuple[str, int]:
        match e:
            case Bin(op=Op.MIN | Op.MAX as op, a=a, b=b):
                return self._min_max(op, a, b, ty)
            case Bin(op=Op.SHL | Op.SHR as op, a=a, b=b):
                left, left_level = self._typed(a, ty)
                if isinstance(a, Const):
                    left, left_level = f"@as({ty.value}, {left})", _ATOM
                amount = str(int_value(b)) if isinstance(b, Const) else self.operand(b, Ty.U16)
                return f"{_wrap(left, left_level, _PREFIX)} {_ARITHMETIC[op]} {amount}", _LEVEL[_ARITHMETIC[op]]
            case Bin(op=op, a=a, b=b):
                return self._infix(_ARITHMETIC[op], a, b, ty)
            case Un(op=op, a=a):
                text, level = self._typed(a, ty)
                return f"{op}{_wrap(text, level, _ATOM)}", _PREFIX
            case Select():
                return self._select(e, ty)
            case LaneRead():
                raise AssertionError("lane reads are gone after serialisation")
            case _:
                raise AssertionError(e)

    def _infix(self, sign: str, a: Expr, b: Expr, ty: Ty) -> tuple[str, int]:
        level = _LEVEL[sign]
        left, left_level = self._typed(a, ty)
        right, right_level = self._typed(b, ty)
        if isinstance(a, Const) and isinstance(b, Const):
            left = f"@as({ty.value}, {left})"
        if level <= 3:
            return f"{_wrap(left, left_level, _PREFIX)} {sign} {_wrap(right, right_level, _PREFIX)}", level
        return f"{_wrap(left, left_level, level)} {sign} {_wrap(right, right_level, level + 1)}", level

    def _min_max(self, op: Op, a: Expr, b: Expr, ty: Ty) -> tuple[str, int]:
        if ty.is_float:
            self.uses_math = True
            name = "min" if op is Op.MIN else "max"
            first, second = self._not_literal(a, ty), self.as_type(b, ty)
            return f"{self.named('math')}.{name}({first}, {second})", _ATOM
        x, y = self.operand(a, ty), self.operand(b, ty)
        if isinstance(a, Const):
            x = f"@as({ty.value}, {x})"
        if isinstance(b, Const):
            y = f"@as({ty.value}, {y})"
        sign = "<" if op is Op.MIN else ">"
        return f"(if ({x} {sign} {y}) {x} else {y})", _ATOM

    def _not_literal(self, e: Expr, ty: Ty) -> str:
        text = self.as_type(e, ty)
        return f"@as({ty.value}, {text})" if isinstance(e, Const) else text

    def _select(self, e: Select, ty: Ty) -> tuple[str, int]:
        a, b = self._not_literal(e.a, ty), self._not_literal(e.b, ty)
        return f"(if ({self.condition(e.cond)}) {a} else {b})", _ATOM

    def _float(self, e: Expr, ty: Ty) -> tuple[str, int]:
        match e:
            case Const(value=v):
                text = float_text(float(v), ty)
                return text, _PREFIX if text.startswith("-") else _ATOM
            case Var(name=name):
                return self._convert(self.identifiers.of(name), _ATOM, self.types.get(name, e.ty), ty)
            case Load(buffer=buffer, index=index):
                text = self.element(buffer, index)
                return self._convert(text, _ATOM, self.buffers[buffer], ty)
            case Cast(a=a) if a.ty is Ty.BOOL:
                return f"(if ({self.condition(a)}) @as({ty.value}, 1.0) else @as({ty.value}, 0.0))", _ATOM
            case Cast(a=a):
                return self._convert(f"@as({e.ty.value}, {self._not_literal(a, a.ty)})", _ATOM, e.ty, ty)
            case Param(name=name, value=value):
                self.params[name] = value
                return f"@as({ty.value}, {self.identifiers.of(name)})", _ATOM
            case Bitcast(a=a):
                return f"@bitcast({e.ty.value}, {self._not_literal(a, a.ty)})", _ATOM
            case Call(fn=fn, args=args):
                text = f"{self._function(fn)}({', '.join(self._not_literal(a, Ty.F32) for a in args)})"
                return self._convert(text, _ATOM, Ty.F32, ty)
        text, level = self._computed(e, e.ty)
        return self._convert(text, level, e.ty, ty)

    def _function(self, fn: str) -> str:
        if fn in LIBRARY:
            self.uses_math = True
            return f"{self.named('math')}.{LIBRARY[fn]}"
        if fn not in HELPERS:
            raise UnsupportedError(f"the function {fn} has no counterpart on the target")
        for needed in (*DEPENDS.get(fn, ()), fn):
            self.helpers[needed] = None
        self.uses_math = self.uses_math or fn in USES_MATH
        return self.named(fn)

    def named(self, name: str) -> str:
        """What a module or function of the output is called."""
        return self.own.get(name, name)

    # ------------------------------------------------------------------------------------------------------- truth

    def _bool(self, e: Expr) -> tuple[str, int]:
        match e:
            case Const(value=v):
                return ("true" if v else "false"), _ATOM
            case Var(name=name):
                return self.identifiers.of(name), _ATOM
            case Load(buffer=buffer, index=index):
                return f"{self.element(buffer, index)} != 0", _COMPARISON
            case Un(op="!", a=a):
                text, level = self._bool(a)
                return f"!{_wrap(text, level, _PREFIX)}", _PREFIX
            case Bin(op=Op.LAND | Op.LOR as op, a=a, b=b):
                left, left_level = self._bool(a)
                right, right_level = self._bool(b)
                return (
                    f"{_wrap(left, left_level, _COMPARISON)} {op.value} {_wrap(right, right_level, _COMPARISON)}",
                    _LOGIC,
                )
            case Bin(op=op, a=a, b=b) if op in COMPARISONS:
                return self._comparison(op, a, b)
            case Bin(op=op, a=a, b=b):
                return f"({self.operand(a, Ty.BOOL)} {_ARITHMETIC[op]} {self.operand(b, Ty.BOOL)})", _ATOM
            case Select(cond=c, a=a, b=b):
                return f"(if ({self.condition(c)}) {self.operand(a, Ty.BOOL)} else {self.operand(b, Ty.BOOL)})", _ATOM
            case Cast(a=a) if a.ty.is_float:
                return f"{self.operand(a, a.ty)} != 0.0", _COMPARISON
            case _:
                return f"{self.operand(e, e.ty)} != 0", _COMPARISON

    def _comparison(self, op: Op, a: Expr, b: Expr) -> tuple[str, int]:
        ty = a.ty
        if ty is Ty.BOOL:
            return f"{self.operand(a, ty)} {_COMPARE[op]} {self.operand(b, ty)}", _COMPARISON
        if ty.is_int and self.natural(a) is Ty.I16 and self.natural(b) is Ty.I16:
            ty = Ty.I16
        left, left_level = self._typed(a, ty)
        right, right_level = self._typed(b, ty)
        return f"{_wrap(left, left_level, 2)} {_COMPARE[op]} {_wrap(right, right_level, 2)}", _COMPARISON


def _wrap(text: str, level: int, least: int) -> str:
    return text if level >= least else f"({text})"


def expression_params(e: Expr) -> dict[str, int]:
    """The compile-time sizes that an expression mentions."""
    return {n.name: n.value for n in walk(e) if isinstance(n, Param)}


TextOf = Callable[[Expr], str]
