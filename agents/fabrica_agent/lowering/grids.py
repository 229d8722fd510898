"""Whole loop nests as bulk operations over boxes of elements.

`vectorise` replaces one loop by one-dimensional operations. This pass takes a nest with constant bounds as a whole:
it runs every statement of the nest for all iterations before the next one (where `nest.distributes` proves that this
changes nothing), keeps per-iteration variables in arrays, turns conditions on loop variables into smaller boxes, sums
of products into multiply-adds of whole columns, and other reductions into folds of halves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.cost import cost
from fabrica_agent.lowering.emission import Emission, Work, row_major, whole
from fabrica_agent.lowering.flow import exposed
from fabrica_agent.lowering.forms import Ref, accumulated, maxima, regular_loops, without_branches, without_indices
from fabrica_agent.lowering.ir import (
    Assign,
    Body,
    Columns,
    Elementary,
    Expr,
    For,
    Grid,
    If,
    Load,
    Program,
    Reduce,
    Select,
    Stmt,
    Store,
    Ty,
    Var,
    Vector,
    While,
    assigned,
    bodies,
    children,
    names_in,
    read_names,
    substitute_expr,
    walk,
    walk_stmts,
    with_bodies,
)
from fabrica_agent.lowering.linear import Linear, build, linear_span
from fabrica_agent.lowering.names import Names
from fabrica_agent.lowering.nest import (
    Box,
    CannotDistributeError,
    Leaf,
    Loop,
    Use,
    affine,
    distributes,
    read_nest,
    split_select,
)
from fabrica_agent.lowering.ranges import Range
from fabrica_agent.lowering.scratch import Scratch


def grids(program: Program) -> Program:
    """The program with those nests replaced for which that pays by a rough estimate."""
    copy = replace(program, buffers=dict(program.buffers), types=dict(program.types), ranges=dict(program.ranges))
    copy.body = _Grids(copy).body(copy.body, frozenset())
    return copy


class _Grids:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = Names(program)
        self.scratch = Scratch(self.names, "work")

    def body(self, body: Body, live: frozenset[str]) -> Body:
        """Replace nests, outermost first. `live`: variables that may be read after the body."""
        out: list[Stmt] = []
        for index, s in enumerate(body):
            after = live | frozenset(exposed(body[index + 1 :]))
            if isinstance(s, For):
                new = self._nest(s, after)
                if new is not None:
                    out.extend(new)
                    continue
                after |= frozenset(exposed(s.body))
            elif isinstance(s, While):
                after |= frozenset(exposed((s,))) | read_names((s,))
            out.append(with_bodies(s, tuple(self.body(b, after) for b in bodies(s))))
        return tuple(out)

    def _nest(self, s: For, live: frozenset[str]) -> Body | None:
        return self._attempt(s, live) or self._attempt(
            replace(s, body=without_branches(without_indices(s.body, live))), live
        )

    def _attempt(self, s: For, live: frozenset[str]) -> Body | None:
        known = set(self.program.buffers), set(self.program.types)
        try:
            new = _Nest(self, s, live).run()
        except CannotDistributeError:
            new = None
        env = self.program.ranges
        if new is None or cost(new, env) >= cost((s,), env):
            for name in set(self.program.buffers) - known[0]:
                del self.program.buffers[name]
            for name in set(self.program.types) - known[1]:
                del self.program.types[name]
            self.scratch.forget_removed()
            return None
        return new


class _Nest(Emission):
    """One attempt at a nest."""

    def __init__(self, owner: _Grids, loop: For, live: frozenset[str]) -> None:
        self.owner = owner
        self.names = owner.names
        self.program = owner.program
        self.env: Mapping[str, Range] = owner.program.ranges
        body = maxima(without_indices(loop.body, live))
        (regular,) = regular_loops((replace(loop, body=body),), self.env, self.names)
        assert isinstance(regular, For)
        self.leaves = read_nest(regular, self.env)
        self.live = live
        self.places: dict[str, Ref | None] = {}
        self.out: list[Stmt] = []
        self.taken: list[str] = []
        self.box: Box = {}
        self.loops: tuple[Loop, ...] = ()

    def run(self) -> Body:
        """The bulk form.

        Raises:
            CannotDistributeError: There is none.
        """
        if not self.leaves or len(self.leaves) > 64:
            raise CannotDistributeError("too many statements")
        self._place_variables()
        work = [self._work(leaf) for leaf in self.leaves]
        if not distributes(self.leaves, [u for i, w in enumerate(work) for u in self._uses(i, w)]):
            raise CannotDistributeError("iterations depend on each other")
        held = list(self.taken)
        for leaf, w in zip(self.leaves, work, strict=True):
            self.loops = leaf.loops
            before = len(self.out)
            self._emit(w, leaf.box)
            if leaf.guards:
                guarded: Body = tuple(self.out[before:])
                for guard in reversed(leaf.guards):
                    guarded = (If(guard, guarded),)
                self.out[before:] = guarded
            self._release(held)
        self.owner.scratch.give_back(held)
        return tuple(self.out)

    def _release(self, held: list[str]) -> None:
        self.owner.scratch.give_back(name for name in self.taken if name not in held)
        self.taken = list(held)

    def _temporary(self, ty: Ty, length: int) -> str:
        name = self.owner.scratch.take(ty, length)
        if name is None:
            raise CannotDistributeError("too much scratch memory")
        self.taken.append(name)
        return name

    # ------------------------------------------------------------------------------------------- variables

    def _place_variables(self) -> None:
        names = dict.fromkeys(s.statement.name for s in self.leaves if isinstance(s.statement, Assign))
        for name in names:
            if not self.program.types[name].is_float:
                raise CannotDistributeError("an integer variable")
            self.places[name] = None
        for name in names:
            self.places[name] = self._place(name)
        self.leaves = [s for s in self.leaves if not self._is_settled(s)]

    def _place(self, name: str) -> Ref | None:
        touching = [s for s in self.leaves if name in assigned((s.statement,)) | read_names((s.statement,))]
        first = touching[0]
        if not isinstance(first.statement, Assign) or first.statement.name != name:
            raise CannotDistributeError("a variable is carried from one iteration to the next")
        if name in names_in(first.statement.value):
            if len(touching) > 1:
                raise CannotDistributeError("a running value is read")
            return None
        if name in self.live:
            raise CannotDistributeError("a variable of the nest is read after it")
        home = first.loops
        if any(s.loops[: len(home)] != home for s in touching) or first.box != whole(home) or first.guards:
            raise CannotDistributeError("a variable is set in some iterations only")
        stored = self._stored(name, touching, home)
        if stored is not None:
            return stored
        length = 1
        for loop in home:
            length *= loop.count
        return Ref(self._temporary(self.program.types[name], length), row_major(home))

    def _stored(self, name: str, touching: Sequence[Leaf], home: tuple[Loop, ...]) -> Ref | None:
        """The place where a variable's value is stored in the end, if it can live there from the start."""
        last = touching[-1].statement
        if not isinstance(last, Store) or last.value != Var(name, self.program.types[name]):
            return None
        if touching[-1].loops != home or touching[-1].box != whole(home) or touching[-1].guards:
            return None
        if self.program.buffers[last.buffer].ty is not self.program.types[name]:
            return None
        if any(last.buffer in _mentioned(s.statement) for s in self.leaves if s is not touching[-1]):
            return None
        form = affine(last.index, home, self._within(whole(home)))
        return Ref(last.buffer, form) if _injective(form, home) else None

    def _is_settled(self, leaf: Leaf) -> bool:
        """Whether a store only puts a variable where it lives anyway."""
        s = leaf.statement
        if not isinstance(s, Store) or not isinstance(s.value, Var):
            return False
        place = self.places.get(s.value.name)
        return place is not None and place.buffer == s.buffer

    def _resolved(self, e: Expr) -> Expr:
        """An expression with variables of the nest as array elements."""
        mapping: dict[str, Expr] = {}
        for name in names_in(e) & set(self.places):
            place = self.places[name]
            if place is not None:
                mapping[name] = Load(place.buffer, build(place.form), self.program.types[name])
        return substitute_expr(e, mapping)

    # ----------------------------------------------------------------------------------------------- leaves

    def _work(self, leaf: Leaf) -> Work:
        s = leaf.statement
        value = self._resolved(s.value)
        self.loops = leaf.loops
        self.box = leaf.box
        target: Ref | str
        if isinstance(s, Assign):
            place = self.places[s.name]
            ty = self.program.types[s.name]
            if place is None:
                operation, rest = accumulated(value, Var(s.name, ty), None)
                if operation is None or s.name in names_in(rest):
                    raise CannotDistributeError("a running value of another kind")
                return Work(s.name, rest, operation, ty)
            target = place
        else:
            ty = self.program.buffers[s.buffer].ty
            target = Ref(s.buffer, affine(s.index, leaf.loops, self._within(leaf.box)))
        if _injective_in(target.form, leaf):
            return Work(target, value, None, ty)
        operation, rest = accumulated(value, None, (target, leaf.loops, self._within(leaf.box)))
        if operation is None:
            raise CannotDistributeError("all iterations write one element")
        return Work(target, rest, operation, ty)

    def _uses(self, index: int, w: Work) -> list[Use]:
        leaf = self.leaves[index]
        found = [
            Use(n.buffer, affine(n.index, leaf.loops, self._within(part)), index, "read", part)
            for n, part in self._loads(w.value, leaf.box)
        ]
        for use in found:
            self._check_inside(use, leaf)
        if isinstance(w.target, Ref):
            kind = "write" if w.reduction is None else w.reduction.value
            found.append(Use(w.target.buffer, w.target.form, index, kind))
        return found

    def _check_inside(self, use: Use, leaf: Leaf) -> None:
        """A value that is computed for more iterations than before must not be read from outside its array."""
        length = fold.int_value(self.program.buffers[use.buffer].length or fold.i32(0))
        low, high = linear_span(use.form, self._within(use.box or leaf.box))
        known = {loop.var for loop in leaf.loops}
        own = all(isinstance(a, Var) and a.name in known for a, _ in use.form.terms)
        if own and length is not None and not (low >= 0 and high < length):
            raise CannotDistributeError("an index outside the array")

    def _loads(self, e: Expr, box: Box) -> list[tuple[Load, Box]]:
        """The array elements that an expression reads, and the part of the box in which it does."""
        if isinstance(e, Select):
            try:
                return [x for value, part in split_select(e, box, self.env) for x in self._loads(value, part)]
            except CannotDistributeError:
                pass  # a choice by data reads both sides
        found = [(e, box)] if isinstance(e, Load) else []
        return found + [x for kid in children(e) for x in self._loads(kid, box)]

    def _emit(self, w: Work, box: Box) -> None:
        if w.reduction is None:
            assert isinstance(w.target, Ref)
            reads = {n.buffer for n in walk(w.value) if isinstance(n, Load)}
            self._compute(w.value, w.target, box, spare=w.target.buffer not in reads, ty=w.ty)
        else:
            self._reduction(w, box)


def _mentioned(s: Assign | Store) -> set[str]:
    found = {n.buffer for e in ((s.value, s.index) if isinstance(s, Store) else (s.value,)) for n in walk(e)
             if isinstance(n, Load)}  # fmt: skip
    return found | ({s.buffer} if isinstance(s, Store) else set())


def _injective(form: Linear, loops: Sequence[Loop]) -> bool:
    """Whether an index is different in every iteration."""
    return _distinct([(form.of(x.var), x.first, x.count) for x in loops])


def _injective_in(form: Linear, leaf: Leaf) -> bool:
    return _distinct(
        [(form.of(x.var), leaf.box[x.var][0], leaf.box[x.var][1] - leaf.box[x.var][0]) for x in leaf.loops]
    )


def _distinct(axes: Sequence[tuple[int, int, int]]) -> bool:
    total = 1
    for _, _, count in axes:
        total *= count
    if total > 1 << 20:
        raise CannotDistributeError("too many iterations to compare")
    if any(factor == 0 and count > 1 for factor, _, count in axes):
        return False
    places = np.zeros(1, np.int64)
    for factor, _, count in axes:
        places = (places[:, None] + factor * np.arange(count, dtype=np.int64)[None, :]).ravel()
    return bool(np.unique(places).size == places.size)


def uses_bulk(body: Body) -> bool:
    """Whether a body has any bulk operation."""
    return any(isinstance(s, Vector | Reduce | Grid | Columns | Elementary) for s in walk_stmts(body))
