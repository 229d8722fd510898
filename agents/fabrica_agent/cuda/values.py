"""What CUDA expressions and names stand for while a source is translated.

Scalars are IR expressions. Pointers are resolved statically to a buffer and an element offset, structs (and the
built-in vector types) to their fields, lambdas to their syntax and the frame they were made in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fabrica_agent.lowering.ir import Expr, Ty, Var


@dataclass(frozen=True, slots=True)
class ScalarType:
    ty: Ty


@dataclass(frozen=True, slots=True)
class StructType:
    """A class type by its fields, in order; in a union they all lie at one place."""

    name: str
    fields: tuple[tuple[str, CType], ...]
    union: bool = False

    def scalars(self) -> int:
        """Number of scalar elements."""
        return sum(t.scalars() if isinstance(t, StructType) else 1 for _, t in self.fields)


@dataclass(frozen=True, slots=True)
class ArrayType:
    element: CType
    dims: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class PointerType:
    target: CType


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """Streams, events, files, strings, void: carried, never computed with."""

    name: str


CType = ScalarType | StructType | ArrayType | PointerType | OpaqueType


@dataclass(frozen=True, slots=True)
class Pointer:
    """Address of an element: `buffer[offset]`, where `offset` counts scalar elements of the buffer.

    `target` is the pointed-to type: a scalar, a struct of equal scalars (float4), or an array row.
    """

    buffer: str
    offset: Expr
    target: CType


@dataclass(frozen=True, slots=True)
class Chosen:
    """A pointer that is `yes` where `cond` holds and `no` elsewhere; either may be null, but not both.

    `cond` is pure or a variable of its own, so that it means the same wherever the pointer is used.
    """

    cond: Expr
    yes: Address
    no: Address


@dataclass(slots=True)
class Aggregate:
    """A struct value: its field values by name."""

    fields: dict[str, Value]


@dataclass(slots=True)
class Closure:
    """A lambda, or a function object (then `this` holds its fields)."""

    body: Any
    frame: Frame


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that only API calls pass around (stream, event, null pointer, string)."""

    what: str


@dataclass(frozen=True, slots=True)
class RawMemory:
    """What `malloc` returns, before the cast tells its element type."""

    bytes: Expr


Address = Pointer | Chosen | Opaque
Value = Expr | Pointer | Chosen | Aggregate | Closure | Opaque | RawMemory


# --------------------------------------------------------------------------------------------------- bindings


@dataclass(slots=True)
class ScalarVar:
    """A mutable scalar. `known` is a pure expression that it is sure to equal at the current point of translation."""

    var: Var
    known: Expr | None = None


@dataclass(frozen=True, slots=True)
class Which:
    """The buffer of a pointer variable that branches left different: `yes` where `cond` holds, else `no`."""

    cond: Expr
    yes: BufferName
    no: BufferName


BufferName = str | Which | None
"""What a pointer variable points into; None before it points anywhere, and for null."""


@dataclass(frozen=True, slots=True)
class Selector:
    """An I32 variable with the number of the buffer, in a list of buffers, that a pointer variable points into."""

    number: Var
    among: tuple[str | None, ...]


@dataclass(slots=True)
class PointerVar:
    """A mutable pointer: the buffer is known statically (or which ones and when), the offset is in an I32 variable.

    With a selector, `buffer` says the same in its terms.

    Attributes:
        null: Whether some code has set it to null. Otherwise it has no value yet where it has no buffer.
    """

    target: CType
    buffer: BufferName = None
    offset: Var | None = None
    selector: Selector | None = None
    null: bool = False


@dataclass(slots=True)
class StructVar:
    """A mutable struct: one binding per field."""

    fields: dict[str, Binding]
    type: StructType


@dataclass(slots=True)
class ArrayVar:
    """An array with static or dynamic storage: its buffer."""

    buffer: str
    type: ArrayType


@dataclass(slots=True)
class VariableArray:
    """An array whose elements (rows, where it has several dimensions) are variables of their own, not in memory:
    pointers, or structs that hold some."""

    elements: list[Binding]


@dataclass(slots=True)
class Fixed:
    """A name that never changes its value in the scope being translated."""

    value: Value


@dataclass(slots=True)
class Element:
    """A memory place: one element (scalar or struct) of a buffer."""

    buffer: str
    offset: Expr
    type: CType


@dataclass(slots=True)
class ChosenPlace:
    """One of two places: what a `Chosen` pointer points to, or an element of a `VariableArray`."""

    cond: Expr
    yes: Place
    no: Place


@dataclass(slots=True)
class Reinterpreted:
    """A field of a union: the bits of a variable, as another type of the same width."""

    held: ScalarVar
    ty: Ty


Binding = Reinterpreted | ScalarVar | PointerVar | StructVar | ArrayVar | VariableArray | Fixed | Element | ChosenPlace
Place = Binding


@dataclass(slots=True)
class Frame:
    """One function activation: bindings by declaration, the frame a lambda was made in, what `return` writes.

    Attributes:
        bindings: By hash of the declaring cursor.
        outer: Enclosing frame of a lambda body.
        this: Field bindings of the object of a member call.
        result: Where `return value` goes; None in void functions.
        in_kernel: Whether this is device code.
    """

    bindings: dict[int, Binding] = field(default_factory=dict)
    outer: Frame | None = None
    this: StructVar | None = None
    result: Binding | None = None
    in_kernel: bool = False

    def inside(self) -> list[Binding]:
        """Everything that belongs to this activation."""
        this = () if self.this is None else self.this.fields.values()
        return [*self.bindings.values(), *this, *(() if self.result is None else (self.result,))]

    def find(self, key: int) -> Binding | None:
        """The binding of a declaration, looking outwards through lambda frames."""
        frame: Frame | None = self
        while frame is not None:
            if key in frame.bindings:
                return frame.bindings[key]
            frame = frame.outer
        return None
