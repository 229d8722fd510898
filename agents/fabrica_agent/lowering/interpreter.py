"""A plain interpreter of kernel IR, the reference that every pass is tested against.

It runs a program in either form: with launches, where each block's threads run as coroutines that meet at barriers
(the meaning of CUDA), or serialised, where nothing is parallel. Arithmetic follows the types: wrapping integers,
floats rounded after each operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fabrica_agent.lowering.fold import Number, compute, convert, int_value
from fabrica_agent.lowering.ir import (
    BLOCK,
    COMPARISONS,
    THREAD,
    Access,
    Assign,
    Atomic,
    Barrier,
    Bin,
    Bitcast,
    Body,
    Break,
    Buffer,
    Call,
    Cast,
    Columns,
    Const,
    Continue,
    Elementary,
    Expr,
    For,
    Grid,
    If,
    LaneRead,
    Launch,
    Load,
    Note,
    Op,
    Param,
    Program,
    Reduce,
    Return,
    Select,
    Space,
    Stmt,
    Store,
    Ty,
    Un,
    UnsupportedError,
    Var,
    VecOp,
    Vector,
    View,
    While,
)  # fmt: skip

Array = npt.NDArray[np.generic]
DTYPES: dict[Ty, type[np.generic]] = {
    Ty.BOOL: np.bool_, Ty.I8: np.int8, Ty.U8: np.uint8, Ty.I16: np.int16, Ty.U16: np.uint16, Ty.I32: np.int32,
    Ty.U32: np.uint32, Ty.I64: np.int64, Ty.U64: np.uint64, Ty.F16: np.float16, Ty.F32: np.float32,
}  # fmt: skip
STEP_LIMIT = 50_000_000


class InterpreterError(Exception):
    """An access outside a buffer, a division by zero, or a loop without end."""


class _BreakLoop(Exception):
    pass


class _ContinueLoop(Exception):
    pass


@dataclass(slots=True)
class Thread:
    """Variables of one thread; `peers` are the lane copies of the whole block as of the last barrier."""

    variables: dict[str, Number]
    peers: list[dict[str, Number]] = field(default_factory=list)


_FUNCTIONS: dict[str, Callable[..., float]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x), "cbrt": np.cbrt, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x), "abs": abs, "pow": np.power,
    "erf": lambda x: math.erf(x), "erfc": lambda x: math.erfc(x),
}  # fmt: skip

_INTEGER_FUNCTIONS: dict[str, Callable[[int], int]] = {
    "popc": lambda x: x.bit_count(),
    "clz": lambda x: 32 - x.bit_length(),
    "ffs": lambda x: (x & -x).bit_length(),
    "brev": lambda x: int(f"{x:032b}"[::-1], 2),
}


class Interpreter:
    """Runs one program on given arrays.

    Args:
        program: Either form.
        arrays: Contents of the exported buffers by name; they are changed in place.
        arguments: Values of the program's runtime arguments.
    """

    def __init__(
        self, program: Program, arrays: Mapping[str, Array], arguments: Mapping[str, Number] | None = None
    ) -> None:
        self.program = program
        self.memory: MutableMapping[str, Any] = {}
        for name, buffer in program.buffers.items():
            self.memory[name] = arrays[name].reshape(-1) if name in arrays else self._fresh(buffer)
        self.arguments = dict(arguments or {})
        self.steps = 0

    def _fresh(self, buffer: Buffer) -> Any:
        """Memory of a buffer as it is at the start."""
        length = None if buffer.length is None else int_value(buffer.length)
        if length is None:
            raise InterpreterError(f"buffer {buffer.name} has no known length")
        fresh = np.zeros(length, DTYPES[buffer.ty])
        if buffer.init is not None:
            fresh[:] = buffer.init
        return fresh

    def run(self) -> None:
        """Execute the program.

        Raises:
            InterpreterError: It did something that is undefined.
        """
        host = Thread(dict(self.arguments))
        for _ in self._body(self.program.body, host):
            raise InterpreterError("a barrier outside a kernel")

    # ------------------------------------------------------------------------------------------------- statements

    def _body(self, body: Body, t: Thread) -> Generator[str, None, None]:
        for s in body:
            self._step()
            yield from self._statement(s, t)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > STEP_LIMIT:
            raise InterpreterError("the program doesn't come to an end")

    def _statement(self, s: Stmt, t: Thread) -> Generator[str, None, None]:
        match s:
            case Assign(name=name, value=value):
                t.variables[name] = self._converted(self.evaluate(value, t), self.program.types.get(name, value.ty))
            case Store(buffer=buffer, index=index, value=value):
                self._store(buffer, int(self.evaluate(index, t)), self.evaluate(value, t))
            case Atomic():
                self._atomic(s, t)
            case If(cond=cond, then=then, other=other):
                yield from self._body(then if self.evaluate(cond, t) else other, t)
            case For():
                yield from self._for(s, t)
            case While():
                yield from self._while(s, t)
            case Break():
                raise _BreakLoop
            case Continue():
                raise _ContinueLoop
            case Barrier(scope=scope):
                yield scope
            case Launch():
                self._launch(s, t)
            case Vector():
                self._vector(s, t)
            case Reduce():
                self._reduce(s, t)
            case Grid():
                self._grid(s, t)
            case Columns():
                self._columns(s, t)
            case Elementary(fn=fn, dest=view):
                for place in self._cells(view, t):
                    self._store(view.buffer, place, elementary(fn, self._load(view.buffer, place), s.ty))
            case Note():
                pass
            case Return():
                raise InterpreterError("a return that should have been eliminated")

    def _for(self, s: For, t: Thread) -> Generator[str, None, None]:
        value, stop = int(self.evaluate(s.start, t)), int(self.evaluate(s.stop, t))
        while value < stop if s.step > 0 else value > stop:
            t.variables[s.var] = value
            try:
                yield from self._body(s.body, t)
            except _ContinueLoop:
                pass
            except _BreakLoop:
                break
            value += s.step

    def _while(self, s: While, t: Thread) -> Generator[str, None, None]:
        while self.evaluate(s.cond, t):
            self._step()
            try:
                yield from self._body(s.body, t)
            except _ContinueLoop:
                pass
            except _BreakLoop:
                break
            yield from self._body(s.step, t)

    def _places(self, x: Access, t: Thread) -> list[int]:
        start, count = int(self.evaluate(x.start, t)), int(self.evaluate(x.count, t))
        if count <= 0:
            raise InterpreterError("a bulk operation without elements has no meaning on the target")
        return [start + k * x.stride for k in range(count)]

    def _vector(self, s: Vector, t: Thread) -> None:
        targets = self._places(s.dest, t)
        operands = [self._places(x, t) if isinstance(x, Access) else self.evaluate(x, t) for x in s.sources]
        for k, target in enumerate(targets):
            values = [
                self._load(x.buffer, places[k]) if isinstance(x, Access) and isinstance(places, list) else places
                for x, places in zip(s.sources, operands, strict=True)
            ]
            self._store(s.dest.buffer, target, vector_element(s.op, values, s.ty))

    def _cells(self, x: View, t: Thread) -> list[int]:
        places = [int(self.evaluate(x.start, t))]
        for extent, stride in x.dims:
            places = [p + k * stride for p in places for k in range(extent)]
        return places

    def _grid(self, s: Grid, t: Thread) -> None:
        operands = [self._cells(x, t) if isinstance(x, View) else self.evaluate(x, t) for x in s.sources]
        for k, target in enumerate(self._cells(s.dest, t)):
            values = [
                self._load(x.buffer, places[k]) if isinstance(x, View) and isinstance(places, list) else places
                for x, places in zip(s.sources, operands, strict=True)
            ]
            self._store(s.dest.buffer, target, vector_element(s.op, values, s.ty))

    def _columns(self, s: Columns, t: Thread) -> None:
        targets, column = self._cells(s.dest, t), self._cells(s.column, t)
        for turn, place in enumerate(self._cells(s.factors, t)):
            factor = self._load(s.factors.buffer, place)
            for target, source in zip(targets, column, strict=True):
                values = [
                    self._load(s.dest.buffer, target),
                    self._load(s.column.buffer, source + turn * s.step),
                    factor,
                ]
                self._store(s.dest.buffer, target, vector_element(VecOp.FMA, values, s.ty))

    def _reduce(self, s: Reduce, t: Thread) -> None:
        for place in self._places(s.source, t):
            value = self._load(s.source.buffer, place)
            if s.index is None:
                t.variables[s.target] = vector_element(s.op, [t.variables.get(s.target, 0), value], s.ty)
            else:
                index = int(self.evaluate(s.index, t))
                self._store(s.target, index, vector_element(s.op, [self._load(s.target, index), value], s.ty))

    def _store(self, buffer: str, index: int, value: Number) -> None:
        memory = self.memory[buffer]
        if not 0 <= index < memory.size:
            raise InterpreterError(f"{buffer}[{index}] is written outside its {memory.size} elements")
        memory[index] = convert(value, self.program.buffers[buffer].ty)

    def _load(self, buffer: str, index: int) -> Number:
        memory = self.memory[buffer]
        if not 0 <= index < memory.size:
            raise InterpreterError(f"{buffer}[{index}] is read outside its {memory.size} elements")
        value: Number = memory[index].item()
        return value

    def _atomic(self, s: Atomic, t: Thread) -> None:
        index = int(self.evaluate(s.index, t))
        old, value = self._load(s.buffer, index), self.evaluate(s.value, t)
        compare = None if s.compare is None else self.evaluate(s.compare, t)
        self._store(s.buffer, index, atomic_result(s.op, old, value, compare, s.ty))
        if s.result is not None:
            t.variables[s.result] = old

    # ---------------------------------------------------------------------------------------------------- launches

    def _launch(self, s: Launch, host: Thread) -> None:
        grid = [int(self.evaluate(g, host)) for g in s.grid]
        for z in range(grid[2]):
            for y in range(grid[1]):
                for x in range(grid[0]):
                    self._run_block(s, host, (x, y, z))

    def _run_block(self, s: Launch, host: Thread, block: tuple[int, int, int]) -> None:
        threads: list[Thread] = []
        sx, sy, sz = s.block
        for z in range(sz):
            for y in range(sy):
                for x in range(sx):
                    names = dict(zip((*THREAD, *BLOCK), (x, y, z, *block), strict=True))
                    threads.append(Thread({**host.variables, **names}))
        running = {k: self._body(s.body, t) for k, t in enumerate(threads)}
        # Arrays of a thread hold their values across barriers, while other threads run.
        private = [b for b in self.program.buffers.values() if b.space is Space.LOCAL]
        own = [{b.name: self._fresh(b) for b in private} for _ in threads]
        of_host = {b.name: self.memory[b.name] for b in private}
        waiting: dict[int, str] = {}
        while running:
            for k in [k for k in running if k not in waiting]:
                self.memory.update(own[k])
                try:
                    waiting[k] = next(running[k])
                except StopIteration:
                    del running[k]
            # Warps meet among themselves first; a block barrier opens when nobody is inside a warp function.
            scope = "warp" if "warp" in waiting.values() else "block"
            peers = [dict(t.variables) for t in threads]
            for k in [k for k, waits in waiting.items() if waits == scope]:
                threads[k].peers = peers
                del waiting[k]
        self.memory.update(of_host)

    # ------------------------------------------------------------------------------------------------- expressions

    def evaluate(self, e: Expr, t: Thread) -> Number:
        """The value of an expression for one thread."""
        match e:
            case Const(value=v) | Param(value=v):
                return v
            case Var(name=name):
                return t.variables.get(name, 0)
            case Load(buffer=buffer, index=index):
                return self._load(buffer, int(self.evaluate(index, t)))
            case LaneRead(name=name, lane=lane):
                return self._peer(name, int(self.evaluate(lane, t)), t)
            case Bin():
                return self._binary(e, t)
            case Un(op=op, a=a, ty=ty):
                return self._unary(op, self.evaluate(a, t), ty)
            case Cast(a=a, ty=ty):
                return self._converted(self.evaluate(a, t), ty)
            case Bitcast(a=a, ty=ty):
                return self._bits(self.evaluate(a, t), a.ty, ty)
            case Select():
                return self._select(e, self.evaluate(e.cond, t), t)
            case Call(fn=fn, args=args, ty=ty):
                return self._call(fn, [self.evaluate(a, t) for a in args], ty)

    def _peer(self, name: str, lane: int, t: Thread) -> Number:
        if not t.peers:
            raise InterpreterError("a lane read outside a kernel")
        return t.peers[lane].get(name, 0) if 0 <= lane < len(t.peers) else 0

    def _binary(self, e: Bin, t: Thread) -> Number:
        x = self.evaluate(e.a, t)
        if e.op in (Op.LAND, Op.LOR) and self._is_known(x):
            return self._converted(self.evaluate(e.b, t), Ty.BOOL) if bool(x) == (e.op is Op.LAND) else bool(x)
        return self._operation(e, x, self.evaluate(e.b, t))

    # What follows works on values; a subclass may have values of another kind.

    def _is_known(self, x: Number) -> bool:
        """Whether the first operand of `and` or `or` may decide about the second."""
        del x
        return True

    def _operation(self, e: Bin, x: Number, y: Number) -> Number:
        value = compute(e.op, x, y, e.a.ty if e.op in COMPARISONS else e.ty)
        if value is None:
            raise InterpreterError("integer division by zero")
        return value

    def _unary(self, op: str, x: Number, ty: Ty) -> Number:
        return not x if op == "!" else convert(~int(x) if op == "~" else -x, ty)

    def _converted(self, x: Number, ty: Ty) -> Number:
        return convert(x, ty)

    def _bits(self, x: Number, source: Ty, target: Ty) -> Number:
        return bitcast(x, source, target)

    def _select(self, e: Select, test: Number, t: Thread) -> Number:
        return self.evaluate(e.a if test else e.b, t)

    def _call(self, fn: str, values: list[Number], ty: Ty) -> Number:
        return apply_function(fn, values, ty)


def vector_element(op: VecOp, values: Sequence[Any], ty: Ty) -> Number:
    """One element of a bulk operation."""
    match op:
        case VecOp.MOVE:
            return convert(values[0], ty)
        case VecOp.NEG:
            return convert(-values[0], ty)
        case VecOp.ABS:
            return convert(abs(values[0]), ty)
        case VecOp.FMA:
            return convert(float(values[0]) + float(values[1]) * float(values[2]), ty)
        case _:
            operator = {VecOp.ADD: Op.ADD, VecOp.SUB: Op.SUB, VecOp.MUL: Op.MUL, VecOp.MAX: Op.MAX}[op]
            result = compute(operator, values[0], values[1], ty)
            assert result is not None
            return result


def elementary(fn: str, value: Number, ty: Ty) -> Number:
    """One element of an `Elementary`; `reciprocal` is that of a number other than zero."""
    if fn == "reciprocal":
        with np.errstate(all="ignore"):
            return convert(float(np.float64(1.0) / np.float64(value)), ty)
    return apply_function(fn, [value], ty)


def apply_function(fn: str, args: list[Number], ty: Ty) -> Number:
    """A mathematical function in double precision, rounded to its type; domain errors give NaN or infinity."""
    if fn in _INTEGER_FUNCTIONS:
        return _INTEGER_FUNCTIONS[fn](int(args[0]))
    if fn not in _FUNCTIONS:
        raise UnsupportedError(f"function {fn} is not supported")
    with np.errstate(all="ignore"):
        return convert(float(_FUNCTIONS[fn](*(np.float64(a) for a in args))), ty)


def atomic_result(op: str, old: Number, value: Number, compare: Number | None, ty: Ty) -> Number:
    """What an atomic operation leaves in memory."""
    simple = {"add": Op.ADD, "sub": Op.SUB, "min": Op.MIN, "max": Op.MAX, "and": Op.AND, "or": Op.OR, "xor": Op.XOR}
    if op in simple:
        result = compute(simple[op], old, value, ty)
        assert result is not None
        return result
    if op == "exch":
        return value
    if op == "cas":
        return value if old == compare else old
    if op == "inc":
        return 0 if old >= value else old + 1
    return value if old == 0 or old > value else old - 1


def bitcast(value: Number, source: Ty, target: Ty) -> Number:
    """The same bits as another type."""
    result: Number = np.array([value], DTYPES[source]).view(DTYPES[target])[0].item()
    return result
