"""Sums over the rows of a matrix, one after the other, as sums of its columns, all rows at once.

A matrix-vector product written with one warp or block per row leaves, for each row, products of two vectors and a tree
of additions. On a PE it is faster to add up the columns: one fused multiply-add per column over all rows. The order of
the additions changes, which a warp reduction doesn't fix either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Access,
    Bin,
    Body,
    Expr,
    For,
    Load,
    Op,
    Program,
    Stmt,
    Store,
    Ty,
    VecOp,
    Vector,
    bodies,
    read_buffers,
    with_bodies,
    written_buffers,
)
from fabrica_agent.lowering.linear import Linear, build, linear
from fabrica_agent.lowering.names import Names
from fabrica_agent.lowering.normalise import trip_count
from fabrica_agent.lowering.ranges import Env
from fabrica_agent.lowering.sections import Span, exposed_sections, section
from fabrica_agent.lowering.vectorise import MAX_STRIDE


def columns_for_rows(program: Program) -> Program:
    """Rewrite every loop over rows of the described form."""
    copy = replace(program, buffers=dict(program.buffers), types=dict(program.types), ranges=dict(program.ranges))
    copy.body = _Rows(copy).body(copy.body)
    return copy


@dataclass(frozen=True, order=True)
class _Term:
    """A product `vector[at] * matrix[place + row part]`."""

    at: int
    place: int


@dataclass(frozen=True)
class _RowWork:
    """What a row's work computes: `store` gets the sum of `terms` over a matrix and a vector."""

    store: Store
    terms: tuple[_Term, ...]
    matrix: str
    moving: Linear
    vector: str


class _Rows:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = Names(program)

    def body(self, body: Body) -> Body:
        """Process nested statements first."""
        out: list[Stmt] = []
        for s in body:
            s = with_bodies(s, tuple(self.body(b) for b in bodies(s)))
            new = self._loop(s) if isinstance(s, For) else None
            out.extend(new if new is not None else (s,))
        return tuple(out)

    def _loop(self, s: For) -> Body | None:
        rows = trip_count(s)
        if rows is None or rows < 2 or s.step != 1:
            return None
        work = _RowReader(s, self.program.ranges).read()
        if work is None or self._shares_scratch(s, work):
            return None
        steps = _progression([t.place for t in work.terms]), _progression([t.at for t in work.terms])
        sums = self._access(linear(work.store.index, self.program.ranges), work.store.buffer, s, rows)
        if steps[0] is None or steps[1] is None or sums is None or work.store.buffer == work.matrix:
            return None
        count, first = len(work.terms), work.terms[0]
        if work.store.buffer == work.vector:
            mine, read = section(sums), (first.at, first.at + (count - 1) * steps[1] + 1)
            if mine is None or steps[1] < 1 or _overlap(mine, read):
                return None
        column = self.names.variable("column", Ty.I32)
        self.program.ranges[column.name] = (0, count - 1)
        moving = Linear((*work.moving.terms, (column, steps[0])), first.place)
        down = self._access(moving, work.matrix, s, rows)
        if down is None:
            return None
        at = fold.binary(Op.MUL, column, fold.i32(steps[1]), Ty.I32)
        factor: Expr = Load(work.vector, fold.binary(Op.ADD, at, fold.i32(first.at), Ty.I32), Ty.F32)
        step = Vector(VecOp.FMA, sums, (sums, down, factor), Ty.F32)
        clear = Vector(VecOp.MOVE, sums, (fold.const(0.0, Ty.F32),), Ty.F32)
        return (clear, For(column.name, Ty.I32, fold.i32(0), fold.i32(count), 1, (step,)))

    def _access(self, place: Linear, buffer: str, s: For, rows: int) -> Access | None:
        """The elements at a place that moves with the row, for all rows."""
        stride = place.of(s.var)
        if place.opaque_in(s.var) or stride == 0 or abs(stride) > MAX_STRIDE:
            return None
        start = place.without(s.var).plus(Linear((), stride * (fold.int_value(s.start) or 0)))
        return Access(buffer, build(start), stride, fold.i32(rows))

    def _shares_scratch(self, s: For, work: _RowWork) -> bool:
        """Whether what a row leaves in its scratch arrays may be read outside the loop."""
        inside = set(written_buffers(s.body[:-1]))
        if any(self.program.buffers[b].exported for b in inside) or work.store.buffer in inside:
            return True
        return not _writes_first(self.program.body, frozenset(inside))


def _writes_first(body: Body, names: frozenset[str]) -> bool:
    """Whether every loop that uses these arrays writes them before it reads them, and nothing else uses them."""
    for s in body:
        if isinstance(s, For) and any(not bodies(x) and _uses(x, names) for x in s.body):
            if set(exposed_sections(s.body, names)):
                return False
        elif (not bodies(s) and _uses(s, names)) or not all(_writes_first(b, names) for b in bodies(s)):
            return False
    return True


def _uses(s: Stmt, names: frozenset[str]) -> bool:
    return bool(names & (read_buffers((s,)) | written_buffers((s,))))


class _RowReader:
    """Follows, element by element, what a row's bulk operations compute."""

    def __init__(self, loop: For, env: Env) -> None:
        self.loop = loop
        self.env = env
        self.held: dict[tuple[str, int], tuple[_Term, ...]] = {}
        self.matrix: tuple[str, Linear] | None = None
        self.vector: str | None = None

    def read(self) -> _RowWork | None:
        """The row's work, if it is products, additions and copies, and the store of one sum."""
        *operations, store = self.loop.body
        if not isinstance(store, Store) or not operations or not isinstance(store.value, Load):
            return None
        for s in operations:
            followed = self._follow(s) if isinstance(s, Vector) and s.ty is Ty.F32 else self._follow_element(s)
            if not followed:
                return None
        at = fold.int_value(store.value.index)
        terms = self.held.get((store.value.buffer, at)) if at is not None else None
        if terms is None or len(terms) < 2 or self.matrix is None or self.vector is None:
            return None
        return _RowWork(store, tuple(sorted(terms)), self.matrix[0], self.matrix[1], self.vector)

    def _follow(self, s: Vector) -> bool:
        target = section(s.dest)
        if target is None or s.dest.stride != 1:
            return False
        new = self._product(s, target) if s.op is VecOp.MUL else self._sum(s, target)
        if new is None:
            return False
        self.held.update({(s.dest.buffer, target[0] + k): terms for k, terms in enumerate(new)})
        return True

    def _follow_element(self, s: Stmt) -> bool:
        """A single element that gets the sum of known ones."""
        at = fold.int_value(s.index) if isinstance(s, Store) else None
        if not isinstance(s, Store) or at is None:
            return False
        terms = self._value(s.value)
        if terms is None:
            return False
        self.held[s.buffer, at] = terms
        return True

    def _value(self, e: Expr) -> tuple[_Term, ...] | None:
        if isinstance(e, Load):
            at = fold.int_value(e.index)
            return None if at is None else self.held.get((e.buffer, at))
        if isinstance(e, Bin) and e.op is Op.ADD:
            a, b = self._value(e.a), self._value(e.b)
            return None if a is None or b is None else a + b
        return None

    def _product(self, s: Vector, target: Span) -> list[tuple[_Term, ...]] | None:
        if not all(isinstance(x, Access) for x in s.sources):
            return None
        fixed = [x for x in s.sources if isinstance(x, Access) and fold.int_value(x.start) is not None]
        moving = [x for x in s.sources if isinstance(x, Access) and fold.int_value(x.start) is None]
        if len(fixed) != 1 or len(moving) != 1 or any((x.buffer, 0) in self.held for x in (*fixed, *moving)):
            return None
        form = linear(moving[0].start, self.env)
        part = Linear(form.terms, 0)
        if form.of(self.loop.var) == 0 or (self.matrix or (moving[0].buffer, part)) != (moving[0].buffer, part):
            return None
        if self.vector not in (None, fixed[0].buffer):
            return None
        self.matrix, self.vector = (moving[0].buffer, part), fixed[0].buffer
        start = fold.int_value(fixed[0].start) or 0
        return [
            (_Term(start + k * fixed[0].stride, form.constant + k * moving[0].stride),)
            for k in range(target[1] - target[0])
        ]

    def _sum(self, s: Vector, target: Span) -> list[tuple[_Term, ...]] | None:
        if s.op not in (VecOp.ADD, VecOp.MOVE):
            return None
        columns: list[list[tuple[_Term, ...]]] = []
        for x in s.sources:
            part = section(x) if isinstance(x, Access) and x.stride == 1 else None
            if part is None or not isinstance(x, Access):
                return None
            held = [self.held.get((x.buffer, part[0] + k)) for k in range(target[1] - target[0])]
            if any(h is None for h in held):
                return None
            columns.append([h for h in held if h is not None])
        return [tuple(t for terms in row for t in terms) for row in zip(*columns, strict=True)]


def _progression(values: Sequence[int]) -> int | None:
    """The common difference of an arithmetic progression; None if it isn't one."""
    step = values[1] - values[0]
    return step if all(b - a == step for a, b in pairwise(values)) else None


def _overlap(a: Span, b: Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]
