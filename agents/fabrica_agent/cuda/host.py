"""Host-side CUDA API calls, and host loops whose launches swap buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.expressions import SCALAR_NODES
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.statements import Counted, ForParts, Statements
from fabrica_agent.cuda.values import (
    Element,
    Fixed,
    Opaque,
    Pointer,
    PointerVar,
    RawMemory,
    ScalarVar,
    Value,
)  # fmt: skip
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import Expr, For, Load, Op, Parallel, Stmt, Store, Ty, UnsupportedError, Var, substitute

_IGNORED = frozenset({
    "cudaFree", "cudaFreeHost", "cudaFreeAsync", "cudaDeviceSynchronize", "cudaThreadSynchronize",
    "cudaStreamSynchronize", "cudaGetLastError", "cudaPeekAtLastError", "cudaDeviceReset", "cudaSetDevice",
    "cudaStreamCreate", "cudaStreamDestroy", "cudaEventCreate", "cudaEventDestroy", "cudaEventSynchronize",
    "cudaEventElapsedTime", "cudaEventRecord", "cudaFuncSetAttribute", "fprintf", "free", "exit", "abort",
})  # fmt: skip
_ALLOCATIONS = frozenset({"cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cudaMallocHost"})
_COPIES = frozenset({"cudaMemcpy", "cudaMemcpyAsync", "memcpy"})
_FILLS = frozenset({"cudaMemset", "cudaMemsetAsync", "memset"})

_SUCCESS = fold.i32(0)

MAX_UNROLLED = 8
MAX_PERIOD = 4
"""Turns after which a host loop that moves pointers around has to have them back in their places."""


class _Pointing(NamedTuple):
    buffer: str | None
    offset: Var | None


class HostCalls(Statements):
    """API calls of the host half of a CUDA program."""

    def host_call(self, name: str, arguments: Sequence[Cursor], cursor: Cursor) -> Value | None:
        """The value of an API call, None when `name` isn't one."""
        if name in _IGNORED:
            return _SUCCESS
        if name in _ALLOCATIONS:
            return self._malloc(arguments, cursor)
        if name in _COPIES:
            to, origin, size = arguments[:3]
            return self._copy_memory(self.value(to), self._origin(origin), self.scalar(size), cursor)
        if name in _FILLS:
            return self._fill_memory(
                self.value(arguments[0]), self.scalar(arguments[1]), self.scalar(arguments[2]), cursor
            )
        if name == "cudaMemcpyToSymbol":
            self._no_offset(arguments, cursor)
            symbol, origin = self._symbol(arguments[0]), self._origin(arguments[1])
            return self._copy_memory(symbol, origin, self.scalar(arguments[2]), cursor)
        if name == "cudaMemcpyFromSymbol":
            self._no_offset(arguments, cursor)
            symbol = self._symbol(arguments[1])
            return self._copy_memory(self.value(arguments[0]), symbol, self.scalar(arguments[2]), cursor)
        if name == "malloc":
            return RawMemory(self.scalar(arguments[0]))
        if name == "calloc":
            count, size = self.scalar(arguments[0]), self.scalar(arguments[1])
            return RawMemory(fold.binary(Op.MUL, count, size, Ty.U64))
        if name == "swap" and len(arguments) == 2:
            return self._swap(arguments, cursor)
        return None

    def _no_offset(self, arguments: Sequence[Cursor], cursor: Cursor) -> None:
        if len(arguments) > 3 and fold.int_value(self.scalar(arguments[3])) != 0:
            self.fail("copying into the middle of a symbol is not supported", cursor)

    def _symbol(self, cursor: Cursor) -> Value:
        """The memory of a variable at file level, whether an array or not."""
        place = self.place(cursor)
        if isinstance(place, Element):
            return Pointer(place.buffer, place.offset, place.type)
        return self.read(place, cursor)

    def _origin(self, cursor: Cursor) -> Value:
        """What is copied from: memory, or the number itself for the address of a number that is in no memory."""
        inner = cu.strip(cursor)
        while inner.kind.name == "CSTYLE_CAST_EXPR" and cu.kids(inner):
            inner = cu.strip(cu.kids(inner)[-1])
        if inner.kind.name == "UNARY_OPERATOR" and cu.unary_operator(inner) == "&":
            place = self.place(cu.kids(inner)[0])
            if isinstance(place, Fixed | ScalarVar):
                return self.read(place, cursor)
        return self.value(cursor)

    def _malloc(self, arguments: Sequence[Cursor], cursor: Cursor) -> Value:
        target = arguments[0]
        while target.kind.name != "UNARY_OPERATOR" and cu.kids(target):
            target = cu.kids(target)[-1]
        place = self.place(cu.kids(target)[0]) if target.kind.name == "UNARY_OPERATOR" else None
        if not isinstance(place, PointerVar):
            self.fail("this allocation doesn't go to a pointer variable", cursor)
        name = cu.strip(cu.kids(target)[0]).spelling or "device"
        self.point(place, self.allocate(name, place.target, self.scalar(arguments[1]), cursor), cursor)
        return _SUCCESS

    def _elements(self, p: Value, size: Expr, cursor: Cursor) -> tuple[Pointer, Expr]:
        if not isinstance(p, Pointer):
            self.fail("this memory operation doesn't name a known array", cursor)
        width = max(1, self.buffers[p.buffer].ty.bits // 8)
        count = _divide(size, width)
        if count is None:
            self.fail("the size of this memory operation is not a whole number of elements", cursor)
        return p, count

    def _copy_memory(self, to: Value, origin: Value, size: Expr, cursor: Cursor) -> Value:
        target, count = self._elements(to, size, cursor)
        if isinstance(origin, SCALAR_NODES):
            ty = self.buffers[target.buffer].ty
            if fold.int_value(count) != 1 or origin.ty is not ty:
                self.fail("copying this number into an array of another type or size is not supported", cursor)
            self.out.append(Store(target.buffer, target.offset, origin))
            return _SUCCESS
        source, _ = self._elements(origin, size, cursor)
        if self.buffers[target.buffer].ty is not self.buffers[source.buffer].ty:
            self.fail("copying between arrays of different types is not supported", cursor)
        var = self.loop_variable("c", Ty.I32)
        loaded = Load(source.buffer, fold.binary(Op.ADD, source.offset, var, Ty.I32), self.buffers[source.buffer].ty)
        store = Store(target.buffer, fold.binary(Op.ADD, target.offset, var, Ty.I32), loaded)
        self.out.append(For(var.name, Ty.I32, fold.i32(0), count, 1, (store,), parallel=Parallel.THREAD))
        return _SUCCESS

    def _fill_memory(self, to: Value, byte: Expr, size: Expr, cursor: Cursor) -> Value:
        target, count = self._elements(to, size, cursor)
        ty = self.buffers[target.buffer].ty
        known = fold.int_value(byte)
        if known not in (0, -1, 255) or (known != 0 and ty.is_float):
            self.fail("memset with this byte value is not supported", cursor)
        element = fold.const(0 if known == 0 else -1, ty)
        var = self.loop_variable("c", Ty.I32)
        store = Store(target.buffer, fold.binary(Op.ADD, target.offset, var, Ty.I32), element)
        self.out.append(For(var.name, Ty.I32, fold.i32(0), count, 1, (store,), parallel=Parallel.THREAD))
        return _SUCCESS

    def _swap(self, arguments: Sequence[Cursor], cursor: Cursor) -> Value:
        a, b = (self.place(x) for x in arguments)
        if isinstance(a, PointerVar) and isinstance(b, PointerVar):
            if a.offset is not None or b.offset is not None:
                self.fail("swapping pointers into the middle of arrays is not supported", cursor)
            a.buffer, b.buffer = b.buffer, a.buffer
            return Opaque("void")
        x = self.save(self.scalar_from(self.read(a, cursor), cursor), "swapped")
        self.write(a, self.read(b, cursor), cursor)
        self.write(b, x, cursor)
        return Opaque("void")

    # ------------------------------------------------------------------------------------------------ host loops

    def counted_loop(self, parts: ForParts, head: Counted, cursor: Cursor) -> bool:
        """As for any loop; on the host, a body that permutes buffers is emitted once per state of the permutation."""
        if self.frame.in_kernel:
            return super().counted_loop(parts, head, cursor)
        before = self._pointing()
        length = len(self.out)
        try:
            done = super().counted_loop(parts, head, cursor)
        except UnsupportedError:
            self._repoint(before)
            if not self._unrolled_loop(parts, head):
                raise
            return True
        if not done:
            return False
        after = self._pointing()
        if after == before:
            return True
        del self.out[length:]
        return self._alternating_loop(parts, head, before, cursor)

    def _alternating_loop(self, parts: ForParts, head: Counted, before: dict[int, _Pointing], cursor: Cursor) -> bool:
        bounds = fold.int_value(head.start), fold.int_value(head.stop)
        if bounds[0] is None or bounds[1] is None:
            self.fail("a loop that swaps buffers needs a trip count known at compile time", cursor)
        trips = max(0, -(-(bounds[1] - bounds[0]) // head.step))
        self._repoint(before)
        turns = [self._turn(parts, head)]
        states = [self._pointing()]
        while states[-1] != before:
            if len(turns) == MAX_PERIOD:
                self.fail(f"the buffers of this loop are not back in their places after {MAX_PERIOD} turns", cursor)
            turns.append(self._turn(parts, head))
            states.append(self._pointing())
        period = len(turns)
        round_ = self.loop_variable("pair" if period == 2 else "round", Ty.I32)
        body: list[Stmt] = []
        for turn, (var, statements) in enumerate(turns):
            step = fold.binary(Op.MUL, round_, fold.i32(period * head.step), Ty.I32)
            index = fold.binary(Op.ADD, fold.i32(bounds[0] + turn * head.step), step, Ty.I32)
            body += substitute(tuple(statements), {var.name: fold.cast(index, head.ty)})
        if trips >= period:
            self.out.append(For(round_.name, Ty.I32, fold.i32(0), fold.i32(trips // period), 1, tuple(body)))
        for turn in range(trips % period):
            var, statements = turns[turn]
            last = fold.const(bounds[0] + (trips - trips % period + turn) * head.step, head.ty)
            self.out.extend(substitute(tuple(statements), {var.name: last}))
            self._repoint(states[turn])
        return True

    def _unrolled_loop(self, parts: ForParts, head: Counted) -> bool:
        """Write out a short host loop whose body can only be translated for a known value of its variable."""
        start, stop = fold.int_value(head.start), fold.int_value(head.stop)
        if start is None or stop is None or len(range(start, stop, head.step)) > MAX_UNROLLED:
            return False
        for value in range(start, stop, head.step):
            self.frame.bindings[head.declared.hash] = Fixed(fold.const(value, head.ty))
            self.statement(parts.body)
        return True

    def _turn(self, parts: ForParts, head: Counted) -> tuple[Var, list[Stmt]]:
        var = self.loop_variable(head.declared.spelling, head.ty)
        self.frame.bindings[head.declared.hash] = Fixed(var)
        with self.capture() as statements:
            self.statement(parts.body)
        return var, statements

    def _pointing(self) -> dict[int, _Pointing]:
        return {
            key: _Pointing(b.buffer, b.offset) for key, b in self.frame.bindings.items() if isinstance(b, PointerVar)
        }

    def _repoint(self, state: dict[int, _Pointing]) -> None:
        for key, (buffer, offset) in state.items():
            binding = self.frame.bindings[key]
            if isinstance(binding, PointerVar):
                binding.buffer, binding.offset = buffer, offset


def _divide(size: Expr, width: int) -> Expr | None:
    """`size / width`, keeping the symbolic count of `n * sizeof(T)`."""
    from fabrica_agent.cuda.expressions import to_index
    from fabrica_agent.lowering.ir import Bin, Cast

    while isinstance(size, Cast):
        size = size.a
    if isinstance(size, Bin) and size.op is Op.MUL:
        for factor, other in ((size.a, size.b), (size.b, size.a)):
            if fold.int_value(factor) == width:
                return to_index(other)
    known = fold.int_value(size)
    if known is not None and known % width == 0:
        return fold.i32(known // width)
    return None
