"""What a program computes, as a formula for each element of its results: a run with symbols in place of data.

Control and indices have to be known; data are leaves `array[index]`. What is found no longer shows how threads shared
the work: a sum is a set of terms, whichever tree of shuffles or partial sums it came from. What several threads compute
alike is one symbol, so that it need not be looked at again for each of them.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from fabrica_agent.lowering.fold import Number, convert, int_value
from fabrica_agent.lowering.interpreter import Interpreter, InterpreterError, Thread
from fabrica_agent.lowering.ir import (
    Atomic,
    Bin,
    Buffer,
    Expr,
    Op,
    Program,
    Select,
    Ty,
    UnsupportedError,
)

MAX_STATEMENTS = 250_000
"""Statements of all threads together up to which a program is traced."""
MAX_OPERATIONS = 4_000_000
"""Expressions, parts included, of all threads together up to which a program is traced: statements may be long."""

_ATOMICS = {"add": Op.ADD, "sub": Op.SUB, "min": Op.MIN, "max": Op.MAX}


class Symbol:
    """A value that depends on data; it can neither be branched on nor used as an index."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise UnsupportedError("what is done depends on data")

    def __int__(self) -> int:
        raise UnsupportedError("where an element lies depends on data")


@dataclass(eq=False, slots=True)
class Leaf(Symbol):
    """An element of an array as it was at the start."""

    buffer: str
    index: int
    ty: Ty


@dataclass(eq=False, slots=True)
class Argument(Symbol):
    """An argument of the entry function."""

    name: str
    ty: Ty


@dataclass(eq=False, slots=True)
class Node(Symbol):
    """An operation; `what` is an `Op`, or a word with the name of a function."""

    what: Op | str
    args: tuple[Value, ...]
    ty: Ty


Value = Number | Leaf | Argument | Node


class _Cells:
    """A buffer: elements as far as they were written, else what was there at the start."""

    def __init__(self, name: str, ty: Ty, length: int, init: tuple[float, ...] | None, *, outside: bool) -> None:
        self.name, self.ty, self.size = name, ty, length
        self.init, self.outside = init, outside
        self.written: dict[int, Value] = {}
        self.leaves: dict[int, Leaf] = {}

    def __getitem__(self, index: int) -> Value:
        if index not in self.written:
            if self.outside:
                return self.leaves.setdefault(index, Leaf(self.name, index, self.ty))
            return convert(self.init[index], self.ty) if self.init is not None else convert(0, self.ty)
        return self.written[index]


class Tracer(Interpreter):
    """Runs a CUDA program on symbols."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.memory: MutableMapping[str, Any] = {n: self._fresh(b) for n, b in program.buffers.items()}
        self.arguments: dict[str, Any] = {v.name: Argument(v.name, v.ty) for v in program.args}
        self.steps = self.operations = 0
        self.nodes: dict[tuple[object, ...], Node] = {}

    def _fresh(self, buffer: Buffer) -> _Cells:
        length = None if buffer.length is None else int_value(buffer.length)
        if length is None:
            raise UnsupportedError(f"the length of array {buffer.name} is not known")
        return _Cells(buffer.name, buffer.ty, length, buffer.init, outside=buffer.exported)

    def results(self) -> dict[str, dict[int, Value]]:
        """For each array of the host, its changed elements.

        Raises:
            UnsupportedError: Control depends on data, or the program is too long to be traced.
        """
        try:
            self.run()
        except InterpreterError as error:
            raise UnsupportedError(str(error)) from error
        return {n: c.written for n, c in self.memory.items() if c.outside and c.written}

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STATEMENTS:
            raise UnsupportedError("the program is too long to be traced")

    def _load(self, buffer: str, index: int) -> Any:
        cells = self.memory[buffer]
        if not 0 <= index < cells.size:
            raise InterpreterError(f"{buffer}[{index}] is read outside its {cells.size} elements")
        return cells[index]

    def _store(self, buffer: str, index: int, value: Any) -> None:
        cells = self.memory[buffer]
        if not 0 <= index < cells.size:
            raise InterpreterError(f"{buffer}[{index}] is written outside its {cells.size} elements")
        cells.written[index] = self._converted(value, cells.ty)

    def _atomic(self, s: Atomic, t: Thread) -> None:
        index = int(self.evaluate(s.index, t))
        old, value = self._load(s.buffer, index), self.evaluate(s.value, t)
        if not isinstance(old, Symbol) and not isinstance(value, Symbol):
            super()._atomic(s, t)
            return
        if s.op not in _ATOMICS:
            raise UnsupportedError(f"atomic {s.op} of data")
        self._store(s.buffer, index, self._node(_ATOMICS[s.op], (old, value), s.ty))
        if s.result is not None:
            t.variables[s.result] = old

    def evaluate(self, e: Expr, t: Thread) -> Any:
        """The value of an expression for one thread: a number, or a symbol."""
        self.operations += 1
        if self.operations > MAX_OPERATIONS:
            raise UnsupportedError("the program is too long to be traced")
        return super().evaluate(e, t)

    def _is_known(self, x: Any) -> bool:
        return not isinstance(x, Symbol)

    def _operation(self, e: Bin, x: Any, y: Any) -> Any:
        if isinstance(x, Symbol) or isinstance(y, Symbol):
            args = tuple(v if isinstance(v, Symbol) else convert(v, p.ty) for v, p in ((x, e.a), (y, e.b)))
            return self._node(e.op, args, e.ty, of=e.a.ty)
        return super()._operation(e, x, y)

    def _unary(self, op: str, x: Any, ty: Ty) -> Any:
        return self._node(f"un {op}", (x,), ty) if isinstance(x, Symbol) else super()._unary(op, x, ty)

    def _bits(self, x: Any, source: Ty, target: Ty) -> Any:
        return self._node("bits", (x,), target) if isinstance(x, Symbol) else super()._bits(x, source, target)

    def _select(self, e: Select, test: Any, t: Thread) -> Any:
        if isinstance(test, Symbol):
            return self._node("select", (test, self.evaluate(e.a, t), self.evaluate(e.b, t)), e.ty)
        return super()._select(e, test, t)

    def _call(self, fn: str, values: list[Any], ty: Ty) -> Any:
        if any(isinstance(v, Symbol) for v in values):
            return self._node(f"call {fn}", tuple(values), ty)
        return super()._call(fn, values, ty)

    def _node(self, what: Op | str, args: tuple[Any, ...], ty: Ty, of: Ty | None = None) -> Any:
        """An operation, but for those that leave one operand as it is."""
        if ty.is_float and len(args) == 2 and of in (None, ty):
            for x, y in ((args[0], args[1]), (args[1], args[0])):
                if isinstance(y, Symbol):
                    continue
                if (what, y) in ((Op.ADD, 0), (Op.MUL, 1), (Op.MAX, float("-inf"))):
                    return x
        # Numbers by their text, since 0.0 == -0.0 and 1 == True.
        key = (what, ty, *(a if isinstance(a, Symbol) else repr(a) for a in args))
        return self.nodes.setdefault(key, Node(what, args, ty))

    def _converted(self, value: Any, target: Ty) -> Any:
        if isinstance(value, Leaf | Argument | Node):
            return value if value.ty is target else self._node("cast", (value,), target)
        return convert(value, target)


__all__ = ["Argument", "Leaf", "Node", "Symbol", "Tracer", "Value"]
