"""Translation of declarations of variables."""

from __future__ import annotations

from contextlib import suppress

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.mutation import Mutation
from fabrica_agent.cuda.operators import Operators
from fabrica_agent.cuda.pointers import pointers_of
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.state import SCALAR_NODES, is_pure
from fabrica_agent.cuda.types import ctype, holds_pointers, is_reference, scalar_count, scalar_of
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
    VariableArray,
)  # fmt: skip
from fabrica_agent.cuda.variable_arrays import row_type
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import Assign, Bitcast, Buffer, Expr, Space, Store, Ty, UnsupportedError

MAX_VARIABLES = 16
"""Elements of an array of pointers."""


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
            case ArrayType() if holds_pointers(t):
                return self._variable_array(name, t, cursor)
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

    def _local_array(self, cursor: Cursor, t: ArrayType, initial: Cursor | None) -> ArrayVar | VariableArray:
        if holds_pointers(t):
            array = self._variable_array(cursor.spelling, t, cursor)
            if initial is not None:
                self._fill(array, t, initial)
            return array
        ty, count = scalar_of(t), scalar_count(t)
        if ty is None or count is None:
            self.fail("a local array needs a constant length and one scalar element type", cursor)
        space = Space.LOCAL if self.frame.in_kernel else Space.GLOBAL
        name = self.fresh_buffer(cursor.spelling, ty, fold.i32(count), space)
        if initial is not None:
            for index, element in enumerate(self._flat_initialisers(initial, t, count, ty)):
                self.out.append(Store(name, fold.i32(index), element))
        return ArrayVar(name, t)

    def _variable_array(self, name: str, t: ArrayType, cursor: Cursor) -> VariableArray:
        row, count = row_type(t), t.dims[0]
        if count is None or count > MAX_VARIABLES:
            self.fail(f"an array of pointers of no known length up to {MAX_VARIABLES} is not supported", cursor)
        if isinstance(row, ArrayType):
            return VariableArray([self._variable_array(f"{name}_{k}", row, cursor) for k in range(count)])
        return VariableArray([self.variable(f"{name}_{k}", row, cursor) for k in range(count)])

    def _fill(self, array: VariableArray, t: ArrayType, initial: Cursor) -> None:
        """Give an array of variables its initial values; elements without one are zero, or null."""
        row, given = row_type(t), cu.kids(initial)
        for k, element in enumerate(array.elements):
            if isinstance(element, VariableArray):
                assert isinstance(row, ArrayType)
                if k < len(given) and given[k].kind.name != "INIT_LIST_EXPR":
                    self.fail("an initialiser list without inner braces is not supported here", initial)
                if k < len(given):
                    self._fill(element, row, given[k])
            elif k < len(given):
                self.write(element, self.convert(self.value(given[k]), row, given[k]), given[k])
            else:
                self.write(element, self.zero(row, initial), initial)

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

    def bind_global_pointers(self) -> None:
        """Bind pointers at file scope, and arrays of them, before all else: branches and loops see them move then."""
        for declared in self.source.variables:
            t = ctype(declared.type)
            if isinstance(t.element if isinstance(t, ArrayType) else t, PointerType):
                # An initial value that isn't understood matters only to those who use it.
                with suppress(UnsupportedError):
                    self.global_binding(declared)

    def global_binding(self, declared: Cursor) -> Binding | None:
        """Bind a file-scope variable on first use: constants by value, device arrays as buffers."""
        if declared.kind.name not in ("VAR_DECL", "ENUM_CONSTANT_DECL"):
            return None
        if declared.kind.name == "ENUM_CONSTANT_DECL":
            return Fixed(fold.i32(declared.enum_value))
        t = ctype(declared.type)
        initial = self._initialiser(declared)
        if isinstance(t, ScalarType) and declared.type.is_const_qualified() and initial is not None:
            return Fixed(fold.cast(self.scalar(initial), t.ty))
        binding = self._global_storage(declared, t, initial)
        self.globals[declared.hash] = binding
        return binding

    def _global_storage(self, declared: Cursor, t: CType, initial: Cursor | None) -> Binding:
        if isinstance(t, PointerType):
            return self._global_pointer(declared, t, initial)
        if isinstance(t, ArrayType) and isinstance(t.element, PointerType):
            return self._global_pointers(declared, t, initial)
        ty, count = scalar_of(t), scalar_count(t)
        if ty is None or count is None:
            self.fail(f"global variable {declared.spelling} has a type that is not supported", declared)
        name = self.fresh_buffer(declared.spelling, ty, fold.i32(count), Space.GLOBAL)
        if isinstance(t, StructType) and initial is not None and initial.kind.name == "CALL_EXPR":
            # Default construction: file-scope variables start as zeros.
            initial = None if not list(initial.get_arguments()) else initial
        if initial is not None:
            elements = (
                self._flat_initialisers(initial, t, count, ty)
                if isinstance(t, ArrayType)
                else self._flat_value(self.value(initial), ty, initial)
            )
            values = [fold.value(e) for e in elements]
            if any(v is None for v in values):
                self.fail(f"the initial value of {declared.spelling} is not constant", declared)
            numbers = tuple(float(v) for v in values if v is not None)
            self.buffers[name] = Buffer(name, ty, fold.i32(count), Space.GLOBAL, numbers)
        return ArrayVar(name, t) if isinstance(t, ArrayType) else Element(name, fold.i32(0), t)

    def _global_pointer(self, declared: Cursor, t: PointerType, initial: Cursor | None) -> PointerVar:
        value = Opaque("null") if initial is None else self.convert(self.value(initial), t, declared)
        if isinstance(value, Pointer) and fold.is_const(value.offset, 0):
            return PointerVar(t.target, value.buffer)
        if not isinstance(value, Opaque):
            self.fail(f"the initial value of {declared.spelling} is not supported", declared)
        return PointerVar(t.target, null=True)

    def _global_pointers(self, declared: Cursor, t: ArrayType, initial: Cursor | None) -> VariableArray:
        if initial is not None:
            self.fail(f"the initial value of {declared.spelling} is not supported", declared)
        array = self._variable_array(declared.spelling, t, declared)
        for variable in pointers_of(array):
            variable.null = True
        return array

    def shared(self, cursor: Cursor, t: CType) -> Binding:
        """Bind a `__shared__` variable (the kernel half knows the dynamic size)."""
        raise NotImplementedError
