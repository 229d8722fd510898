"""From threads to loops: a launch becomes loops over blocks and threads that one PE can run.

A barrier interval (the code between two barriers) becomes one loop over the threads of the block; an interval with warp
functions becomes a loop over warps, and the code between two warp functions a loop over lanes. Control flow that
contains a barrier is kept outside these loops. Where its condition has one value for the whole team (block or warp), it
stays as it is; otherwise (threads that left early) masks keep the others out. A per-thread variable that lives in more
than one interval becomes an array with one element per thread, and so does one that other threads read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.atomics import lower_atomics
from fabrica_agent.lowering.flow import exposed
from fabrica_agent.lowering.ir import (
    BLOCK,
    THREAD,
    Assign,
    Atomic,
    Barrier,
    Body,
    Break,
    Cast,
    Const,
    Continue,
    Expr,
    For,
    If,
    LaneRead,
    Launch,
    Load,
    Op,
    Parallel,
    Param,
    Program,
    Select,
    Space,
    Stmt,
    Store,
    Ty,
    Var,
    While,
    assigned,
    bodies,
    body_exprs,
    map_body,
    map_expr,
    map_stmts,
    read_buffers,
    read_names,
    stmt_exprs,
    substitute,
    walk,
    walk_stmts,
    with_bodies,
    written_buffers,
)  # fmt: skip
from fabrica_agent.lowering.linear import Linear, build, linear
from fabrica_agent.lowering.names import Names
from fabrica_agent.lowering.normalise import normalise

WARP = 32


def serialise(program: Program) -> Program:
    """The same program without launches, barriers, atomics and lane reads."""
    copy = replace(program, buffers=dict(program.buffers), types=dict(program.types))
    copy.body = _host(copy.body, Names(copy))
    return copy


def _host(body: Body, names: Names) -> Body:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Launch):
            out.extend(_launch(s, names))
        else:
            out.append(with_bodies(s, tuple(_host(b, names) for b in bodies(s))))
    return tuple(out)


def _launch(launch: Launch, names: Names) -> Body:
    """Loops over blocks around the serialised body of a kernel."""
    sizes = launch.block
    env = {name: (0, size - 1) for name, size in zip(THREAD, sizes, strict=True)}
    body = normalise(launch.body, env, keep_types=True)
    index = Linear((), 0)
    scale = 1
    for name, size in zip(THREAD, sizes, strict=True):
        index = index.plus(Linear(((Var(name, Ty.U32), scale),), 0))
        scale *= size
    team = _Team("block", tuple(zip(THREAD, sizes, strict=True)), build(index), scale)
    out = _TeamSerialiser(body, team, names, None).run()
    # x varies fastest, as on the GPU; the order doesn't matter to legal programs.
    for axis, extent in zip(BLOCK, launch.grid, strict=True):
        out = axis_loop(axis, fold.cast(extent, Ty.I32), out, names, Parallel.BLOCK)
    return out


def axis_loop(axis: str, size: Expr, body: Body, names: Names, parallel: Parallel) -> Body:
    """A loop in place of a thread or block index; an index that can only be 0 is replaced by it."""
    if fold.int_value(size) == 1:
        return substitute(body, {axis: fold.const(0, Ty.U32)})
    if not body:
        return body
    name = axis.rpartition(".")[2]
    base = f"{parallel.value}_{name}" if len(name) == 1 else name
    var = names.variable(base, Ty.I32)
    return (For(var.name, Ty.I32, fold.i32(0), size, 1, substitute(body, {axis: Cast(var, Ty.U32)}), parallel),)


@dataclass(frozen=True, slots=True)
class _Team:
    """Threads that meet at barriers of a scope: those of a block, or of a warp.

    Attributes:
        scope: Barriers of this scope (and, for warps, all that are left) separate intervals.
        axes: Index variables and their sizes, fastest first.
        index: Linear index of a thread in the team, as an expression of the axes.
        threads: Number of threads.
    """

    scope: str
    axes: tuple[tuple[str, int], ...]
    index: Expr
    threads: int


@dataclass(frozen=True, slots=True)
class _Interval:
    """Code of all threads between two barriers; threads for which the mask doesn't hold sit it out."""

    body: Body
    mask: Expr


@dataclass(frozen=True, slots=True)
class _Branch:
    """A compound statement at barrier level, with its bodies as trees."""

    statement: Stmt
    branches: tuple[_Tree, ...]


@dataclass(frozen=True, slots=True)
class _Loop:
    """The innermost loop that contains a barrier, as `break` and `continue` see it.

    `alive` is the mask of threads still in the loop and `active` that of threads still in this iteration; both are None
    for a uniform loop. `masks` are those of the conditions entered since.
    """

    alive: str | None = None
    active: str | None = None
    masks: tuple[str, ...] = ()


_Node = _Interval | _Branch | Assign | Break | Continue
_Tree = tuple[_Node, ...]
_Context = tuple[tuple[int, int, int], ...]
"""Where a statement stands, as the divergent branches and loops around it."""


class _TeamSerialiser:
    """Serialises the body of a kernel for one team."""

    def __init__(self, body: Body, team: _Team, names: Names, outer: frozenset[str] | None) -> None:
        self.body = body
        self.team = team
        self.names = names
        self.axes = frozenset(name for name, _ in team.axes)
        self.written = written_buffers(body)
        # Inside a block's interval, only variables that live nowhere else are this serialiser's business.
        self.own = assigned(body) if outer is None else assigned(body) - outer
        self.foreign = outer or frozenset()
        self.uniform = self._uniform_variables()
        self.arrays: dict[str, str] = {}
        self.spread: dict[str, str] = {}
        self.team_scalars: set[str] = set()

    def run(self) -> Body:
        """The serialised body."""
        tree = self._region(self.body, fold.TRUE, _Loop())
        intervals = list(_intervals(tree, in_loop=False))
        self._expand_variables(intervals)
        self._expand_local_arrays(intervals)
        return self._emit(tree)

    def _synchronises(self, s: Stmt) -> bool:
        """Whether a statement contains a barrier of this team, or leaves the enclosing loop."""
        if isinstance(s, Barrier):
            return self.team.scope == "warp" or s.scope == "block"
        if isinstance(s, Break | Continue):
            return True
        if isinstance(s, If):
            return any(self._synchronises(x) for b in bodies(s) for x in b)
        return any(isinstance(x, Barrier) and self._synchronises(x) for b in bodies(s) for x in walk_stmts(b))

    # --------------------------------------------------------------------------------------------- uniform variables

    def _uniform_variables(self) -> set[str]:
        """Variables with one value for the whole team, assigned only outside the thread loops.

        Starts with all that are assigned nowhere but at barrier level, and removes until nothing changes.
        """
        candidates, inner = self._levels(self.body, True)
        uniform = (candidates & self.own) - inner
        while True:
            removed: set[str] = set()
            self._find_divergent(uniform, removed)
            if not removed & uniform:
                return uniform
            uniform -= removed

    def _levels(self, body: Body, synced: bool) -> tuple[set[str], set[str]]:
        outer: set[str] = set()
        inner: set[str] = set()
        for s in body:
            sync = synced and bool(bodies(s)) and self._synchronises(s)
            match s:
                case Assign(name=name):
                    (outer if synced else inner).add(name)
                case Atomic(result=str() as name):
                    inner.add(name)
                case For(var=name):
                    (outer if sync else inner).add(name)
            for b in bodies(s):
                o, i = self._levels(b, sync)
                outer |= o
                inner |= i
        return outer, inner

    def _find_divergent(self, uniform: set[str], removed: set[str]) -> None:
        """Collect candidates that aren't uniform after all, given what still counts as uniform.

        A variable assigned under a condition that differs between threads may stay when its whole life is under that
        condition: it is then the same for all threads that use it.
        """
        writes: dict[str, set[_Context]] = {}
        reads: dict[str, set[_Context]] = {}
        self._visit_contexts(self.body, (), uniform, removed, writes, reads)
        for name, contexts in writes.items():
            home = next(iter(contexts))
            if len(contexts) > 1 or any(c[: len(home)] != home for c in reads.get(name, ())):
                removed.add(name)

    def _visit_contexts(
        self,
        body: Body,
        context: _Context,
        uniform: set[str],
        removed: set[str],
        writes: dict[str, set[_Context]],
        reads: dict[str, set[_Context]],
    ) -> None:
        for index, s in enumerate(body):
            compound = bool(bodies(s)) and self._synchronises(s)
            mentioned = {n.name for e in stmt_exprs(s) for n in walk(e) if isinstance(n, Var | LaneRead)}
            for name in mentioned if compound else read_names((s,)):
                reads.setdefault(name, set()).add(context)
            if isinstance(s, Assign):
                writes.setdefault(s.name, set()).add(context)
                if not self._even(s.value, uniform):
                    removed.add(s.name)
            if not compound:
                continue
            even = all(self._even(e, uniform) for e in stmt_exprs(s))
            if not isinstance(s, If):
                even = even and self._escapes_evenly(bodies(s)[0], uniform)
            if isinstance(s, For) and not even:
                removed.add(s.var)
            for branch, b in enumerate(bodies(s)):
                inner = context if even else (*context, (id(body), index, branch if isinstance(s, If) else 0))
                self._visit_contexts(b, inner, uniform, removed, writes, reads)

    def _even(self, e: Expr, uniform: set[str]) -> bool:
        """Whether an expression has one value for all threads of the team."""
        for node in walk(e):
            match node:
                case Var(name=name) if name in self.axes or (name in self.own and name not in uniform):
                    return False
                case Var(name=name) if name in self.foreign:
                    return False
                case LaneRead():
                    return False
                case Load(buffer=buffer) if buffer in self.written:
                    return False
        return True

    def _escapes_evenly(self, body: Body, uniform: set[str], control: bool = True) -> bool:
        """Whether all threads leave a loop together."""
        for s in body:
            if isinstance(s, Break | Continue) and not control:
                return False
            if isinstance(s, If):
                even = control and self._even(s.cond, uniform)
                if not all(self._escapes_evenly(b, uniform, even) for b in bodies(s)):
                    return False
        return True

    # ------------------------------------------------------------------------------------------------ barrier level

    def _region(self, body: Body, mask: Expr, loop: _Loop) -> _Tree:
        """Split statements at barriers."""
        out: list[_Node] = []
        run: list[Stmt] = []

        def flush() -> None:
            if run:
                out.append(_Interval(tuple(run), mask))
                run.clear()

        for s in body:
            if isinstance(s, Barrier) and self._synchronises(s):
                flush()
            elif isinstance(s, Break | Continue):
                flush()
                out.extend(self._escape(s, mask, loop))
            elif bodies(s) and self._synchronises(s):
                flush()
                out.extend(self._compound(s, mask, loop))
            elif isinstance(s, Assign) and s.name in self.uniform:
                # Evaluated once, ahead of the pending statements unless they read the old value.
                if s.name in read_names(tuple(run)):
                    flush()
                out.append(s)
            else:
                run.append(s)
        flush()
        return tuple(out)

    def _escape(self, s: Break | Continue, mask: Expr, loop: _Loop) -> list[_Node]:
        if loop.active is None:
            return [s]
        off = [*loop.masks, loop.active]
        if isinstance(s, Break) and loop.alive is not None:
            off.append(loop.alive)
        return [_Interval(tuple(Assign(m, fold.FALSE) for m in off), mask)]

    def _compound(self, s: Stmt, mask: Expr, loop: _Loop) -> _Tree:
        match s:
            case If():
                return self._if(s, mask, loop)
            case For() if s.var in self.uniform:
                return (_Branch(s, (self._region(s.body, mask, _Loop()),)),)
            case For():
                var = Var(s.var, s.ty)
                advance = fold.binary(Op.ADD, var, fold.const(s.step, s.ty), s.ty)
                cond = fold.binary(Op.LT if s.step > 0 else Op.GT, var, s.stop, Ty.BOOL)
                start: _Node = _Interval((Assign(s.var, s.start),), mask)
                return (start, *self._while(While(cond, s.body, (Assign(s.var, advance),)), mask))
            case While():
                return self._while(s, mask)
            case _:
                raise AssertionError(s)

    def _if(self, s: If, mask: Expr, loop: _Loop) -> _Tree:
        if self._even(s.cond, self.uniform):
            return (_Branch(s, (self._region(s.then, mask, loop), self._region(s.other, mask, loop))),)
        if loop.active is None and self._stable(s.cond):
            # A condition on the thread index alone can be evaluated again in each interval.
            then = self._region(s.then, fold.logical_and(mask, s.cond), loop)
            return then + self._region(s.other, fold.logical_and(mask, fold.logical_not(s.cond)), loop)
        yes = self._mask("taken")
        compute: list[Stmt] = [Assign(yes.name, fold.logical_and(mask, s.cond))]
        tail: _Tree = ()
        if s.other:
            no = self._mask("skipped")
            compute.append(Assign(no.name, fold.logical_and(mask, fold.logical_not(yes))))
            tail = self._region(s.other, no, replace(loop, masks=(*loop.masks, no.name)))
        then = self._region(s.then, yes, replace(loop, masks=(*loop.masks, yes.name)))
        return (_Interval(tuple(compute), fold.TRUE), *then, *tail)

    def _stable(self, e: Expr) -> bool:
        fixed = Const | Param | Cast | Select
        return all(
            isinstance(n, fixed) or type(n).__name__ in ("Bin", "Un")
            or (isinstance(n, Var) and (n.name in self.axes or n.name not in self.own | self.foreign))
            for n in walk(e)
        )  # fmt: skip

    def _while(self, s: While, mask: Expr) -> _Tree:
        if self._even(s.cond, self.uniform) and self._escapes_evenly(s.body, self.uniform):
            return (_Branch(s, (self._region(s.body, mask, _Loop()), self._region(s.step, mask, _Loop()))),)
        alive, active = self._mask("alive"), self._mask("active")
        some = self.names.variable("any_alive", Ty.BOOL)
        self.team_scalars.add(some.name)
        count: _Tree = (
            Assign(some.name, fold.FALSE), _Interval((If(alive, (Assign(some.name, fold.TRUE),)),), fold.TRUE)
        )  # fmt: skip
        enter = _Interval((Assign(alive.name, fold.logical_and(mask, s.cond)),), fold.TRUE)
        body = self._region(s.body, active, _Loop(alive.name, active.name))
        step = self._region(s.step, alive, _Loop())
        again = _Interval((Assign(alive.name, fold.logical_and(alive, s.cond)),), fold.TRUE)
        turn: _Tree = (_Interval((Assign(active.name, alive),), fold.TRUE), *body, *step, again, *count)
        return (enter, *count, _Branch(While(some, ()), (turn, ())))

    def _mask(self, base: str) -> Var:
        var = self.names.variable(base, Ty.BOOL)
        self.own = self.own | {var.name}
        return var

    # ---------------------------------------------------------------------------------------------------- expansion

    def _expand_variables(self, intervals: list[tuple[_Interval, bool]]) -> None:
        """Choose the per-thread variables that need one element per thread."""
        seen: dict[str, int] = {}
        shared: set[str] = set()
        for interval, in_loop in intervals:
            mentioned = set(read_names(interval.body) | assigned(interval.body))
            mentioned |= {n.name for n in walk(interval.mask) if isinstance(n, Var)}
            for name in mentioned:
                seen[name] = seen.get(name, 0) + 1
            if in_loop:
                shared |= exposed(interval.body)
            # A value exchanged within a warp is published in the same interval: the warp level takes care of it.
            warps = any(isinstance(s, Barrier) for s in walk_stmts(interval.body))
            read = {n.name for n in body_exprs(interval.body) if isinstance(n, LaneRead)}
            shared |= read - assigned(interval.body) if warps else read
        for name, count in sorted(seen.items()):
            private = name in self.own and name not in self.uniform and name not in self.team_scalars
            if private and (count > 1 or name in shared):
                lanes = -(-self.team.threads // WARP) * WARP if name in shared else self.team.threads
                ty = self.names.program.types[name]
                self.arrays[name] = self.names.buffer(f"{name.rstrip(chr(39))}_of", ty, fold.i32(lanes), Space.SHARED)

    def _expand_local_arrays(self, intervals: list[tuple[_Interval, bool]]) -> None:
        """Give each thread its own copy of a local array that lives across a barrier, thread index fastest."""
        count: dict[str, int] = {}
        for interval, in_loop in intervals:
            for name in read_buffers(interval.body) | written_buffers(interval.body):
                count[name] = count.get(name, 0) + (2 if in_loop else 1)
        for name, uses in sorted(count.items()):
            buffer = self.names.program.buffers[name]
            if buffer.space is Space.LOCAL and uses > 1:
                assert buffer.length is not None
                length = fold.binary(Op.MUL, buffer.length, fold.i32(self.team.threads), Ty.I32)
                self.spread[name] = self.names.buffer(f"{name}_of", buffer.ty, length, Space.SHARED)

    # ------------------------------------------------------------------------------------------------------- output

    def _emit(self, tree: _Tree) -> Body:
        out: list[Stmt] = []
        for node in tree:
            if isinstance(node, _Interval):
                out.extend(self._interval(node))
            elif isinstance(node, _Branch):
                out.append(with_bodies(node.statement, tuple(self._emit(b) for b in node.branches)))
            else:
                out.append(node)
        return tuple(out)

    def _interval(self, interval: _Interval) -> Body:
        body = interval.body
        if self.team.scope == "block" and any(isinstance(s, Barrier) for s in walk_stmts(body)):
            return self._warps(interval)
        if interval.mask != fold.TRUE:
            body = (If(interval.mask, body),)
        body = self._access_arrays(self._cache(lower_atomics(body)), self.team.index)
        for axis, size in self.team.axes:
            body = axis_loop(axis, fold.i32(size), body, self.names, Parallel.THREAD)
        return body

    def _warps(self, interval: _Interval) -> Body:
        """An interval with warp functions: a loop over warps, in each of which the lanes meet."""
        lane, warp = Var(f"{LANE}", Ty.U32), Var(f"{WARP_INDEX}", Ty.U32)
        lanes = min(WARP, self.team.threads)
        count = -(-self.team.threads // WARP)
        linear_index = Linear(((warp, WARP), (lane, 1)), 0)
        env = {LANE: (0, lanes - 1), WARP_INDEX: (0, count - 1)}
        position = dict(zip((n for n, _ in self.team.axes), _positions(linear_index, self.team), strict=True))
        body: Body = interval.body
        mask = interval.mask
        if self.team.threads > WARP and self.team.threads % WARP:
            inside = fold.binary(Op.LT, build(linear_index), fold.i32(self.team.threads), Ty.BOOL)
            mask = fold.logical_and(mask, inside)
        if mask != fold.TRUE:
            body = (If(mask, body),)
        body = substitute(self._access_arrays(body, self.team.index, lane_reads=False), position)
        body = normalise(map_body(body, _lane_relative), env, keep_types=True)
        foreign = self.own & (self.uniform | self.team_scalars)
        team = _Team("warp", ((LANE, lanes),), fold.cast(lane, Ty.I32), lanes)
        out = _TeamSerialiser(body, team, self.names, foreign).run()
        return axis_loop(WARP_INDEX, fold.i32(count), out, self.names, Parallel.BLOCK)

    def _cache(self, body: Body) -> Body:
        """Keep a per-thread array element in a variable where an inner loop uses it."""
        inner = [b for s in walk_stmts(body) if isinstance(s, For | While) for b in bodies(s)]
        hot = {n for b in inner for n in (read_names(b) | assigned(b)) if n in self.arrays}
        if not hot:
            return body
        types = self.names.program.types
        head: list[Stmt] = []
        tail: list[Stmt] = []
        renamed: dict[str, Var] = {}
        for name in sorted(hot):
            var = self.names.variable(name, types[name])
            renamed[name] = var
            if name in exposed((*body, Assign("", Var(name, types[name])))):
                head.append(Assign(var.name, Var(name, types[name])))
            if name in assigned(body):
                tail.append(Assign(name, var))
        body = substitute(body, dict(renamed))
        body = map_stmts(body, lambda s: replace(s, name=renamed[s.name].name)
                         if isinstance(s, Assign) and s.name in renamed else s)  # fmt: skip
        return (*head, *body, *tail)

    def _access_arrays(self, body: Body, thread: Expr, *, lane_reads: bool = True) -> Body:
        types = self.names.program.types

        def own_copy(index: Expr) -> Expr:
            return fold.binary(Op.ADD, fold.binary(Op.MUL, index, fold.i32(self.team.threads), Ty.I32), thread, Ty.I32)

        def visit(e: Expr) -> Expr:
            if isinstance(e, Var) and e.name in self.arrays:
                return Load(self.arrays[e.name], thread, e.ty)
            if isinstance(e, Load) and e.buffer in self.spread:
                return Load(self.spread[e.buffer], own_copy(e.index), e.ty)
            if isinstance(e, LaneRead) and lane_reads:
                return Load(self.arrays[e.name], e.lane, e.ty)
            return e

        def store(s: Stmt) -> Stmt:
            if isinstance(s, Assign) and s.name in self.arrays:
                return Store(self.arrays[s.name], thread, fold.cast(s.value, types[s.name]))
            if isinstance(s, Store) and s.buffer in self.spread:
                return Store(self.spread[s.buffer], own_copy(s.index), s.value)
            return s

        return map_stmts(map_body(body, lambda e: map_expr(e, visit)), store)


LANE = "thread.lane"
WARP_INDEX = "block.warp"


def _positions(index: Linear, team: _Team) -> list[Expr]:
    """Coordinates along a block's axes of the thread with a linear index."""
    whole = build(index, Ty.U32)
    out: list[Expr] = []
    scale = 1
    for position, (_, size) in enumerate(team.axes):
        coordinate = fold.binary(Op.DIV, whole, fold.const(scale, Ty.U32), Ty.U32)
        if position + 1 < len(team.axes):
            coordinate = fold.binary(Op.MOD, coordinate, fold.const(size, Ty.U32), Ty.U32)
        out.append(coordinate)
        scale *= size
    return out


def _lane_relative(e: Expr) -> Expr:
    """Lane reads by lane number in the warp instead of thread index in the block."""

    def visit(n: Expr) -> Expr:
        return replace(n, lane=_minus_warp(n.lane)) if isinstance(n, LaneRead) else n

    return map_expr(e, visit)


def _minus_warp(e: Expr) -> Expr:
    if isinstance(e, Select):
        return Select(e.cond, _minus_warp(e.a), _minus_warp(e.b), e.ty)
    return fold.binary(
        Op.SUB, e, fold.binary(Op.MUL, Cast(Var(WARP_INDEX, Ty.U32), Ty.I32), fold.i32(WARP), Ty.I32), Ty.I32
    )


def _intervals(tree: _Tree, in_loop: bool) -> list[tuple[_Interval, bool]]:
    """All intervals in order, and whether each is inside a loop at barrier level."""
    found: list[tuple[_Interval, bool]] = []
    for node in tree:
        if isinstance(node, _Interval):
            found.append((node, in_loop))
        elif isinstance(node, _Branch):
            inner = in_loop or not isinstance(node.statement, If)
            for branch in node.branches:
                found += _intervals(branch, inner)
    return found


__all__ = ["axis_loop", "linear", "serialise"]
