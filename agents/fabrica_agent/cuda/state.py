"""State of a translation, and the means to add to the program: variables, buffers, statements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.mutation import changes_object, mutation
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.types import scalar_of, size_of
from fabrica_agent.cuda.values import (
    Binding,
    ChosenPlace,
    Closure,
    CType,
    Fixed,
    Frame,
    Pointer,
    Reinterpreted,
    ScalarVar,
    StructVar,
    Value,
    VariableArray,
)
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    BLOCK,
    THREAD,
    Assign,
    Bin,
    Bitcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    LaneRead,
    Load,
    Param,
    Select,
    Space,
    Stmt,
    Ty,
    Un,
    UnsupportedError,
    Var,
    walk,
)  # fmt: skip

SCALAR_NODES = Const | Param | Var | Load | LaneRead | Bin | Un | Cast | Bitcast | Select | Call


def is_pure(e: Expr) -> bool:
    """Whether an expression has the same value wherever it stands: no memory, no mutable variable.

    Thread and block indices and canonical loop variables are immutable; the translator marks the latter by `'` names.
    """
    return all(
        isinstance(n, Const | Param | Bin | Un | Cast | Select)
        or (isinstance(n, Var) and (n.name in THREAD or n.name in BLOCK or n.name.endswith("'")))
        for n in walk(e)
    )


class State:
    """The source being translated, the program that it becomes, and the point of translation."""

    source: cu.CudaSource
    frame: Frame
    out: list[Stmt]
    buffers: dict[str, Buffer]
    types: dict[str, Ty]
    globals: dict[int, Binding]
    kernel_geometry: dict[str, tuple[Expr, Expr, Expr]]

    def fail(self, what: str, cursor: Cursor) -> NoReturn:
        """Raise with the line of the cursor."""
        raise UnsupportedError(what, self.source.place(cursor))

    def fresh(self, base: str, ty: Ty) -> Var:
        """A new variable whose name starts with `base`."""
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in base) or "t"
        name, count = clean, 1
        while name in self.types or name + "'" in self.types or name in self.buffers:
            count += 1
            name = f"{clean}_{count}"
        self.types[name] = ty
        return Var(name, ty)

    def fresh_buffer(self, base: str, ty: Ty, length: Expr | None, space: Space) -> str:
        """A new buffer whose name starts with `base`."""
        name, count = base or "buffer", 1
        while name in self.buffers or name in self.types:
            count += 1
            name = f"{base}_{count}"
        self.buffers[name] = Buffer(name, ty, length, space)
        return name

    @contextmanager
    def capture(self) -> Iterator[list[Stmt]]:
        """Collect the statements emitted inside the `with` block."""
        saved, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = saved

    def allocate(self, base: str, target: CType, size: Expr, cursor: Cursor) -> Pointer:
        """A new global buffer of `size` bytes for elements of type `target`."""
        ty, unit = scalar_of(target), size_of(target)
        count = fold.int_value(size)
        if ty is None or unit is None or count is None:
            self.fail("the size of this allocation is not known from the task's parameters", cursor)
        length = fold.i32(-(-count // max(1, ty.bits // 8)))
        return Pointer(self.fresh_buffer(base, ty, length, Space.GLOBAL), fold.i32(0), target)

    def frames(self) -> list[Frame]:
        """The activations whose variables code at this point can change: its own and those of closures in reach."""
        found: dict[int, Frame] = {}
        todo = [self.frame]
        while todo:
            frame = todo.pop()
            if id(frame) in found:
                continue
            found[id(frame)] = frame
            todo += [b.value.frame for b in frame.inside() if isinstance(b, Fixed) and isinstance(b.value, Closure)]
            todo += [frame.outer] if frame.outer is not None else []
        return list(found.values())

    def forget(self, changed: frozenset[int] | None) -> None:
        """Drop what is known of variables that code about to be translated (or just translated) may change.

        What functions return, which any code may give by returning, is among them.

        Args:
            changed: Hashes of their declarations; None for all.
        """
        for frame in self.frames():
            for key, binding in frame.bindings.items():
                if changed is None or key in changed:
                    forget_binding(binding)
            for binding in frame.this.fields.values() if frame.this is not None else ():
                forget_binding(binding)
            if frame.result is not None:
                forget_binding(frame.result)

    def forget_changes(self, cursor: Cursor) -> None:
        """`forget` whatever the code under a cursor assigns; function objects and methods may assign anything."""
        if any(c.kind.name == "CALL_EXPR" and c.spelling.startswith("operator") for c in cu.subtree(cursor)):
            self.forget(None)
            return
        if changes_object(cursor):
            self.forget(None)
            return
        changes = mutation(cursor)
        self.forget(changes.assigned | changes.addressed)

    def save(self, e: Expr, base: str = "t") -> Expr:
        """Evaluate `e` now: pure expressions stay as they are, others go to a new variable."""
        if is_pure(e):
            return e
        var = self.fresh(base, e.ty)
        self.out.append(Assign(var.name, e))
        return var

    def scalar_from(self, value: Value, cursor: Cursor) -> Expr:
        """A value that must be scalar."""
        if not isinstance(value, SCALAR_NODES):
            self.fail("a scalar value is needed here", cursor)
        return value


def forget_binding(binding: Binding) -> None:
    """Drop what is known of a variable and its parts."""
    match binding:
        case ScalarVar():
            binding.known = None
        case Reinterpreted(held=held):
            held.known = None
        case StructVar(fields=fields):
            for field_binding in fields.values():
                forget_binding(field_binding)
        case VariableArray(elements=elements):
            for element in elements:
                forget_binding(element)
        case ChosenPlace(yes=yes, no=no):
            forget_binding(yes)
            forget_binding(no)
        case _:
            return
