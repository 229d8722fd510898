"""Translation of declarations of variables."""

from __future__ import annotations

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.mutation import Mutation
from fabrica_agent.cuda.operators import Operators
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.state import SCALAR_NODES, is_pure
from fabrica_agent.cuda.types import ctype, is_reference, scalar_count, scalar_of
from fabrica_agent.cuda.values import (
    Aggregate,
    ArrayType,
    ArrayVar,
    Binding,
    Chosen,
    ChosenPlace,
    CType,
    Element,
    Fixed,
    Opaque,
    OpaqueType,
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
)  # fmt: skip
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import Assign, Bitcast, Expr, Space, Store, Ty


class Declarations(Operators):
    """Declaration part of the translator."""

    mutations: Mutation

    def declare(self, cursor: Cursor) -> None:
        """Bind a local variable."""
        initial = self._initialiser(cursor)
        t = ctype(cursor.type)
        if cu.has_attribute(cursor, "CUDASHARED"):
            self.frame.bindings[cursor.hash] = self.shared(cursor, t)
            return
        if is_reference(cursor.type) and initial is not None:
            self.frame.bindings[cursor.hash] = self.referred(self.place(initial))
            return
        if isinstance(t, ArrayType):
            self.frame.bindings[cursor.hash] = self._local_array(cursor, t, initial)
            return
        value = self._initial_value(cursor, t, initial)
        if isinstance(value, RawMemory):
            value = self.convert(value, t, cursor)
        known = value is not None and not isinstance(value, Opaque)
        addressed = cursor.hash in self.mutations.addressed and not isinstance(t, PointerType | OpaqueType)
        if known and value is not None and cursor.hash not in self.mutations.assigned and not addressed:
            self.frame.bindings[cursor.hash] = Fixed(self._frozen(value, cursor.spelling))
            return
        binding = self.variable(cursor.spelling, t, cursor, in_memory=addressed)
        self.frame.bindings[cursor.hash] = binding
        if value is not None:
            self.write(binding, value, cursor)

    def _initial_value(self, cursor: Cursor, t: CType, initial: Cursor | None) -> Value | None:
        if initial is None:
            return None
        if initial.kind.name == "CALL_EXPR" and isinstance(t, StructType) and not list(initial.get_arguments()):
            # Default construction: `S s;` leaves fields unset, `dim3 d;` sets its defaults.
            return self.value(initial) if t.name == "dim3" else None
        return self.convert(self.value(initial), t, cursor)

    def _initialiser(self, cursor: Cursor) -> Cursor | None:
        below = [k for k in cu.kids(cursor) if k.kind.is_expression()]
        if not below:
            return None
        if isinstance(ctype(cursor.type), ArrayType):
            return below[-1] if below[-1].kind.name in ("INIT_LIST_EXPR", "STRING_LITERAL") else None
        return below[-1]

    def _frozen(self, value: Value, name: str) -> Value:
        """A value that later code can't change: impure scalars and offsets are saved in variables."""
        if isinstance(value, SCALAR_NODES):
            if is_pure(value):
                return value
            var = self.fresh(name, value.ty)
            self.out.append(Assign(var.name, value))
            return var
        if isinstance(value, Aggregate):
            return Aggregate({n: self._frozen(v, f"{name}_{n}") for n, v in value.fields.items()})
        if isinstance(value, Pointer | Chosen):
            return self.frozen_address(value, f"{name}_offset")
        return value

    def referred(self, place: Binding) -> Binding:
        """What a reference to a place is bound to: an element keeps its index."""
        if isinstance(place, Element):
            return Element(place.buffer, self.save(place.offset), place.type)
        if isinstance(place, ChosenPlace):
            return ChosenPlace(place.cond, self.referred(place.yes), self.referred(place.no))
        return place

    def variable(self, name: str, t: CType, cursor: Cursor, *, in_memory: bool = False) -> Binding:
        """A new mutable variable of a type."""
        match t:
            case ScalarType(ty=ty):
                if in_memory:
                    return Element(self.fresh_buffer(name, ty, fold.i32(1), Space.LOCAL), fold.i32(0), t)
                return ScalarVar(self.fresh(name, ty))
            case StructType(union=True):
                return self._union(name, t, cursor)
            case StructType(fields=fields):
                ty_ = scalar_of(t)
                if in_memory and ty_ is not None:
                    size = fold.i32(scalar_count(t) or 1)
                    return Element(self.fresh_buffer(name, ty_, size, Space.LOCAL), fold.i32(0), t)
                return StructVar({n: self.variable(f"{name}_{n}", f, cursor) for n, f in fields}, t)
            case PointerType(target=target):
                return PointerVar(target)
            case OpaqueType():
                return Fixed(Opaque(t.name))
            case _:
                self.fail(f"a variable of this type ({cursor.type.spelling}) is not supported", cursor)

    def _union(self, name: str, t: StructType, cursor: Cursor) -> StructVar:
        """One variable of unsigned bits for all fields."""
        types = [f.ty for _, f in t.fields if isinstance(f, ScalarType)]
        if len(types) != len(t.fields) or {f.bits for f in types} not in ({32}, {16}):
            self.fail("a union is supported if its fields are numbers of the same width", cursor)
        held = ScalarVar(self.fresh(name, Ty.U32 if types[0].bits == 32 else Ty.U16))
        fields: dict[str, Binding] = {n: Reinterpreted(held, f) for (n, _), f in zip(t.fields, types, strict=True)}
        return StructVar(fields, t)

    def _local_array(self, cursor: Cursor, t: ArrayType, initial: Cursor | None) -> ArrayVar:
        ty, count = scalar_of(t), scalar_count(t)
        if ty is None or count is None:
            self.fail("a local array needs a constant length and one scalar element type", cursor)
        space = Space.LOCAL if self.frame.in_kernel else Space.GLOBAL
        name = self.fresh_buffer(cursor.spelling, ty, fold.i32(count), space)
        if initial is not None:
            for index, element in enumerate(self._flat_initialisers(initial, t, count, ty)):
                self.out.append(Store(name, fold.i32(index), element))
        return ArrayVar(name, t)

    def _flat_initialisers(self, initial: Cursor, t: ArrayType, count: int, ty: Ty) -> list[Expr]:
        values: list[Expr] = []
        for kid in cu.kids(initial):
            inner = ctype(kid.type)
            if kid.kind.name == "INIT_LIST_EXPR" and isinstance(inner, ArrayType):
                values += self._flat_initialisers(kid, inner, scalar_count(inner) or 0, ty)
            elif isinstance(t.element, StructType):
                values += self._flat_value(self.convert(self.value(kid), t.element, kid), ty, kid)
            else:
                values.append(fold.cast(self.scalar(kid), ty))
        return values + [fold.const(0, ty)] * (count - len(values))

    def _flat_value(self, value: Value, ty: Ty, cursor: Cursor) -> list[Expr]:
        """The numbers of a value in the order of memory, as elements of type `ty`."""
        if isinstance(value, Aggregate):
            return [e for field_value in value.fields.values() for e in self._flat_value(field_value, ty, cursor)]
        number = self.scalar_from(value, cursor)
        return [number if number.ty is ty else Bitcast(number, ty)]

    def shared(self, cursor: Cursor, t: CType) -> Binding:
        """Bind a `__shared__` variable (the kernel half knows the dynamic size)."""
        raise NotImplementedError
