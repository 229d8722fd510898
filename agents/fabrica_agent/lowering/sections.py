"""Bulk operations on parts of arrays: copies avoided, work that nobody needs dropped.

Serialised warp and block algorithms compute a value for every thread where the result of one is needed, and copy whole
arrays where threads look at each other. In straight-line code with constant offsets and lengths this pass

 1. reads the origin of a copy, or the constant of a fill, instead of the copy;
 2. computes only those elements of private arrays that are read later;
 3. lets an operation write directly where its result would be copied to.

An operation on overlapping parts of one array runs from the end where that keeps it from reading what it has written.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Access,
    Body,
    Columns,
    Const,
    Elementary,
    Expr,
    For,
    Grid,
    If,
    Load,
    Program,
    Reduce,
    Stmt,
    Store,
    Var,
    VecOp,
    Vector,
    While,
    bodies,
    map_expr,
    map_stmt_exprs,
    read_buffers,
    stmt_exprs,
    walk,
    walk_stmts,
    with_bodies,
    written_buffers,
)
from fabrica_agent.lowering.linear import linear
from fabrica_agent.lowering.normalise import escapes

Span = tuple[int, int]
"""Half-open range of element indices."""
EVERYTHING: Span = (0, 1 << 30)
MAX_ROUNDS = 12


class Spans:
    """A set of element indices as disjoint ranges."""

    def __init__(self, parts: tuple[Span, ...] = ()) -> None:
        self.parts = parts

    def plus(self, new: Span) -> Spans:
        """With a range added."""
        parts = sorted((*self.parts, new)) if new[0] < new[1] else list(self.parts)
        merged: list[Span] = []
        for low, high in parts:
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return Spans(tuple(merged))

    def minus(self, cut: Span) -> Spans:
        """With a range removed."""
        parts: list[Span] = []
        for low, high in self.parts:
            parts += [p for p in ((low, min(high, cut[0])), (max(low, cut[1]), high)) if p[0] < p[1]]
        return Spans(tuple(parts))

    def hull(self, within: Span) -> Span | None:
        """The smallest range that holds all members inside `within`; None if there are none."""
        inside = [(max(a, within[0]), min(b, within[1])) for a, b in self.parts]
        inside = [p for p in inside if p[0] < p[1]]
        return (inside[0][0], inside[-1][1]) if inside else None

    def covers(self, part: Span) -> bool:
        """Whether a range is within the set."""
        return part[0] >= part[1] or any(a <= part[0] and part[1] <= b for a, b in self.parts)


def optimise_sections(program: Program, *, backwards: bool = True) -> Program:
    """Apply the pass to every straight-line stretch of a program.

    Args:
        program: Serial, with bulk operations.
        backwards: Whether an operation may run from the end to avoid a copy.
    """
    private = frozenset(n for n, b in program.buffers.items() if not b.exported and b.init is None)
    body = program.body
    for _ in range(MAX_ROUNDS):
        before = body
        body = _Liveness(private, body).run()
        body = _Propagation(private, backwards).body(body)
        if body == before:
            break
    used = _mentioned(body)
    return replace(program, body=body, buffers={n: b for n, b in program.buffers.items() if b.exported or n in used})


def _mentioned(body: Body) -> set[str]:
    found = set(written_buffers(body))
    for s in walk_stmts(body):
        for name, _ in _reads(s, nested=False):
            found.add(name)
    return found


# ------------------------------------------------------------------------------------------------------------ sections


def section(x: Access) -> Span | None:
    """The elements of a constant access with unit stride, in either direction; else None."""
    start, count = fold.int_value(x.start), fold.int_value(x.count)
    if start is None or count is None or abs(x.stride) != 1:
        return None
    return (start, start + count) if x.stride == 1 else (start - count + 1, start + 1)


def hull(x: Access) -> Span:
    """A range that holds all elements of an access."""
    start, count = fold.int_value(x.start), fold.int_value(x.count)
    if start is None or count is None:
        return EVERYTHING
    last = start + (count - 1) * x.stride
    return min(start, last), max(start, last) + 1


def _index_span(index: Expr) -> Span:
    known = fold.int_value(index)
    return EVERYTHING if known is None else (known, known + 1)


def _reads(s: Stmt, *, nested: bool = True) -> list[tuple[str, Span]]:
    """Array elements that a statement may read."""
    found = [(n.buffer, _index_span(n.index)) for e in stmt_exprs(s) for n in walk(e) if isinstance(n, Load)]
    match s:
        case Vector(sources=sources):
            found += [(x.buffer, hull(x)) for x in sources if isinstance(x, Access)]
        case Reduce(target=target, index=index, source=x):
            found.append((x.buffer, hull(x)))
            if index is not None:
                found.append((target, _index_span(index)))
        case Grid() | Columns() | Elementary():
            found += [(name, EVERYTHING) for name in read_buffers((s,))]
    if nested:
        for b in bodies(s):
            for inner in b:
                found += _reads(inner)
    return found


def _writes(s: Stmt) -> list[tuple[str, Span]]:
    """Array elements that a statement may write."""
    match s:
        case Store(buffer=buffer, index=index):
            return [(buffer, _index_span(index))]
        case Vector(dest=dest):
            return [(dest.buffer, hull(dest))]
        case Reduce(target=target, index=index) if index is not None:
            return [(target, _index_span(index))]
        case Grid() | Columns() | Elementary():
            return [(name, EVERYTHING) for name in written_buffers((s,))]
    return [w for b in bodies(s) for inner in b for w in _writes(inner)]


def _overlap(a: Span, b: Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def part_of(x: Access, whole: Span, part: Span) -> Access:
    """The part of an access that goes with elements `part` of an operation over `whole`."""
    if part == whole:
        return x
    start = fold.int_value(x.start)
    assert start is not None
    return replace(x, start=fold.i32(start + (part[0] - whole[0]) * x.stride), count=fold.i32(part[1] - part[0]))


# --------------------------------------------------------------------------------------------------------- propagation


@dataclass
class _Fact:
    """`buffer[span]` equals `origin`: an access that starts at span[0], or a constant."""

    buffer: str
    span: Span
    origin: tuple[str, int] | Const


@dataclass
class _Propagation:
    """Step 1: reads of copies and fills."""

    private: frozenset[str]
    backwards: bool
    facts: list[_Fact] = field(default_factory=list)

    def body(self, body: Body) -> Body:
        """Process a statement list; facts don't outlive a loop's or a branch's boundaries."""
        out: list[Stmt] = []
        for s in body:
            for new in self._statement(s):
                out.append(new)
                self._record(new)
        return tuple(out)

    def _statement(self, s: Stmt) -> list[Stmt]:
        if isinstance(s, For | While):
            self._invalidate(_writes(s))
            inner = tuple(_Propagation(self.private, self.backwards, list(self.facts)).body(b) for b in bodies(s))
            return [with_bodies(self._scalars(s), inner)] if isinstance(s, For) else [with_bodies(s, inner)]
        if isinstance(s, If):
            inner = tuple(_Propagation(self.private, self.backwards, list(self.facts)).body(b) for b in bodies(s))
            return [with_bodies(self._scalars(s), inner)]
        s = self._scalars(s)
        if isinstance(s, Vector):
            return self._vector(s)
        if isinstance(s, Reduce):
            source = self._source(s.source, None)
            return [replace(s, source=source)] if isinstance(source, Access) else [s]
        return [s]

    def _scalars(self, s: Stmt) -> Stmt:
        def visit(e: Expr) -> Expr:
            if isinstance(e, Load):
                at = fold.int_value(e.index)
                fact = self._fact(e.buffer, (at, at + 1)) if at is not None else None
                if fact is not None and at is not None:
                    if isinstance(fact.origin, Const):
                        return fact.origin
                    buffer, start = fact.origin
                    return Load(buffer, fold.i32(start + at - fact.span[0]), e.ty)
            return e

        return map_stmt_exprs(s, lambda e: fold.refold(map_expr(e, visit)))

    def _fact(self, buffer: str, part: Span) -> _Fact | None:
        return next(
            (f for f in self.facts if f.buffer == buffer and f.span[0] <= part[0] and part[1] <= f.span[1]), None
        )

    def _source(self, x: Access, dest: Access | None) -> Access | Const:
        part = section(x)
        fact = self._fact(x.buffer, part) if part is not None else None
        if fact is None or part is None:
            return x
        if isinstance(fact.origin, Const):
            return fact.origin
        buffer, start = fact.origin
        moved = replace(x, buffer=buffer, start=fold.i32(start + (fold.int_value(x.start) or 0) - fact.span[0]))
        if dest is not None and buffer == dest.buffer and not _harmless(moved, dest):
            return x
        return moved

    def _vector(self, s: Vector) -> list[Stmt]:
        split = self._split(s)
        if split is not None:
            return [new for part in split for new in self._vector(part)]
        sources = tuple(self._source(x, s.dest) if isinstance(x, Access) else x for x in s.sources)
        new = self._simplified(s, sources)
        if new is None or any(not _has_direction(n) for n in new):
            return [s]
        ordered = [_reversed_if_needed(n) for n in new]
        if not self.backwards and any(n.dest.stride < 0 for n in ordered) and s.dest.stride > 0:
            return [s]
        return list(ordered)

    def _split(self, s: Vector) -> list[Vector] | None:
        """Split an addition where part of a source is a fill with zero: that part has nothing to do."""
        whole = section(s.dest)
        if s.op is not VecOp.ADD or whole is None or s.dest.stride != 1:
            return None
        for x in s.sources:
            part = section(x) if isinstance(x, Access) and x.stride == 1 else None
            if part is None or not isinstance(x, Access):
                continue
            for fact in self.facts:
                if fact.buffer != x.buffer or fact.origin != Const(0.0, s.ty):
                    continue
                low, high = max(part[0], fact.span[0]), min(part[1], fact.span[1])
                if low >= high or (low, high) == part:
                    continue
                if any(isinstance(y, Access) and section(y) is None for y in s.sources):
                    return None
                shift = whole[0] - part[0]
                cuts = sorted({whole[0], low + shift, high + shift, whole[1]})
                return [self._part(s, whole, (a, b)) for a, b in pairwise(cuts)]
        return None

    def _part(self, s: Vector, whole: Span, part: Span) -> Vector:
        sources = tuple(part_of(x, whole, part) if isinstance(x, Access) else x for x in s.sources)
        return replace(s, dest=part_of(s.dest, whole, part), sources=sources)

    def _simplified(self, s: Vector, sources: tuple[Access | Expr, ...]) -> list[Vector] | None:
        """The operation on new sources; [] if it does nothing, None if it has no such form."""
        constants = [x for x in sources if isinstance(x, Const)]
        accesses = [x for x in sources if isinstance(x, Access)]
        if s.op is VecOp.ADD and any(c.value == 0.0 for c in constants) and len(accesses) == 1:
            return self._simplified(replace(s, op=VecOp.MOVE), (accesses[0],))
        if s.op is VecOp.MOVE and sources[0] == s.dest:
            return []
        if s.op is VecOp.MOVE:
            return [replace(s, sources=sources)]
        first_two = sources[:2] if s.op is VecOp.FMA else sources
        if s.op is VecOp.FMA and not all(isinstance(x, Access) for x in first_two):
            return None
        if s.op is VecOp.SUB and not isinstance(sources[0], Access):
            return None
        return [replace(s, sources=sources)] if accesses else None

    def _record(self, s: Stmt) -> None:
        self._invalidate(_writes(s))
        match s:
            case Vector(op=VecOp.MOVE, dest=dest, sources=(source,)) if (
                dest.buffer in self.private and dest.stride == 1
            ):
                span = section(dest)
                if span is None:
                    return
                if isinstance(source, Const):
                    self.facts.append(_Fact(dest.buffer, span, source))
                elif isinstance(source, Access) and source.stride == 1 and source.buffer != dest.buffer:
                    origin = section(source)
                    if origin is not None:
                        self.facts.append(_Fact(dest.buffer, span, (source.buffer, origin[0])))
            case Store(buffer=buffer, index=index, value=Const() as value) if buffer in self.private:
                at = fold.int_value(index)
                if at is not None:
                    self.facts.append(_Fact(buffer, (at, at + 1), value))

    def _invalidate(self, writes: list[tuple[str, Span]]) -> None:
        for buffer, span in writes:
            self.facts = [f for f in self.facts if not self._touched(f, buffer, span)]

    def _touched(self, f: _Fact, buffer: str, span: Span) -> bool:
        if f.buffer == buffer and _overlap(f.span, span):
            return True
        if isinstance(f.origin, Const):
            return False
        name, start = f.origin
        return name == buffer and _overlap((start, start + f.span[1] - f.span[0]), span)


def _harmless(x: Access, dest: Access) -> bool:
    """Whether an operation may read `x` while it writes `dest` in the same array: in one direction or the other."""
    a, b = section(x), section(dest)
    return a is not None and b is not None and x.stride == dest.stride == 1


def _has_direction(s: Vector) -> bool:
    """Whether some order of the elements never reads what was already written."""
    dest = section(s.dest)
    same = [section(x) for x in s.sources if isinstance(x, Access) and x.buffer == s.dest.buffer]
    if not same or s.dest.stride != 1:
        return True
    if dest is None or None in same:
        return all(x == s.dest for x in s.sources if isinstance(x, Access) and x.buffer == s.dest.buffer)
    shifts = {a[0] - dest[0] for a in same if a is not None and _overlap(a, dest)}
    return not (min(shifts, default=0) < 0 < max(shifts, default=0))


def _reversed_if_needed(s: Vector) -> Vector:
    """Run from the end when a source of the same array lies below the destination."""
    dest = section(s.dest)
    if dest is None or s.dest.stride != 1:
        return s
    same = [section(x) for x in s.sources if isinstance(x, Access) and x.buffer == s.dest.buffer]
    behind = any(a is not None and a[0] < dest[0] and _overlap(a, dest) for a in same)
    return _mirrored(s) if behind else s


def _mirrored(s: Vector) -> Vector:
    sources = tuple(_flipped(x) if isinstance(x, Access) else x for x in s.sources)
    return replace(s, dest=_flipped(s.dest), sources=sources)


def _is_fixed(x: Access) -> bool:
    return fold.int_value(x.start) is not None and fold.int_value(x.count) is not None


def _flipped(x: Access) -> Access:
    start, count = fold.int_value(x.start), fold.int_value(x.count)
    assert start is not None
    assert count is not None
    return replace(x, start=fold.i32(start + (count - 1) * x.stride), stride=-x.stride)


# ------------------------------------------------------------------------------------------------------------ liveness


class _Liveness:
    """Steps 2 and 3: only what is needed, written where it is needed."""

    def __init__(self, private: frozenset[str], body: Body) -> None:
        self.private = private
        self.program = body

    def run(self) -> Body:
        """Process the whole program; at its end only exported arrays matter."""
        return self._body(self.program, {})[0]

    def _body(self, body: Body, live: dict[str, Spans]) -> tuple[Body, dict[str, Spans]]:
        """The body with unneeded parts removed, and what it needs, given what is needed after it."""
        needed = dict(live)
        after_last = needed
        out: list[Stmt] = []
        for s in reversed(body):
            new = self._statement(s, needed)
            if new is None:
                continue
            merged = self._retarget(new, out[-1], after_last) if out else None
            if merged is not None:
                out.pop()
                needed = dict(after_last)
                new = merged
            after_last = dict(needed)
            out.append(new)
            self._account(new, needed)
        return tuple(reversed(out)), needed

    def _statement(self, s: Stmt, needed: dict[str, Spans]) -> Stmt | None:
        match s:
            case Vector(dest=dest) if dest.buffer in self.private:
                return self._needed_part(s, needed.get(dest.buffer, Spans()))
            case Store(buffer=buffer, index=index) if buffer in self.private:
                return s if needed.get(buffer, Spans()).hull(_index_span(index)) is not None else None
            case For() | While():
                return self._loop(s, needed)
            case If():
                return with_bodies(s, tuple(self._body(b, needed)[0] for b in bodies(s)))
            case _:
                return s

    def _needed_part(self, s: Vector, needed: Spans) -> Vector | None:
        """The part of an operation that computes what is needed. No operation reads what it has written itself."""
        part = needed.hull(hull(s.dest))
        if part is None:
            return None
        whole = section(s.dest)
        if whole is None or part == whole or any(isinstance(x, Access) and not _is_fixed(x) for x in s.sources):
            return s
        forward = s if s.dest.stride == 1 else _mirrored(s)
        sources = tuple(part_of(x, whole, part) if isinstance(x, Access) else x for x in forward.sources)
        return _reversed_if_needed(replace(forward, dest=part_of(forward.dest, whole, part), sources=sources))

    def _loop(self, s: For | While, needed: dict[str, Spans]) -> Stmt:
        # What the next iteration needs: everything that the body reads before surely writing it.
        around = dict(needed)
        for b in bodies(s):
            for name, spans in exposed_sections(b, self.private).items():
                for part in spans.parts:
                    around[name] = around.get(name, Spans()).plus(part)
        for name, part in _reads(s, nested=False):
            around[name] = around.get(name, Spans()).plus(part)
        return with_bodies(s, tuple(self._body(b, around)[0] for b in bodies(s)))

    def _account(self, s: Stmt, needed: dict[str, Spans]) -> None:
        """Update what is needed before a statement."""
        match s:
            case Vector(dest=dest) if (span := section(dest)) is not None and dest.buffer in needed:
                needed[dest.buffer] = needed[dest.buffer].minus(span)
            case Store(buffer=buffer, index=index) if (at := fold.int_value(index)) is not None and buffer in needed:
                needed[buffer] = needed[buffer].minus((at, at + 1))
        for name, spans in exposed_sections((s,), self.private).items():
            for part in spans.parts:
                needed[name] = needed.get(name, Spans()).plus(part)

    def _retarget(self, s: Stmt, copy: Stmt, after: dict[str, Spans]) -> Stmt | None:
        """`op T; D = T` as `op D`, when T isn't needed after the copy."""
        if not (isinstance(s, Vector) and isinstance(copy, Vector) and copy.op is VecOp.MOVE and s.ty is copy.ty):
            return None
        if copy.sources != (s.dest,) or s.dest.buffer not in self.private or copy.dest.buffer == s.dest.buffer:
            return None
        if after.get(s.dest.buffer, Spans()).hull(hull(s.dest)) is not None:
            return None
        for x in s.sources:
            if not isinstance(x, Access) or x.buffer != copy.dest.buffer or x == copy.dest:
                continue
            if _overlap(hull(x), hull(copy.dest)):
                return None
        return replace(s, dest=copy.dest)


def exposed_sections(body: Body, private: frozenset[str]) -> dict[str, Spans]:
    """Elements of private arrays that a body may read before it has surely written them."""
    found: dict[str, Spans] = {}
    written: dict[str, Spans] = {}
    for s in body:
        reads = _reads(s, nested=False)
        for b in bodies(s):
            reads += [(name, part) for name, spans in exposed_sections(b, private).items() for part in spans.parts]
        for name, part in reads:
            if name in private and not written.get(name, Spans()).covers(part):
                found[name] = found.get(name, Spans()).plus(part)
        match s:
            case Vector(dest=dest) if (span := section(dest)) is not None:
                written[dest.buffer] = written.get(dest.buffer, Spans()).plus(span)
            case Store(buffer=buffer, index=index) if (at := fold.int_value(index)) is not None:
                written[buffer] = written.get(buffer, Spans()).plus((at, at + 1))
            case For():
                for buffer, span in _filled(s):
                    written[buffer] = written.get(buffer, Spans()).plus(span)
    return found


def _filled(s: For) -> list[tuple[str, Span]]:
    """Ranges that a scalar loop writes completely: an unconditional store at its variable, plus a constant."""
    start, stop = fold.int_value(s.start), fold.int_value(s.stop)
    if start is None or stop is None or s.step != 1 or escapes(s.body):
        return []
    found: list[tuple[str, Span]] = []
    for inner in s.body:
        if isinstance(inner, Store):
            index = linear(inner.index, {})
            if index.terms == ((Var(s.var, s.ty), 1),):
                found.append((inner.buffer, (start + index.constant, stop + index.constant)))
    return found
