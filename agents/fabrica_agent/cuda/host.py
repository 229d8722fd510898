"""Host-side CUDA API calls, and host loops whose launches swap buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.pointers import PointerChoiceError, Pointing, moved, now, repoint
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.state import SCALAR_NODES
from fabrica_agent.cuda.statements import Counted, ForParts, Statements
from fabrica_agent.cuda.values import (
    Chosen,
    Element,
    Fixed,
    Opaque,
    Place,
    Pointer,
    PointerVar,
    RawMemory,
    ScalarVar,
    Value,
)  # fmt: skip
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Break,
    Continue,
    Expr,
    For,
    Load,
    Op,
    Parallel,
    Stmt,
    Store,
    Ty,
    UnsupportedError,
    Var,
    names_in,
    own_level,
    substitute,
    substitute_expr,
    walk,
)

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


MAX_PEELED = 2
"""Turns that may go before the first round of such a loop, as when only the first one reads the input."""
MAX_TRIES = 100
"""Periods that are tried for all loops of a program; loops in loops could multiply them."""
MAX_TURNS = 4096
"""Up to so many turns, a condition on the variable of a host loop is tried for each of them."""


class _Turn(NamedTuple):
    """One of the turns of a round: its variable, the number in the first round, the statements."""

    var: Var
    first: int
    statements: list[Stmt]


class HostCalls(Statements):
    """API calls of the host half of a CUDA program."""

    def __init__(self) -> None:
        self._turning: list[str] = []
        """Host loops around the point of translation, except turns that are written out."""
        self._loops: set[str] = set()
        """All variables of loops."""
        self._classes: dict[str, range] = {}
        """Values that the variable of a turn takes in the rounds of its loop."""
        self._chooses_late = False
        """Whether choices between arrays in host loops are left to run time."""
        self._tries = 0

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
        place: Place | None = self.variable_pointed_to(target)
        if place is None:
            while target.kind.name != "UNARY_OPERATOR" and cu.kids(target):
                target = cu.kids(target)[-1]
            place = self.place(cu.kids(target)[0]) if target.kind.name == "UNARY_OPERATOR" else None
        if not isinstance(place, PointerVar):
            self.fail("this allocation doesn't go to a pointer variable", cursor)
        name = cu.strip(cu.kids(target)[0]).spelling if cu.kids(target) else ""
        name = name or "device"
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
        if isinstance(to, Chosen):
            return self.by_cases(to, lambda p: self._copy_memory(p, origin, size, cursor), cursor)
        if isinstance(origin, Chosen):
            return self.by_cases(origin, lambda p: self._copy_memory(to, p, size, cursor), cursor)
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
        if isinstance(to, Chosen):
            return self.by_cases(to, lambda p: self._fill_memory(p, byte, size, cursor), cursor)
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
            x, y = (self.held(self.read(p, cursor)) for p in (a, b))
            self.write(a, y, cursor)
            self.write(b, x, cursor)
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
        before = self.pointing()
        length = len(self.out)
        try:
            done = self._plain_loop(parts, head, cursor)
            if not done or self._chooses_late or not moved(before):
                return done
            del self.out[length:]
            return self._alternating_loop(parts, head, before, cursor)
        except UnsupportedError as error:
            self._again(before, length, cursor)
            if isinstance(error, PointerChoiceError) and self._rounds(parts, head, before, cursor):
                return True
            late = isinstance(error, PointerChoiceError) and not self._turning and not self._chooses_late
            try:
                if self._unrolled_loop(parts, head, cursor):
                    return True
            except UnsupportedError:
                if not late:
                    raise
            self._again(before, length, cursor)
            if not late:
                raise
        return self._choosing_loop(parts, head, cursor)

    def _again(self, before: list[Pointing], length: int, cursor: Cursor) -> None:
        """Undo what an attempt at a loop has left behind."""
        del self.out[length:]
        repoint(before)
        self.forget_changes(cursor)

    def _plain_loop(self, parts: ForParts, head: Counted, cursor: Cursor) -> bool:
        self._turning.append(head.declared.spelling)
        try:
            return super().counted_loop(parts, head, cursor)
        finally:
            self._turning.pop()

    def numbers_pointers(self) -> bool:
        """In host loops, only where nothing else fits."""
        return self.frame.in_kernel or not self._turning or self._chooses_late

    def _choosing_loop(self, parts: ForParts, head: Counted, cursor: Cursor) -> bool:
        """The last resort: each turn chooses between the arrays when it runs."""
        self._chooses_late = True
        try:
            return self._plain_loop(parts, head, cursor)
        finally:
            self._chooses_late = False

    def loop_variable(self, name: str, ty: Ty) -> Var:
        """As for any loop; choices that depend on it are recognised by it."""
        var = super().loop_variable(name, ty)
        self._loops.add(var.name)
        return var

    def settled(self, cond: Expr) -> fold.Number | None:
        """As for any condition; in a turn of a round, also what is the same in that turn of every round."""
        known = super().settled(cond)
        names = names_in(cond)
        if known is not None or len(names) != 1 or not names <= set(self._classes):
            return known
        (name,) = names
        found = {_value_at(cond, name, n) for n in self._classes[name]}
        return found.pop() if len(found) == 1 else None

    def chosen_by(self, cond: Expr, cursor: Cursor) -> Expr:
        """As for any choice; in a host loop it is left to the rounds of the loop where that is possible."""
        turning = bool(self._turning) and not names_in(cond).isdisjoint(self._loops)
        if turning and not self.frame.in_kernel and not self._chooses_late:
            what = "choosing between two arrays is not supported in this loop"
            raise PointerChoiceError(what, self.source.place(cursor))
        return super().chosen_by(cond, cursor)

    def _rounds(self, parts: ForParts, head: Counted, before: list[Pointing], cursor: Cursor) -> bool:
        """Emit a loop over rounds of a few turns; each turn has its own arrays, found from its number.

        Some turns may go before the first round. False, and nothing emitted, when no small period fits.
        """
        start, stop = fold.int_value(head.start), fold.int_value(head.stop)
        if start is None or stop is None or len(range(start, stop, head.step)) > MAX_TURNS:
            return False
        turns = range(start, stop, head.step)
        for period in range(1, MAX_PERIOD + 1):
            for peeled in range(MAX_PEELED + 1):
                if peeled + period > len(turns) or self._tries == MAX_TRIES:
                    continue
                self._tries += 1
                repoint(before)
                try:
                    with self.capture() as emitted:
                        fits = self._round(parts, head, turns, peeled, period, cursor)
                except UnsupportedError:
                    fits = False
                if fits:
                    self.out.extend(emitted)
                    return True
                self._again(before, len(self.out), cursor)
        return False

    def _round(self, parts: ForParts, head: Counted, turns: range, peeled: int, period: int, cursor: Cursor) -> bool:
        count = (len(turns) - peeled) // period
        whole = peeled + count * period
        self._written_out(parts, head, turns[:peeled], cursor)
        self.forget_changes(cursor)
        before = self.pointing()
        body: list[_Turn] = []
        for turn in range(period):
            var = self.loop_variable(head.declared.spelling, head.ty)
            self._classes[var.name] = turns[peeled + turn : whole : period]
            try:
                body.append(_Turn(var, turns[peeled + turn], self._turn_of(parts, head, var, cursor)))
            finally:
                del self._classes[var.name]
        if moved(before):
            return False
        self.out.append(self._round_loop(body, count, head))
        self.forget_changes(cursor)
        self._written_out(parts, head, turns[whole:], cursor)
        return True

    def _round_loop(self, turns: Sequence[_Turn], count: int, head: Counted) -> For:
        period = len(turns)
        round_ = self.loop_variable("pair" if period == 2 else "round", Ty.I32)
        body: list[Stmt] = []
        for turn in turns:
            step = fold.binary(Op.MUL, round_, fold.i32(period * head.step), Ty.I32)
            index = fold.binary(Op.ADD, fold.i32(turn.first), step, Ty.I32)
            body += substitute(tuple(turn.statements), {turn.var.name: fold.cast(index, head.ty)})
        return For(round_.name, Ty.I32, fold.i32(0), fold.i32(count), 1, tuple(body))

    def _written_out(self, parts: ForParts, head: Counted, turns: range, cursor: Cursor) -> None:
        """Turns whose number is known, one after the other."""
        for number in turns:
            self.frame.bindings[head.declared.hash] = Fixed(fold.const(number, head.ty))
            with self.passage(Break, Continue), self.capture() as statements:
                self.statement(parts.body)
            self._check_whole(statements, cursor)
            self.out.extend(statements)

    def _check_whole(self, statements: list[Stmt], cursor: Cursor) -> None:
        if any(isinstance(s, Break | Continue) for s in own_level(tuple(statements))):
            self.fail("`break` and `continue` are not supported in a loop that has to be written out by turns", cursor)

    def _alternating_loop(self, parts: ForParts, head: Counted, before: list[Pointing], cursor: Cursor) -> bool:
        bounds = fold.int_value(head.start), fold.int_value(head.stop)
        if bounds[0] is None or bounds[1] is None:
            what = "a loop that swaps buffers needs a trip count known at compile time"
            raise PointerChoiceError(what, self.source.place(cursor))
        trips = max(0, -(-(bounds[1] - bounds[0]) // head.step))
        repoint(before)
        turns: list[_Turn] = []
        states: list[list[Pointing]] = []
        while not turns or moved(before):
            if len(turns) == MAX_PERIOD:
                what = f"the buffers of this loop are not back in their places after {MAX_PERIOD} turns"
                raise PointerChoiceError(what, self.source.place(cursor))
            var = self.loop_variable(head.declared.spelling, head.ty)
            turns.append(_Turn(var, bounds[0] + len(turns) * head.step, self._turn_of(parts, head, var, cursor)))
            states.append(now(before))
        period = len(turns)
        loop = self._round_loop(turns, trips // period, head)
        if trips >= period:
            self.out.append(loop)
        for turn in range(trips % period):
            var, _, statements = turns[turn]
            last = fold.const(bounds[0] + (trips - trips % period + turn) * head.step, head.ty)
            self.out.extend(substitute(tuple(statements), {var.name: last}))
            repoint(states[turn])
        self.forget_changes(cursor)
        return True

    def _unrolled_loop(self, parts: ForParts, head: Counted, cursor: Cursor) -> bool:
        """Write out a short host loop whose body can only be translated for a known value of its variable."""
        start, stop = fold.int_value(head.start), fold.int_value(head.stop)
        if start is None or stop is None or len(range(start, stop, head.step)) > MAX_UNROLLED:
            return False
        self._written_out(parts, head, range(start, stop, head.step), cursor)
        return True

    def _turn_of(self, parts: ForParts, head: Counted, var: Var, cursor: Cursor) -> list[Stmt]:
        self.frame.bindings[head.declared.hash] = Fixed(var)
        self._turning.append(head.declared.spelling)
        try:
            with self.passage(Break, Continue), self.capture() as statements:
                self.statement(parts.body)
        finally:
            self._turning.pop()
        self._check_whole(statements, cursor)
        return statements


def _value_at(cond: Expr, name: str, number: int) -> fold.Number | None:
    """The value of a condition for one value of the only variable in it."""
    ty = next(n.ty for n in walk(cond) if isinstance(n, Var))
    return fold.value(fold.refold(substitute_expr(cond, {name: fold.const(number, ty)})))


def _divide(size: Expr, width: int) -> Expr | None:
    """`size / width`, keeping the symbolic count of `n * sizeof(T)`."""
    from fabrica_agent.cuda.variable_arrays import to_index
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
