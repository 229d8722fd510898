"""Where pointer variables point, followed through branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from fabrica_agent.cuda.addresses import buffer_of, buffers_in, each, filled, number_of, offset_of, selected
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.state import SCALAR_NODES, State
from fabrica_agent.cuda.values import (
    Aggregate,
    Binding,
    BufferName,
    Chosen,
    ChosenPlace,
    Opaque,
    Pointer,
    PointerVar,
    Selector,
    StructVar,
    Value,
    VariableArray,
    Which,
)  # fmt: skip
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import Assign, Body, Break, Continue, Expr, If, Return, Stmt, Ty, UnsupportedError, Var

T = TypeVar("T")
MAX_RETRIES = 16
MAX_ARRAYS = 4
"""Arrays between which a loop may move a pointer."""


class Pointing(NamedTuple):
    """Where a pointer variable points at one point of the translation."""

    variable: PointerVar
    buffer: BufferName
    offset: Var | None
    selector: Selector | None


class PointerChoiceError(UnsupportedError):
    """Which array a pointer of a loop points into depends on the turn."""


Jump = Break | Continue | Return


class Passage(NamedTuple):
    """What happens to pointer variables while code is translated that jumps can leave.

    Attributes:
        before: Where they point before it.
        jumps: The kinds of jumps that leave it for where its end leads, too.
        left: Where they point at each such jump, in the order of `before`.
        blank: Those that are read where they point nowhere, by identity.
        seen: What else they point into on the way, by identity.
    """

    before: list[Pointing]
    jumps: tuple[type[Jump], ...]
    left: list[list[Pointing]]
    blank: set[int]
    seen: dict[int, list[str | None]]


def moved(before: Sequence[Pointing]) -> bool:
    """Whether some pointer variable points into other arrays than before, or keeps its offset elsewhere."""
    return any((p.variable.buffer, p.variable.offset) != (p.buffer, p.offset) for p in before)


def now(before: Sequence[Pointing]) -> list[Pointing]:
    """Where the same variables point now."""
    return [_pointing(p.variable) for p in before]


def _pointing(variable: PointerVar) -> Pointing:
    return Pointing(variable, variable.buffer, variable.offset, variable.selector)


def restart(before: Sequence[Pointing]) -> None:
    """Let another branch start where the first one did; the offset of a pointer without array is kept in one place."""
    for p in before:
        p.variable.buffer, p.variable.selector = p.buffer, p.selector
        if p.buffer is not None:
            p.variable.offset = p.offset


def repoint(before: Sequence[Pointing]) -> None:
    """Go back to an earlier state of the pointer variables."""
    for p in before:
        p.variable.buffer, p.variable.offset, p.variable.selector = p.buffer, p.offset, p.selector


def pointers_of(binding: Binding) -> Iterator[PointerVar]:
    """The pointer variables that a variable is or holds."""
    if isinstance(binding, PointerVar):
        yield binding
    elif isinstance(binding, StructVar):
        for part in binding.fields.values():
            yield from pointers_of(part)
    elif isinstance(binding, VariableArray):
        for part in binding.elements:
            yield from pointers_of(part)
    elif isinstance(binding, ChosenPlace):
        yield from pointers_of(binding.yes)
        yield from pointers_of(binding.no)


def _ways(passage: Passage) -> Iterator[list[Pointing]]:
    """For each variable, where it points before a passage, at its end, and at each jump."""
    for each_way in zip(passage.before, now(passage.before), *passage.left, strict=True):
        yield list(each_way)


def _same(p: Pointing, q: Pointing) -> bool:
    return (p.buffer, p.offset) == (q.buffer, q.offset)


def _moving(turn: Passage) -> list[list[Pointing]]:
    """Of the variables that a turn leaves where they were not before, all ways. What had no value may get an array."""
    found: list[list[Pointing]] = []
    for p, end, *left in _ways(turn):
        valued = p.variable.null or id(p.variable) in turn.blank
        fresh = p.buffer is None and isinstance(end.buffer, str) and not valued
        if fresh and all(q.buffer is None or _same(q, end) for q in left):
            continue
        if not all(_same(p, q) for q in (end, *left)):
            found.append([p, end, *left])
    return found


def _parted(body: Passage) -> list[list[Pointing]]:
    """Of the variables that a function leaves different where it returns, all ways."""
    return [ways for ways in _ways(body) if not all(_same(ways[1], q) for q in ways[2:])]


class Pointers(State):
    """Pointer part of the translator."""

    passages: list[Passage]
    """Those around the point of translation."""

    def pointing(self) -> list[Pointing]:
        """Where all pointer variables that code at this point can change now point."""
        found: dict[int, Pointing] = {}
        for binding in (*self.globals.values(), *(b for frame in self.frames() for b in frame.inside())):
            for variable in pointers_of(binding):
                found[id(variable)] = _pointing(variable)
        return list(found.values())

    def chosen_by(self, cond: Expr, cursor: Cursor) -> Expr:
        """The condition that chooses between pointers, computed now."""
        return self.save(cond, "chosen")

    def point(self, place: PointerVar, value: Pointer | Chosen | Opaque, cursor: Cursor) -> None:
        """Let a pointer variable point elsewhere; branches and loops look at what that leaves behind."""
        value = self.fastened(value)
        buffer = buffer_of(value)
        place.null |= None in buffers_in(buffer)
        for passage in self.passages:
            passage.seen.setdefault(id(place), []).extend(buffers_in(buffer))
        if place.selector is not None and set(buffers_in(buffer)) <= set(place.selector.among):
            self.out.append(Assign(place.selector.number.name, number_of(buffer, place.selector.among)))
        else:
            place.buffer, place.selector = buffer, None
        if isinstance(value, Opaque):
            return
        offset = offset_of(value)
        if place.offset is None:
            if fold.is_const(offset, 0) and not self.frame.in_kernel:
                return
            place.offset = self.fresh("offset", Ty.I32)
        self.out.append(Assign(place.offset.name, offset))

    def fastened(self, address: Pointer | Chosen | Opaque) -> Pointer | Chosen | Opaque:
        """An address whose conditions later assignments don't change."""
        if not isinstance(address, Chosen):
            return address
        cond = address.cond if isinstance(address.cond, Var) else self.save(address.cond, "chosen")
        return Chosen(cond, self.fastened(address.yes), self.fastened(address.no))

    def frozen_address(self, address: Pointer | Chosen, name: str = "t") -> Pointer | Chosen:
        """An address that later assignments don't change."""
        fast = self.fastened(address)
        assert not isinstance(fast, Opaque)
        return each(fast, lambda p: Pointer(p.buffer, self.save(p.offset, name), p.target))

    def held(self, value: Value) -> Value:
        """A value that later assignments don't change."""
        if isinstance(value, SCALAR_NODES):
            return self.save(value)
        if isinstance(value, Aggregate):
            return Aggregate({n: self.held(v) for n, v in value.fields.items()})
        return self.frozen_address(value) if isinstance(value, Pointer | Chosen) else value

    def by_cases(self, address: Chosen, use: Callable[[Value], Value], cursor: Cursor) -> Value:
        """Emit the use of an address, one branch for each pointer that it may be; null is not used."""
        fast = self.fastened(address)
        assert isinstance(fast, Chosen)
        for null, other in ((fast.yes, fast.no), (fast.no, fast.yes)):
            if isinstance(null, Opaque):
                return self.by_cases(other, use, cursor) if isinstance(other, Chosen) else use(other)
        results: list[Value] = []
        branches: list[list[Stmt]] = []
        for case in (fast.yes, fast.no):
            with self.capture() as branch:
                results.append(self.by_cases(case, use, cursor) if isinstance(case, Chosen) else use(case))
            branches.append(branch)
        a, b = results
        if isinstance(a, Opaque) and isinstance(b, Opaque):
            found: Value = a
        elif a == b:
            found = a
        else:
            x, y = self.scalar_from(a, cursor), self.scalar_from(b, cursor)
            found = var = self.fresh("result", x.ty)
            branches[0].append(Assign(var.name, x))
            branches[1].append(Assign(var.name, fold.cast(y, x.ty)))
        if branches[0] or branches[1]:
            self.out.append(If(fast.cond, tuple(branches[0]), tuple(branches[1])))
        return found

    def meet(self, cond: Expr, after: list[Pointing], then: Body, other: Body) -> tuple[Body, Body]:
        """Let pointer variables that two branches leave different be chosen from there on, their offsets in one place.

        Args:
            cond: Where it holds, the first branch was taken.
            after: How the first branch left them; the second one has just been translated.
            then: The first branch.
            other: The second branch.
        """
        for p in after:
            variable = p.variable
            if variable.offset != p.offset:
                shared = p.offset or variable.offset
                assert shared is not None
                zero = fold.i32(0)
                if p.offset is None and p.buffer is not None:
                    then = (*then, Assign(shared.name, zero))
                if variable.offset != shared and variable.buffer is not None:
                    other = (*other, Assign(shared.name, variable.offset or zero))
                variable.offset = shared
            if variable.buffer != p.buffer:
                variable.buffer, variable.selector = Which(cond, p.buffer, variable.buffer), None
        return then, other

    def gather(self, before: Sequence[Pointing], ends: Sequence[Sequence[Pointing]]) -> None:
        """Leave each pointer variable with everything that alternatives let it point into, for a selector to choose.

        Args:
            before: The variables; they are left as the last alternative left them.
            ends: How each alternative left them, in the order of `before`.
        """
        for k, p in enumerate(before):
            variable = p.variable
            for end in ends:
                variable.offset = variable.offset or end[k].offset
                if end[k].buffer != variable.buffer:
                    variable.buffer, variable.selector = Which(fold.TRUE, variable.buffer, end[k].buffer), None

    def looped(
        self,
        turn: Callable[[], T],
        cursor: Cursor,
        *,
        jumps: tuple[type[Jump], ...] = (Break, Continue),
        ends: Callable[[T], bool] = lambda _: False,
    ) -> T:
        """Translate the body of a loop; pointers that it moves to other arrays get a selector before it.

        Args:
            turn: Translates one turn.
            cursor: The loop, for messages.
            jumps: Those that leave a turn.
            ends: Whether no other turn follows such a turn, so that pointers stay where it leaves them.
        """
        for _ in range(MAX_RETRIES):
            with self.passage(*jumps) as passage:
                translated = turn()
            if ends(translated) or not self._number(passage, _moving(passage), cursor):
                return translated
            self.forget(None)
        self.fail("where the pointers of this loop point is not understood", cursor)

    def called(self, body: Callable[[], T], cursor: Cursor) -> T:
        """Translate a function that returns at several places; pointers that these leave different get a selector."""
        for _ in range(MAX_RETRIES):
            with self.passage(Return) as passage:
                translated = body()
            if not self._number(passage, _parted(passage), cursor):
                return translated
            self.forget(None)
        self.fail("where the pointers of this function point when it returns is not understood", cursor)

    @contextmanager
    def passage(self, *jumps: type[Jump]) -> Iterator[Passage]:
        """Watch what the code inside the `with` block does to pointer variables."""
        # A returned pointer is put together from what each `return` gives.
        before = [p for p in self.pointing() if Return not in jumps or p.variable is not self.frame.result]
        self.passages.append(Passage(before, jumps, [], set(), {}))
        try:
            yield self.passages[-1]
        finally:
            self.passages.pop()

    def jump(self, jump: Jump) -> None:
        """Emit a jump, and note where it leaves the pointer variables."""
        passage = next((p for p in reversed(self.passages) if isinstance(jump, p.jumps)), None)
        if passage is not None:
            passage.left.append(now(passage.before))
        self.out.append(jump)

    def read_blank(self, variable: PointerVar) -> None:
        """Note that a pointer variable is read where it points nowhere: in a later turn it may point somewhere."""
        for passage in self.passages:
            passage.blank.add(id(variable))

    def numbers_pointers(self) -> bool:
        """Whether loops give selectors to the pointers that they move."""
        return True

    def _number(self, passage: Passage, moving: list[list[Pointing]], cursor: Cursor) -> bool:
        """Give selectors to the pointers that move, by what each may be; False when there are none.

        An offset that starts to be kept in a variable is there from the beginning.
        """
        if not moving or (not self.numbers_pointers() and not self._by_turns(passage, cursor)):
            return False
        repoint(passage.before)
        for p, *later in moving:
            among = tuple(dict.fromkeys(b for q in (p, *later) for b in buffers_in(q.buffer)))
            if len(among) > 1:
                among = tuple(dict.fromkeys((*among, *passage.seen.get(id(p.variable), ()))))
            if len(among) > MAX_ARRAYS:
                self.fail(f"a pointer that moves between more than {MAX_ARRAYS} arrays is not supported", cursor)
            if p.variable.offset is None:
                p.variable.offset = self.fresh("offset", Ty.I32)
                self.out.append(Assign(p.variable.offset.name, fold.i32(0)))
            if len(among) > 1:
                selector = Selector(self.fresh("array", Ty.I32), among)
                self.out.append(Assign(selector.number.name, number_of(p.buffer, among)))
                p.variable.buffer, p.variable.selector = selected(selector), selector
        return True

    def _by_turns(self, passage: Passage, cursor: Cursor) -> bool:
        """Whether this is no counted loop, which could be written out by turns: then give up for now."""
        if cursor.kind.name == "FOR_STMT" and all(_same(p, q) for p, _, *left in _ways(passage) for q in left):
            return False
        what = "a pointer that is in another array after each turn is not supported in this loop"
        raise PointerChoiceError(what, self.source.place(cursor))

    def return_pointer(self, result: PointerVar, value: Value, cursor: Cursor) -> None:
        """One of several returns: it is reached where no earlier one was, so it takes what has no array yet."""
        if not isinstance(value, Pointer | Chosen):
            self.fail("returning a null pointer at one of several places is not supported", cursor)
        earlier = result.buffer
        if result.offset is None:
            result.offset = self.fresh("offset", Ty.I32)
        self.point(result, value, cursor)
        result.buffer, result.selector = filled(earlier, result.buffer), None
