"""Arrays whose elements are variables of their own: pointers, and structs that hold some."""

from __future__ import annotations

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.pointers import Pointers
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.types import ctype, holds_pointers
from fabrica_agent.cuda.values import ArrayType, ChosenPlace, CType, Place, VariableArray
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import Bin, Cast, Expr, Op, Ty


class VariableArrays(Pointers):
    """Element part of the translator."""

    def variable_of_array(self, cursor: Cursor) -> Place | None:
        """The element that `array[index]`, `*array` or `*(array + index)` names; None where that is no such array."""
        cursor = cu.strip(cursor)
        below = cu.kids(cursor)
        if cursor.kind.name == "ARRAY_SUBSCRIPT_EXPR":
            return self._at(below[0], below[1], cursor)
        if cursor.kind.name == "UNARY_OPERATOR" and cu.unary_operator(cursor) == "*":
            return self.variable_pointed_to(below[0])
        return None

    def variable_pointed_to(self, cursor: Cursor) -> Place | None:
        """The element at `array`, or at `array + index`."""
        cursor = cu.strip(cursor)
        below = cu.kids(cursor)
        while cursor.kind.name == "CSTYLE_CAST_EXPR":
            cursor = cu.strip(below[-1])
            below = cu.kids(cursor)
        if cursor.kind.name == "BINARY_OPERATOR" and cu.binary_operator(cursor) == "+":
            found = self._at(below[0], below[1], cursor)
            return self._at(below[1], below[0], cursor) if found is None else found
        return self._at(cursor, None, cursor)

    def _at(self, base: Cursor, index: Cursor | None, cursor: Cursor) -> Place | None:
        array = self._array(base)
        if array is None:
            return None
        return self._element_at(array, fold.i32(0) if index is None else self.scalar(index), cursor)

    def _array(self, cursor: Cursor) -> Place | None:
        """The array of variables, or the choice between some, that an expression names; None for anything else."""
        cursor = cu.strip(cursor)
        t = ctype(cursor.type)
        if not isinstance(t, ArrayType) or not holds_pointers(t):
            return None
        if cursor.kind.name in ("ARRAY_SUBSCRIPT_EXPR", "UNARY_OPERATOR"):
            return self.variable_of_array(cursor)
        if cursor.kind.name not in ("DECL_REF_EXPR", "MEMBER_REF_EXPR"):
            return None
        found = self.place(cursor)
        return found if _is_array_of_variables(found) else None

    def _element_at(self, array: Place, index: Expr, cursor: Cursor) -> Place:
        if isinstance(array, ChosenPlace):
            index = self.save(to_index(index))
            yes, no = (self._element_at(a, index, cursor) for a in (array.yes, array.no))
            return ChosenPlace(array.cond, yes, no)
        assert isinstance(array, VariableArray)
        known = fold.int_value(index)
        if known is not None:
            if not 0 <= known < len(array.elements):
                self.fail(f"index {known} is outside the array", cursor)
            return array.elements[known]
        index = self.save(to_index(index))
        # An index that is none of the others is that of the last one: any other has no meaning in the program.
        found = array.elements[-1]
        for number in range(len(array.elements) - 2, -1, -1):
            cond = fold.binary(Op.EQ, index, fold.i32(number), Ty.BOOL)
            settled = self.settled(cond)
            if settled is None:
                found = ChosenPlace(self.chosen_by(cond, cursor), array.elements[number], found)
            elif settled:
                found = array.elements[number]
        return found

    def place(self, cursor: Cursor) -> Place:
        """The place that an lvalue expression names (the expression part knows how)."""
        raise NotImplementedError

    def scalar(self, cursor: Cursor) -> Expr:
        """The value of an arithmetic expression (the expression part knows how)."""
        raise NotImplementedError

    def settled(self, cond: Expr) -> fold.Number | None:
        """The value of a condition where that is known (the operator part knows how)."""
        raise NotImplementedError


def _is_array_of_variables(place: Place) -> bool:
    if isinstance(place, ChosenPlace):
        return _is_array_of_variables(place.yes)
    return isinstance(place, VariableArray)


def row_type(t: ArrayType) -> CType:
    """What the elements of an array are: scalars, or rows of a multi-dimensional array."""
    return t.element if len(t.dims) == 1 else ArrayType(t.element, t.dims[1:])


def to_index(e: Expr) -> Expr:
    """An element index as I32, the type of all buffer offsets.

    64-bit and unsigned index arithmetic is narrowed operand by operand: a PE has 48 KiB, so a meaningful index fits.
    """
    if e.ty is Ty.I32:
        return e
    if e.ty in (Ty.I64, Ty.U64) and isinstance(e, Bin) and e.op in (Op.ADD, Op.SUB, Op.MUL):
        return fold.binary(e.op, to_index(e.a), to_index(e.b), Ty.I32)
    if isinstance(e, Cast) and e.a.ty.is_int and e.ty.bits > e.a.ty.bits:
        return to_index(e.a)
    return fold.cast(e, Ty.I32)
