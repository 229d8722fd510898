"""Translation of expressions.

Side effects inside expressions are emitted as statements before the statement that contains them, in evaluation order;
an operand that such an effect could change is saved in a variable first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.addresses import each, is_set, pointing_into
from fabrica_agent.cuda.pointers import now, restart
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.state import SCALAR_NODES, forget_binding, is_pure
from fabrica_agent.cuda.types import ctype, kind_name, scalar_count, scalar_of
from fabrica_agent.cuda.values import (
    Aggregate,
    ArrayType,
    ArrayVar,
    Binding,
    Chosen,
    ChosenPlace,
    Closure,
    CType,
    Element,
    Fixed,
    Opaque,
    OpaqueType,
    Place,
    Pointer,
    PointerType,
    PointerVar,
    RawMemory,
    Reinterpreted,
    ScalarType,
    ScalarVar,
    StructType,
    StructVar,
    Value,
    VariableArray,
)  # fmt: skip
from fabrica_agent.cuda.variable_arrays import VariableArrays, row_type, to_index
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import Assign, Atomic, Bitcast, Expr, If, Load, Op, Store, Ty, names_in


class Expressions(VariableArrays):
    """Expression half of the translator; the statement half supplies `call`."""

    def operands(self, cursors: Sequence[Cursor]) -> list[Value]:
        """Translate left to right, saving an operand that a later one's side effects could change."""
        values: list[Value] = []
        for cursor in cursors:
            with self.capture() as effects:
                value = self.value(cursor)
            if any(isinstance(s, Store | Atomic | Assign | If) for s in effects):
                values = [self.save(v) if isinstance(v, SCALAR_NODES) else v for v in values]
            self.out.extend(effects)
            values.append(value)
        return values

    # ---------------------------------------------------------------------------------------------------- values

    def scalar(self, cursor: Cursor) -> Expr:
        """The value of an arithmetic expression."""
        value = self.value(cursor)
        if isinstance(value, Aggregate) and len(value.fields) == 1:
            value = next(iter(value.fields.values()))
        if not isinstance(value, SCALAR_NODES):
            if isinstance(value, Pointer | Chosen | Opaque) and ctype(cursor.type) == ScalarType(Ty.BOOL):
                return is_set(value)
            self.fail("a scalar value is needed here", cursor)
        return value

    def condition(self, cursor: Cursor) -> Expr:
        """The truth of an expression."""
        value = self.value(cursor)
        if isinstance(value, Pointer | Chosen | Opaque):
            return is_set(value)
        return fold.cast(self.scalar_from(value, cursor), Ty.BOOL)

    def value(self, cursor: Cursor) -> Value:
        """Translate an expression."""
        kind = cursor.kind.name
        target = ctype(cursor.type)
        if isinstance(target, ScalarType) and kind != "CALL_EXPR":
            known = cu.evaluate(cursor)
            if known is not None:
                return fold.const(known, target.ty)
        handler = getattr(self, f"_{kind.lower()}", None)
        if handler is None:
            self.fail(f"expression {kind.lower().replace('_', ' ')} is not understood", cursor)
        result: Value = handler(cursor)
        return result

    def _through(self, cursor: Cursor) -> Value:
        """Parentheses and implicit conversions."""
        below = [k for k in cu.kids(cursor) if not k.kind.name.endswith("_REF") or k.kind.name == "MEMBER_REF"]
        if not below:
            target = ctype(cursor.type)
            if isinstance(target, PointerType):
                return Opaque("null")
            return self.zero(target, cursor)
        return self.convert(self.value(below[-1]), ctype(cursor.type), cursor)

    _unexposed_expr = _paren_expr = _cstyle_cast_expr = _cxx_static_cast_expr = _through
    _cxx_reinterpret_cast_expr = _cxx_const_cast_expr = _cxx_functional_cast_expr = _through

    def convert(self, value: Value, target: CType, cursor: Cursor) -> Value:
        """Implicit or explicit conversion of a value."""
        if isinstance(value, SCALAR_NODES):
            if isinstance(target, ScalarType):
                return fold.cast(value, target.ty)
            if isinstance(target, PointerType) and fold.is_const(value, 0):
                return Opaque("null")
            return value
        if isinstance(value, Pointer | Chosen) and isinstance(target, PointerType):
            return each(value, lambda p: self._convert_pointer(p, target.target, cursor))
        if isinstance(value, RawMemory) and isinstance(target, PointerType):
            ty = scalar_of(target.target)
            return value if ty is None else self.allocate("heap", target.target, value.bytes, cursor)
        if isinstance(value, Pointer | Chosen | Opaque) and target == ScalarType(Ty.BOOL):
            return is_set(value)
        return value

    def _convert_pointer(self, p: Pointer, target: CType, cursor: Cursor) -> Pointer:
        if isinstance(target, OpaqueType):
            return p
        want, have = scalar_of(target), self.buffers[p.buffer].ty
        if want is None:
            self.fail("a pointer to a struct of mixed types can't be placed in a flat buffer", cursor)
        if want is not have:
            if have.bits == want.bits:
                return Pointer(p.buffer, p.offset, target)
            self.fail(f"reading a {have.value} buffer as {want.value} through a pointer cast is not supported", cursor)
        return Pointer(p.buffer, p.offset, target)

    def _integer_literal(self, cursor: Cursor) -> Value:
        self.fail("this literal can't be evaluated", cursor)

    _floating_literal = _character_literal = _integer_literal

    def _cxx_bool_literal_expr(self, cursor: Cursor) -> Value:
        text = next(iter(cursor.get_tokens())).spelling
        return fold.const(text == "true", Ty.BOOL)

    def _string_literal(self, cursor: Cursor) -> Value:
        return Opaque("string")

    def _cxx_null_ptr_literal_expr(self, cursor: Cursor) -> Value:
        return Opaque("null")

    _gnu_null_expr = _cxx_null_ptr_literal_expr

    def _cxx_unary_expr(self, cursor: Cursor) -> Value:
        self.fail("sizeof of this type is not known", cursor)

    def _init_list_expr(self, cursor: Cursor) -> Value:
        target = ctype(cursor.type)
        if isinstance(target, ScalarType):
            below = cu.kids(cursor)
            return self.convert(self.value(below[0]), target, cursor) if below else fold.const(0, target.ty)
        if not isinstance(target, StructType):
            self.fail("an initialiser list of this type is not supported", cursor)
        values = self.operands(cu.kids(cursor))
        return self._aggregate(target, values, cursor)

    def _aggregate(self, target: StructType, values: Sequence[Value], cursor: Cursor) -> Aggregate:
        fields: dict[str, Value] = {}
        for index, (name, field_type) in enumerate(target.fields):
            given = values[index] if index < len(values) else self.zero(field_type, cursor)
            fields[name] = self.convert(given, field_type, cursor)
        return Aggregate(fields)

    def zero(self, t: CType, cursor: Cursor) -> Value:
        """The value of a variable that is initialised with nothing."""
        if isinstance(t, ScalarType):
            return fold.const(0, t.ty)
        if isinstance(t, StructType):
            return Aggregate({n: self.zero(f, cursor) for n, f in t.fields})
        return Opaque("null")

    def _lambda_expr(self, cursor: Cursor) -> Value:
        return Closure(cursor, self.frame)

    def _cxx_this_expr(self, cursor: Cursor) -> Value:
        self.fail("`this` as a value is not supported", cursor)

    # ------------------------------------------------------------------------------------------ names and places

    def _decl_ref_expr(self, cursor: Cursor) -> Value:
        return self.read(self.place(cursor), cursor)

    def _array_subscript_expr(self, cursor: Cursor) -> Value:
        return self.read(self.place(cursor), cursor)

    def _member_ref_expr(self, cursor: Cursor) -> Value:
        below = cu.kids(cursor)
        if below:
            base = cu.strip(below[0])
            if base.kind.name == "DECL_REF_EXPR" and base.spelling in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
                return self._geometry(base.spelling, cursor)
            if base.kind.name not in ("DECL_REF_EXPR", "MEMBER_REF_EXPR", "ARRAY_SUBSCRIPT_EXPR", "UNARY_OPERATOR"):
                whole = self.value(below[0])
                if isinstance(whole, Aggregate):
                    return whole.fields[cursor.spelling]
        return self.read(self.place(cursor), cursor)

    def _geometry(self, what: str, cursor: Cursor) -> Value:
        axis = "xyz".index(cursor.spelling)
        if what not in self.kernel_geometry:
            self.fail(f"{what} outside a kernel", cursor)
        return self.kernel_geometry[what][axis]

    def place(self, cursor: Cursor) -> Place:
        """The place that an lvalue expression names."""
        kind = cursor.kind.name
        below = cu.kids(cursor)
        if kind in ("UNEXPOSED_EXPR", "PAREN_EXPR", "CXX_CONST_CAST_EXPR", "CXX_STATIC_CAST_EXPR") and below:
            return self.place(below[-1])
        if kind == "DECL_REF_EXPR":
            return self._named(cursor)
        if kind == "ARRAY_SUBSCRIPT_EXPR":
            variable = self.variable_of_array(cursor)
            if variable is not None:
                return variable
            base, index = self.operands(below[:2])
            return self._element(base, self.scalar_from(index, cursor), cursor)
        if kind == "UNARY_OPERATOR" and cu.unary_operator(cursor) == "*":
            if cu.strip(below[0]).kind.name == "CXX_THIS_EXPR" and self.frame.this is not None:
                return self.frame.this
            variable = self.variable_of_array(cursor)
            return self._element(self.value(below[0]), fold.i32(0), cursor) if variable is None else variable
        if kind == "UNARY_OPERATOR" and cu.unary_operator(cursor) in ("pre++", "pre--"):
            self.value(cursor)
            return self.place(below[0])
        if kind == "MEMBER_REF_EXPR":
            return self._member(cursor, below)
        if kind in ("BINARY_OPERATOR", "COMPOUND_ASSIGNMENT_OPERATOR"):
            self.value(cursor)
            return self.place(below[0])
        if kind == "CONDITIONAL_OPERATOR" and all(_names_place(k) for k in below[1:]):
            return self.either_place(cursor)
        value = self.value(cursor)
        return Fixed(value)

    def _named(self, cursor: Cursor) -> Place:
        declared = cursor.referenced
        binding = self.frame.find(declared.hash) or self.globals.get(declared.hash)
        if binding is None:
            binding = self.global_binding(declared)
        if binding is None:
            self.fail(f"{cursor.spelling} is not a variable that the translator knows", cursor)
        return binding

    def global_binding(self, declared: Cursor) -> Binding | None:
        """Bind a file-scope variable on first use (the statement half knows how)."""
        raise NotImplementedError

    def _member(self, cursor: Cursor, below: list[Cursor]) -> Place:
        if not below or cu.strip(below[0]).kind.name == "CXX_THIS_EXPR":
            this = self.frame.this
            if this is None or cursor.spelling not in this.fields:
                self.fail(f"member {cursor.spelling} of an object that the translator doesn't know", cursor)
            return this.fields[cursor.spelling]
        if kind_name(below[0].type.get_canonical()) == "POINTER":
            base: Place = self._element(self.value(below[0]), fold.i32(0), cursor)
        else:
            base = self.place(below[0])
        return self.field(base, cursor.spelling, cursor)

    def either_place(self, cursor: Cursor) -> Place:
        """The place that a conditional expression names (the operator half knows how)."""
        raise NotImplementedError

    def field(self, base: Place, name: str, cursor: Cursor) -> Place:
        """A field of a struct place."""
        match base:
            case StructVar(fields=fields) if name in fields:
                return fields[name]
            case ChosenPlace(cond=cond, yes=yes, no=no):
                return ChosenPlace(cond, self.field(yes, name, cursor), self.field(no, name, cursor))
            case Fixed(value=Aggregate(fields=values)) if name in values:
                return Fixed(values[name])
            case Element(buffer=buffer, offset=offset, type=StructType(fields=members)):
                at = 0
                for member, member_type in members:
                    if member == name:
                        return Element(buffer, fold.binary(Op.ADD, offset, fold.i32(at), Ty.I32), member_type)
                    at += scalar_count(member_type) or 0
        self.fail(f"field {name} can't be reached here", cursor)

    def _element(self, base: Value, index: Expr, cursor: Cursor) -> Place:
        if isinstance(base, Chosen):
            # What is behind a null pointer isn't asked for: the pointer is the other one then.
            if isinstance(base.yes, Opaque) or isinstance(base.no, Opaque):
                return self._element(base.no if isinstance(base.yes, Opaque) else base.yes, index, cursor)
            yes, no = self._element(base.yes, index, cursor), self._element(base.no, index, cursor)
            return ChosenPlace(base.cond, yes, no)
        if not isinstance(base, Pointer):
            self.fail("indexing something that isn't a known array or buffer", cursor)
        stride = scalar_count(base.target)
        if stride is None:
            self.fail("the element type of this pointer is not known", cursor)
        index = fold.binary(Op.MUL, to_index(index), fold.i32(stride), Ty.I32)
        return Element(base.buffer, fold.binary(Op.ADD, base.offset, index, Ty.I32), base.target)

    def read(self, place: Place, cursor: Cursor) -> Value:
        """The value now held by a place; arrays decay to pointers."""
        match place:
            case Fixed(value=value):
                return value
            case ScalarVar(var=var, known=known):
                return var if known is None else known
            case Reinterpreted(held=held_bits, ty=ty):
                return Bitcast(self.scalar_from(self.read(held_bits, cursor), cursor), ty)
            case PointerVar(buffer=None):
                self.read_blank(place)
                return Opaque("null")
            case PointerVar(buffer=buffer, offset=offset, target=target):
                return pointing_into(buffer, offset if offset is not None else fold.i32(0), target)
            case ChosenPlace(cond=cond, yes=yes, no=no):
                return self.either(cond, self.read(yes, cursor), self.read(no, cursor), cursor)
            case StructVar(fields=fields):
                return Aggregate({n: self.read(f, cursor) for n, f in fields.items()})
            case ArrayVar(buffer=buffer, type=t):
                return Pointer(buffer, fold.i32(0), row_type(t))
            case Element(buffer=buffer, offset=offset, type=ScalarType(ty=ty)):
                held = self.buffers[buffer].ty
                return Bitcast(Load(buffer, offset, held), ty) if held is not ty else Load(buffer, offset, held)
            case Element(buffer=buffer, offset=offset, type=ArrayType() as t):
                return Pointer(buffer, offset, row_type(t))
            case Element(type=StructType(fields=members)):
                return Aggregate({n: self.read(self.field(place, n, cursor), cursor) for n, _ in members})
            case VariableArray():
                self.fail("an array of pointers is supported only where an element of it is named", cursor)
        self.fail("this place can't be read", cursor)

    def either(self, cond: Expr, a: Value, b: Value, cursor: Cursor) -> Value:
        """`a` where the (pure or saved) condition holds, else `b`."""
        if isinstance(a, Pointer) and isinstance(b, Pointer) and a.buffer == b.buffer:
            return Pointer(a.buffer, fold.select(cond, a.offset, b.offset), a.target)
        if isinstance(a, Pointer | Chosen | Opaque) and isinstance(b, Pointer | Chosen | Opaque):
            if isinstance(a, Opaque) and isinstance(b, Opaque):
                return a
            return a if a == b else Chosen(cond, a, b)
        if isinstance(a, Aggregate) and isinstance(b, Aggregate):
            return Aggregate({n: self.either(cond, a.fields[n], b.fields[n], cursor) for n in a.fields})
        return fold.select(cond, self.scalar_from(a, cursor), self.scalar_from(b, cursor))

    def write(self, place: Place, value: Value, cursor: Cursor) -> None:
        """Emit the assignment of a value to a place."""
        match place, value:
            case ScalarVar(var=var), _:
                scalar = fold.cast(self.scalar_from(value, cursor), var.ty)
                self.out.append(Assign(var.name, scalar))
                place.known = scalar if is_pure(scalar) else None
            case Reinterpreted(held=held_bits, ty=ty), _:
                scalar = fold.cast(self.scalar_from(value, cursor), ty)
                self.write(held_bits, Bitcast(scalar, held_bits.var.ty), cursor)
            case Element(buffer=buffer, offset=offset, type=ScalarType(ty=ty)), _:
                held = self.buffers[buffer].ty
                scalar = fold.cast(self.scalar_from(value, cursor), ty)
                self.out.append(Store(buffer, offset, scalar if held is ty else Bitcast(scalar, held)))
            case PointerVar(), Pointer() | Chosen() | Opaque():
                self.point(place, value, cursor)
            case ChosenPlace(cond=cond, yes=yes, no=no), _:
                before = self.pointing()
                with self.capture() as then:
                    self.write(yes, value, cursor)
                after = now(before)
                restart(before)
                with self.capture() as other:
                    self.write(no, value, cursor)
                self.out.append(If(cond, *self.meet(cond, after, tuple(then), tuple(other))))
                forget_binding(place)
            case StructVar(fields=fields), Aggregate(fields=values):
                if _depends_on_order(fields, values):
                    values = {n: self.held(v) for n, v in values.items()}
                for name, field_place in fields.items():
                    self.write(field_place, values[name], cursor)
            case Element(type=StructType()), Aggregate(fields=values):
                held_values = {n: self.held(v) for n, v in values.items()}
                for name, field_value in held_values.items():
                    self.write(self.field(place, name, cursor), field_value, cursor)
            case Fixed(value=Opaque()), _:
                return
            case _:
                self.fail("this assignment is not supported", cursor)

    def _call_expr(self, cursor: Cursor) -> Value:
        return self.call(cursor)

    def call(self, cursor: Cursor) -> Value:
        """A call of any kind (the statement half knows how)."""
        raise NotImplementedError


def _names_place(cursor: Cursor) -> bool:
    """Whether an operand names an element or what a pointer points to; a wanted value has a conversion above that."""
    while cursor.kind.name == "PAREN_EXPR":
        (cursor,) = cu.kids(cursor)
    return cursor.kind.name == "ARRAY_SUBSCRIPT_EXPR" or (
        cursor.kind.name == "UNARY_OPERATOR" and cu.unary_operator(cursor) == "*"
    )


def _depends_on_order(places: Mapping[str, Place], values: Mapping[str, Value]) -> bool:
    """Whether the value of one field is made of what the assignment of an earlier one changes."""
    changed: set[str] = set()
    for name, place in places.items():
        if not changed.isdisjoint(_names_in(values[name])):
            return True
        changed |= _changed_with(place)
    return False


def _names_in(value: Value) -> frozenset[str]:
    """The variables that a value is made of."""
    match value:
        case Aggregate(fields=fields):
            return frozenset(n for v in fields.values() for n in _names_in(v))
        case Pointer(offset=offset):
            return names_in(offset)
        case Chosen(cond=cond, yes=yes, no=no):
            return names_in(cond) | _names_in(yes) | _names_in(no)
        case Closure() | Opaque() | RawMemory():
            return frozenset()
    return names_in(value)


def _changed_with(place: Place) -> frozenset[str]:
    """The variables that the assignment of a variable changes."""
    match place:
        case ScalarVar(var=var) | Reinterpreted(held=ScalarVar(var=var)):
            return frozenset((var.name,))
        case PointerVar(offset=offset, selector=selector):
            found = (offset, None if selector is None else selector.number)
            return frozenset(v.name for v in found if v is not None)
        case StructVar(fields=fields):
            return frozenset(n for f in fields.values() for n in _changed_with(f))
    return frozenset()
