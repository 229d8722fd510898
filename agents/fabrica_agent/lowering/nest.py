"""Loop nests with constant bounds, as statements over boxes of iterations.

A nest is read into leaves: assignments and stores, each with the loops around it and the box of their iterations in
which it runs. Conditions on single loop variables become bounds of the box. `distributes` decides exactly, by
enumerating the iterations, whether each leaf may run for all iterations before the next one starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Assign,
    Bin,
    Body,
    Expr,
    For,
    If,
    Load,
    Op,
    Select,
    Store,
    Un,
    Var,
    assigned,
    names_in,
    walk,
)
from fabrica_agent.lowering.linear import Linear, linear
from fabrica_agent.lowering.ranges import Range

MAX_POINTS = 1 << 19
"""Iterations that the dependence test enumerates at most."""

Box = dict[str, Range]
"""Half-open range of each loop variable."""


class CannotDistributeError(Exception):
    """The nest has no form in bulk operations; the reason is for debugging."""


@dataclass(frozen=True)
class Loop:
    """A loop with constant bounds: `count` iterations from `first` on."""

    var: str
    first: int
    count: int


@dataclass
class Leaf:
    """A statement of the nest.

    Attributes:
        statement: An `Assign` or a `Store`.
        loops: The loops around it, outermost first.
        box: Iterations in which it runs.
        schedule: Positions among its siblings at each depth, outermost first; one more than there are loops.
        guards: Conditions that don't change in the nest, all of which must hold.
    """

    statement: Assign | Store
    loops: tuple[Loop, ...]
    box: Box
    schedule: tuple[int, ...]
    guards: tuple[Expr, ...] = ()


def read_nest(loop: For, env: Mapping[str, Range]) -> list[Leaf]:
    """The leaves of a nest in order.

    Raises:
        CannotDistributeError: A bound isn't constant, or a statement or condition is of another kind.
    """
    leaves: list[Leaf] = []
    changing = assigned((loop,))
    _read((loop,), (), {}, (), env, leaves, changing=changing)
    return leaves


def _read(
    body: Body,
    loops: tuple[Loop, ...],
    box: Box,
    schedule: tuple[int, ...],
    env: Mapping[str, Range],
    out: list[Leaf],
    base: int = 0,
    *,
    changing: frozenset[str],
    guards: tuple[Expr, ...] = (),
) -> int:
    position = base
    for s in body:
        match s:
            case For(var=var, start=start, stop=stop, step=step):
                low, high = fold.int_value(start), fold.int_value(stop)
                if low is None or high is None or step != 1:
                    raise CannotDistributeError("a bound that isn't constant")
                if high <= low:
                    continue
                inner = Loop(var, low, high - low)
                within = {**box, var: (low, high)}
                _read(
                    s.body, (*loops, inner), within, (*schedule, position), env, out, changing=changing, guards=guards
                )
            case If(cond=cond, then=then, other=other) if _is_fixed(cond, changing):
                for side, guard in ((then, cond), (other, fold.logical_not(cond))):
                    inside = (*guards, guard)
                    position = _read(side, loops, box, schedule, env, out, position, changing=changing, guards=inside)
            case If(cond=cond, then=then, other=other):
                for side, part in ((then, _inside(cond, box, env)), (other, _outside(cond, box, env) if other else ())):
                    for piece in part:
                        position = _read(
                            side, loops, piece, schedule, env, out, position, changing=changing, guards=guards
                        )
            case Assign() | Store():
                out.append(Leaf(s, loops, dict(box), (*schedule, position), guards))
            case _:
                raise CannotDistributeError(f"{type(s).__name__} in the nest")
        position += 1
    return position


def _is_fixed(cond: Expr, changing: frozenset[str]) -> bool:
    return not names_in(cond) & changing and not any(isinstance(n, Load) for n in walk(cond))


def _inside(cond: Expr, box: Box, env: Mapping[str, Range]) -> tuple[Box, ...]:
    """The part of a box in which a condition holds, as disjoint boxes."""
    if isinstance(cond, Bin) and cond.op is Op.LAND:
        return tuple(q for p in _inside(cond.a, box, env) for q in _inside(cond.b, p, env))
    if isinstance(cond, Bin) and cond.op is Op.LOR:
        first = _inside(cond.a, box, env)
        return (*first, *(q for p in _outside(cond.a, box, env) for q in _inside(cond.b, p, env)))
    if isinstance(cond, Un) and cond.op == "!":
        return _outside(cond.a, box, env)
    return _half(cond, box, env, True)


def _outside(cond: Expr, box: Box, env: Mapping[str, Range]) -> tuple[Box, ...]:
    if isinstance(cond, Bin) and cond.op is Op.LAND:
        first = _outside(cond.a, box, env)
        return (*first, *(q for p in _inside(cond.a, box, env) for q in _outside(cond.b, p, env)))
    if isinstance(cond, Bin) and cond.op is Op.LOR:
        return tuple(q for p in _outside(cond.a, box, env) for q in _outside(cond.b, p, env))
    if isinstance(cond, Un) and cond.op == "!":
        return _inside(cond.a, box, env)
    return _half(cond, box, env, False)


def _half(cond: Expr, box: Box, env: Mapping[str, Range], truth: bool) -> tuple[Box, ...]:
    known = fold.int_value(cond)
    if known is not None:
        return (box,) if bool(known) is truth else ()
    if not isinstance(cond, Bin) or not cond.a.ty.is_int:
        raise CannotDistributeError("a condition that isn't a bound")
    ranges = {**env, **{v: (a, b - 1) for v, (a, b) in box.items()}}
    form = linear(cond.a, ranges).plus(linear(cond.b, ranges), -1)
    if len(form.terms) != 1 or not isinstance(form.terms[0][0], Var) or form.terms[0][0].name not in box:
        raise CannotDistributeError("a condition on more than one variable")
    (atom, factor), constant = form.terms[0], form.constant
    assert isinstance(atom, Var)
    low, high = box[atom.name]
    holds = [v for v in range(low, high) if _compare(cond.op, factor * v + constant) is truth]
    return tuple({**box, atom.name: run} for run in _runs(holds))


def _compare(op: Op, difference: int) -> bool:
    match op:
        case Op.LT:
            return difference < 0
        case Op.LE:
            return difference <= 0
        case Op.GT:
            return difference > 0
        case Op.GE:
            return difference >= 0
        case Op.EQ:
            return difference == 0
        case Op.NE:
            return difference != 0
        case _:
            raise CannotDistributeError("a condition that isn't a comparison")


def _runs(values: Sequence[int]) -> list[Range]:
    runs: list[Range] = []
    for v in values:
        if runs and runs[-1][1] == v:
            runs[-1] = (runs[-1][0], v + 1)
        else:
            runs.append((v, v + 1))
    return runs


def split_select(e: Select, box: Box, env: Mapping[str, Range]) -> list[tuple[Expr, Box]]:
    """A choice by loop variables as its values over parts of the box."""
    return [
        *((e.a, part) for part in _inside(e.cond, box, env)),
        *((e.b, part) for part in _outside(e.cond, box, env)),
    ]


# ---------------------------------------------------------------------------------------------------- dependences


@dataclass(frozen=True)
class Use:
    """An access to an array by a leaf.

    Attributes:
        buffer: The array.
        form: Element index over the loop variables.
        leaf: Which leaf.
        kind: `read`, `write`, or the name of an operation whose repetitions commute.
        box: The part of the leaf's iterations in which it happens; None for all.
    """

    buffer: str
    form: Linear
    leaf: int
    kind: str
    box: Box | None = None


def distributes(leaves: Sequence[Leaf], uses: Sequence[Use]) -> bool:
    """Whether every element is read and written in the same order if each leaf runs as a whole, reads before writes."""
    by_buffer: dict[str, list[Use]] = {}
    for use in uses:
        by_buffer.setdefault(use.buffer, []).append(use)
    for group in by_buffer.values():
        if any(u.kind != "read" for u in group) and not _same_order(leaves, group):
            return False
    return True


def _same_order(leaves: Sequence[Leaf], group: Sequence[Use]) -> bool:
    addresses, before, after, kinds = [], [], [], []
    names = {"read": 0, "write": 1}
    limits = _radices(leaves)
    for u in group:
        leaf = leaves[u.leaf]
        points = _points(leaf, u.box or leaf.box)
        size = next(iter(points.values())).size if points else 1
        if size > MAX_POINTS:
            raise CannotDistributeError("too many iterations to compare")
        place = np.full(size, u.form.constant, np.int64)
        base: list[tuple[Expr, int]] = []
        for atom, factor in u.form.terms:
            if isinstance(atom, Var) and atom.name in points:
                place += factor * points[atom.name]
            else:
                base.append((atom, factor))
        if base and any(other.form.terms and _rest(other, leaves) != _rest(u, leaves) for other in group):
            raise CannotDistributeError("places that can't be compared")
        late = 0 if u.kind == "read" else 1
        addresses.append(place)
        before.append(_times(leaf, points, limits, size) * 2 + late)
        after.append(np.full(size, u.leaf * 2 + late, np.int64))
        kinds.append(np.full(size, names.setdefault(u.kind, len(names)), np.int64))
    place, old, new, kind = (np.concatenate(x) for x in (addresses, before, after, kinds))
    return bool((_epochs(place, old, kind) == _epochs(place, new, kind)).all())


def _rest(u: Use, leaves: Sequence[Leaf]) -> frozenset[tuple[Expr, int]]:
    own = {loop.var for loop in leaves[u.leaf].loops}
    return frozenset((a, c) for a, c in u.form.terms if not (isinstance(a, Var) and a.name in own))


def _points(leaf: Leaf, box: Box) -> dict[str, npt.NDArray[np.int64]]:
    """Values of the loop variables in all iterations of a part of a leaf, in order."""
    if not leaf.loops:
        return {}
    axes = [np.arange(*box[loop.var], dtype=np.int64) for loop in leaf.loops]
    total = 1
    for axis in axes:
        total *= axis.size
    if total > MAX_POINTS:
        raise CannotDistributeError("too many iterations to compare")
    grids = np.meshgrid(*axes, indexing="ij")
    return {loop.var: g.ravel() for loop, g in zip(leaf.loops, grids, strict=True)}


def _radices(leaves: Sequence[Leaf]) -> tuple[int, int, int]:
    depth = max(len(leaf.schedule) for leaf in leaves)
    positions = 1 + max(p for leaf in leaves for p in leaf.schedule)
    trips = 1 + max((loop.count for leaf in leaves for loop in leaf.loops), default=1)
    return depth, positions, trips


def _times(
    leaf: Leaf, points: Mapping[str, npt.NDArray[np.int64]], limits: tuple[int, int, int], size: int
) -> npt.NDArray[np.int64]:
    """When each iteration of a leaf runs in the nest, as a number."""
    depth, positions, trips = limits
    time = np.zeros(size, np.int64)
    for level in range(depth):
        time = time * positions + (leaf.schedule[level] if level < len(leaf.schedule) else 0)
        if level < len(leaf.loops):
            loop = leaf.loops[level]
            time = time * trips + (points[loop.var] - loop.first)
        else:
            time = time * trips
    return time


def _epochs(
    place: npt.NDArray[np.int64], time: npt.NDArray[np.int64], kind: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """For each access, what it finds: the last access before it, at its place, that isn't of its own commuting kind.

    Reads find the last change; a change finds the last access of another kind. Two orders in which every access finds
    the same give the same contents.
    """
    order = np.lexsort((time, place))
    p, k = place[order], kind[order]
    n = p.size
    # A block is a run of accesses at one place of one commuting kind; plain writes are blocks of their own.
    starts = np.ones(n, bool)
    starts[1:] = (p[1:] != p[:-1]) | (k[1:] != k[:-1]) | (k[1:] == 1)
    block = np.cumsum(starts) - 1
    # Name each block by its least member, so that equal sets have equal names.
    least = np.full(block[-1] + 1, n, np.int64)
    np.minimum.at(least, block, order)
    sizes = np.bincount(block)
    name = least * (n + 1) + sizes
    first = np.zeros(block[-1] + 1, bool)
    first[0] = True
    block_place = np.zeros(block[-1] + 1, np.int64)
    block_place[block] = p
    first[1:] = block_place[1:] != block_place[:-1]
    previous = np.where(first, -1, np.roll(name, 1))
    found = np.empty(n, np.int64)
    found[order] = previous[block] * 2 + 1
    mine = np.empty(n, np.int64)
    mine[order] = name[block]
    return found * 31 + mine


def affine(index: Expr, loops: Sequence[Loop], env: Mapping[str, Range]) -> Linear:
    """The linear form of an index over the loops; other variables may stand in it as constants.

    Raises:
        CannotDistributeError: It isn't linear in them.
    """
    ranges = {**{loop.var: (loop.first, loop.first + loop.count - 1) for loop in loops}, **env}
    form = linear(index, ranges)
    variables = {loop.var for loop in loops}
    for atom, _ in form.terms:
        if not isinstance(atom, Var) and names_in(atom) & variables:
            raise CannotDistributeError("an index that isn't linear")
        if any(isinstance(n, Load) for n in walk(atom)):
            raise CannotDistributeError("an index read from memory")
    return form
