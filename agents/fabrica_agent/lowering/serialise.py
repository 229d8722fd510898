"""From threads to loops: a launch becomes loops over blocks and threads that one PE can run.

A barrier interval (the code between two barriers) becomes one loop over the threads of the block. Control flow that
contains a barrier is kept outside the thread loops. Where its condition has one value for the whole block, it stays as
it is; otherwise (threads that left early, warps with different trip counts) per-thread masks keep the others out. A
per-thread variable that lives in more than one interval becomes an array with one element per thread, and so does one
that other threads read (a warp shuffle).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    BLOCK, THREAD, Assign, Atomic, Barrier, Bin, Body, Break, Cast, Continue, Expr, For, If, LaneRead, Launch, Load, Op,
    Program, Space, Stmt, Store, Ty, Var, While, assigned, bodies, body_exprs, map_body, map_expr, read_buffers,
    read_names, stmt_exprs, substitute, walk, walk_stmts, with_bodies, written_buffers,
)  # fmt: skip
from fabrica_agent.lowering.names import Names

WARP = 32


@dataclass(frozen=True, slots=True)
class _Interval:
    """Code of all threads between two barriers; threads whose mask variable is false sit it out."""

    body: Body
    mask: str | None


@dataclass(frozen=True, slots=True)
class _Loop:
    """The innermost loop that contains a barrier, as `break` and `continue` see it.

    `alive` is the mask of threads still in the loop and `active` that of threads still in this iteration; both are None
    for a uniform loop. `masks` are those of the conditions entered since.
    """

    alive: str | None
    active: str | None
    masks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Branch:
    """A compound statement at barrier level, with its bodies as trees."""

    statement: Stmt
    branches: tuple[_Tree, ...]


_Context = tuple[tuple[int, int, int], ...]
"""Where a statement stands, as the divergent branches and loops around it."""

_Node = _Interval | _Branch | Assign | Break | Continue
_Tree = tuple[_Node, ...]


def serialise(program: Program) -> Program:
    """The same program without launches, barriers, atomics and lane reads."""
    copy = replace(program, buffers=dict(program.buffers), types=dict(program.types))
    names = Names(copy)
    copy.body = _host(copy.body, names)
    return copy


def _host(body: Body, names: Names) -> Body:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Launch):
            out.extend(_LaunchSerialiser(s, names).run())
        else:
            out.append(with_bodies(s, tuple(_host(b, names) for b in bodies(s))))
    return tuple(out)


def _synchronises(s: Stmt) -> bool:
    """Whether a statement contains a barrier, or leaves the enclosing loop."""
    if isinstance(s, Barrier | Break | Continue):
        return True
    if isinstance(s, If):
        return any(_synchronises(x) for b in bodies(s) for x in b)
    return any(isinstance(x, Barrier) for b in bodies(s) for x in walk_stmts(b))


class _LaunchSerialiser:
    """Serialises one launch."""

    def __init__(self, launch: Launch, names: Names) -> None:
        self.launch = launch
        self.names = names
        self.written = written_buffers(launch.body)
        self.own = assigned(launch.body)
        self.uniform = self._uniform_variables()
        self.threads = launch.block[0] * launch.block[1] * launch.block[2]
        self.arrays: dict[str, str] = {}
        self.spread: dict[str, str] = {}
        self.block_scalars: set[str] = set()

    def run(self) -> Body:
        """Loops over blocks around the serialised body."""
        tree = self._region(self.launch.body, None, _Loop(None, None))
        intervals = list(_intervals(tree, in_loop=False))
        self._expand_variables(intervals)
        self._expand_local_arrays(intervals)
        body = self._emit(tree)
        # x varies fastest, as on the GPU; the order doesn't matter to legal programs.
        for axis, size in zip(BLOCK, self.launch.grid, strict=True):
            body = self._loop(axis, fold.cast(size, Ty.I32), body, "block")
        return body

    # --------------------------------------------------------------------------------------------- uniform variables

    def _uniform_variables(self) -> set[str]:
        """Variables with one value for the whole block, assigned only outside the thread loops.

        Starts with all that are assigned nowhere but at barrier level, and removes until nothing changes.
        """
        candidates, inner = self._levels(self.launch.body, True)
        uniform = candidates - inner
        while True:
            removed: set[str] = set()
            self._find_divergent(self.launch.body, uniform, removed)
            if not removed & uniform:
                return uniform
            uniform -= removed

    def _levels(self, body: Body, synced: bool) -> tuple[set[str], set[str]]:
        outer: set[str] = set()
        inner: set[str] = set()
        for s in body:
            sync = synced and bool(bodies(s)) and _synchronises(s)
            target = outer if synced else inner
            match s:
                case Assign(name=name):
                    target.add(name)
                case Atomic(result=str() as name):
                    inner.add(name)
                case For(var=name):
                    (outer if sync else inner).add(name)
            for b in bodies(s):
                o, i = self._levels(b, sync)
                outer |= o
                inner |= i
        return outer, inner

    def _find_divergent(self, body: Body, uniform: set[str], removed: set[str]) -> None:
        """Collect candidates that aren't uniform after all, given what still counts as uniform.

        A variable assigned under a condition that differs between threads may stay when its whole life is under that
        condition: it is then the same for all threads that use it.
        """
        writes: dict[str, set[_Context]] = {}
        reads: dict[str, set[_Context]] = {}
        self._visit_contexts(body, (), uniform, removed, writes, reads)
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
            mentioned = read_names((s,)) if not (bodies(s) and _synchronises(s)) else {
                n.name for e in stmt_exprs(s) for n in walk(e) if isinstance(n, Var)
            }  # fmt: skip
            for name in mentioned:
                reads.setdefault(name, set()).add(context)
            if isinstance(s, Assign):
                writes.setdefault(s.name, set()).add(context)
                if not self._even(s.value, uniform):
                    removed.add(s.name)
            if not bodies(s) or not _synchronises(s):
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
        for node in walk(e):
            match node:
                case Var(name=name) if name in THREAD or (name in self.own and name not in uniform):
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

    def _region(self, body: Body, mask: str | None, loop: _Loop) -> _Tree:
        """Split statements at barriers."""
        out: list[_Node] = []
        run: list[Stmt] = []

        def flush() -> None:
            if run:
                out.append(_Interval(tuple(run), mask))
                run.clear()

        for s in body:
            if isinstance(s, Barrier):
                flush()
            elif isinstance(s, Break | Continue):
                flush()
                out.extend(self._escape(s, mask, loop))
            elif bodies(s) and _synchronises(s):
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

    def _escape(self, s: Break | Continue, mask: str | None, loop: _Loop) -> list[_Node]:
        if loop.active is None:
            return [s]
        off = list(loop.masks) + [loop.active]
        if isinstance(s, Break) and loop.alive is not None:
            off.append(loop.alive)
        # The mask that guards the interval is cleared last.
        ordered = [m for m in off if m != mask] + ([mask] if mask in off and mask is not None else [])
        return [_Interval(tuple(Assign(m, fold.FALSE) for m in ordered), mask)]

    def _compound(self, s: Stmt, mask: str | None, loop: _Loop) -> _Tree:
        match s:
            case If():
                return self._if(s, mask, loop)
            case For() if s.var in self.uniform:
                return (_Branch(s, (self._region(s.body, mask, _Loop(None, None)),)),)
            case For():
                var = Var(s.var, s.ty)
                test = Op.LT if s.step > 0 else Op.GT
                advance = fold.binary(Op.ADD, var, fold.const(s.step, s.ty), s.ty)
                start: _Node = _Interval((Assign(s.var, s.start),), mask)
                self.names.program.types.setdefault(s.var, s.ty)
                cond = fold.binary(test, var, s.stop, Ty.BOOL)
                return (start, *self._while(While(cond, s.body, (Assign(s.var, advance),)), mask))
            case While():
                return self._while(s, mask)
            case _:
                raise AssertionError(s)

    def _if(self, s: If, mask: str | None, loop: _Loop) -> _Tree:
        if self._even(s.cond, self.uniform):
            then, other = self._region(s.then, mask, loop), self._region(s.other, mask, loop)
            return (_Branch(s, (then, other)),)
        yes = self._mask("taken")
        compute: list[Stmt] = [Assign(yes.name, _both(mask, s.cond))]
        tail: _Tree = ()
        if s.other:
            no = self._mask("skipped")
            compute.append(Assign(no.name, _both(mask, fold.logical_not(yes))))
            tail = self._region(s.other, no.name, replace(loop, masks=(*loop.masks, no.name)))
        then = self._region(s.then, yes.name, replace(loop, masks=(*loop.masks, yes.name)))
        return (_Interval(tuple(compute), None), *then, *tail)

    def _while(self, s: While, mask: str | None) -> _Tree:
        if self._even(s.cond, self.uniform) and self._escapes_evenly(s.body, self.uniform):
            uniform = _Loop(None, None)
            return (_Branch(s, (self._region(s.body, mask, uniform), self._region(s.step, mask, uniform))),)
        alive, active = self._mask("alive"), self._mask("active")
        some = self.names.variable("any_alive", Ty.BOOL)
        self.block_scalars.add(some.name)
        count: _Tree = (Assign(some.name, fold.FALSE), _Interval((If(alive, (Assign(some.name, fold.TRUE),)),), None))
        enter = _Interval((Assign(alive.name, _both(mask, s.cond)),), None)
        body = self._region(s.body, active.name, _Loop(alive.name, active.name))
        step = self._region(s.step, alive.name, _Loop(None, None))
        again = _Interval((Assign(alive.name, _both(alive.name, s.cond)),), None)
        turn: _Tree = (_Interval((Assign(active.name, alive),), None), *body, *step, again, *count)
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
            if interval.mask is not None:
                mentioned.add(interval.mask)
            for name in mentioned:
                seen[name] = seen.get(name, 0) + 1
            if in_loop:
                shared |= _exposed(interval.body)
            shared |= {n.name for n in body_exprs(interval.body) if isinstance(n, LaneRead)}
        for name, count in sorted(seen.items()):
            private = name in self.own and name not in self.uniform and name not in self.block_scalars
            if private and (count > 1 or name in shared):
                lanes = -(-self.threads // WARP) * WARP if name in shared else self.threads
                ty = self.names.program.types[name]
                self.arrays[name] = self.names.buffer(f"{name}_of", ty, fold.i32(lanes))

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
                length = fold.binary(Op.MUL, buffer.length, fold.i32(self.threads), Ty.I32)
                self.spread[name] = self.names.buffer(f"{name}_of", buffer.ty, length)

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
        thread = self._linear_index()
        body = interval.body
        if interval.mask is not None:
            body = (If(Var(interval.mask, Ty.BOOL), body),)
        body = self._access_arrays(_lower_atomics(body), thread)
        for axis, size in zip(THREAD, self.launch.block, strict=True):
            body = self._loop(axis, fold.i32(size), body, "thread")
        return body

    def _linear_index(self) -> Expr:
        sx, sy, _ = self.launch.block
        x, y, z = (Cast(Var(name, Ty.U32), Ty.I32) for name in THREAD)
        row = fold.binary(Op.ADD, y, fold.binary(Op.MUL, z, fold.i32(sy), Ty.I32), Ty.I32)
        return fold.binary(Op.ADD, x, fold.binary(Op.MUL, row, fold.i32(sx), Ty.I32), Ty.I32)

    def _access_arrays(self, body: Body, thread: Expr) -> Body:
        types = self.names.program.types

        def own_copy(index: Expr) -> Expr:
            return fold.binary(Op.ADD, fold.binary(Op.MUL, index, fold.i32(self.threads), Ty.I32), thread, Ty.I32)

        def visit(e: Expr) -> Expr:
            if isinstance(e, Var) and e.name in self.arrays:
                return Load(self.arrays[e.name], thread, e.ty)
            if isinstance(e, Load) and e.buffer in self.spread:
                return Load(self.spread[e.buffer], own_copy(e.index), e.ty)
            return Load(self.arrays[e.name], e.lane, e.ty) if isinstance(e, LaneRead) else e

        def store(s: Stmt) -> Stmt:
            if isinstance(s, Assign) and s.name in self.arrays:
                return Store(self.arrays[s.name], thread, fold.cast(s.value, types[s.name]))
            if isinstance(s, Store) and s.buffer in self.spread:
                return Store(self.spread[s.buffer], own_copy(s.index), s.value)
            return s

        return _map_stmts(map_body(body, lambda e: map_expr(e, visit)), store)

    def _loop(self, axis: str, size: Expr, body: Body, base: str) -> Body:
        if fold.int_value(size) == 1:
            return substitute(body, {axis: fold.const(0, Ty.U32)})
        if not body:
            return body
        var = self.names.variable(f"{base}_{axis[-1]}", Ty.I32)
        inner = substitute(body, {axis: Cast(var, Ty.U32)})
        return (For(var.name, Ty.I32, fold.i32(0), size, 1, inner, parallel=True),)


def _both(mask: str | None, cond: Expr) -> Expr:
    return cond if mask is None else fold.logical_and(Var(mask, Ty.BOOL), cond)


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


def _exposed(body: Body) -> set[str]:
    """Variables that a body may read before it has surely assigned them: they carry a value into it."""
    exposed: set[str] = set()
    _scan(body, set(), exposed)
    return exposed


def _scan(body: Body, defined: set[str], exposed: set[str]) -> None:
    for s in body:
        for e in stmt_exprs(s):
            exposed |= {n.name for n in walk(e) if isinstance(n, Var)} - defined
        match s:
            case Assign(name=name):
                defined.add(name)
            case Atomic(result=str() as name):
                defined.add(name)
            case If(then=then, other=other):
                branches = set(defined), set(defined)
                _scan(then, branches[0], exposed)
                _scan(other, branches[1], exposed)
                defined |= branches[0] & branches[1]
            case For(var=var):
                _scan(s.body, defined | {var}, exposed)
            case While():
                inner = set(defined)
                _scan(s.body, inner, exposed)
                _scan(s.step, inner, exposed)


def _map_stmts(body: Body, f: Callable[[Stmt], Stmt]) -> Body:
    return tuple(f(with_bodies(s, tuple(_map_stmts(b, f) for b in bodies(s)))) for s in body)


_ATOMIC_OPS = {
    "add": Op.ADD, "sub": Op.SUB, "min": Op.MIN, "max": Op.MAX, "and": Op.AND, "or": Op.OR, "xor": Op.XOR,
}  # fmt: skip


def _lower_atomics(body: Body) -> Body:
    """Atomics as plain statements: on one PE nothing can come between the read and the write."""
    return _lower(body, read_names(body))


def _lower(body: Body, read: frozenset[str]) -> Body:
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, tuple(_lower(b, read) for b in bodies(s)))
        out.extend(_lower_atomic(s, read) if isinstance(s, Atomic) else (s,))
    return tuple(out)


def _lower_atomic(s: Atomic, read: frozenset[str]) -> Body:
    old: Expr = Load(s.buffer, s.index, s.ty)
    head: Body = ()
    if s.result is not None and s.result in read:
        head = (Assign(s.result, old),)
        old = Var(s.result, s.ty)
    if s.op in _ATOMIC_OPS:
        return (*head, Store(s.buffer, s.index, fold.binary(_ATOMIC_OPS[s.op], old, s.value, s.ty)))
    if s.op == "exch":
        return (*head, Store(s.buffer, s.index, s.value))
    if s.op == "cas":
        assert s.compare is not None
        return (*head, If(Bin(Op.EQ, old, s.compare, Ty.BOOL), (Store(s.buffer, s.index, s.value),)))
    if s.op == "inc":
        wraps = Bin(Op.GE, old, s.value, Ty.BOOL)
        new = fold.select(wraps, fold.const(0, s.ty), fold.binary(Op.ADD, old, fold.const(1, s.ty), s.ty))
    else:
        wraps = Bin(Op.LOR, Bin(Op.EQ, old, fold.const(0, s.ty), Ty.BOOL), Bin(Op.GT, old, s.value, Ty.BOOL), Ty.BOOL)
        new = fold.select(wraps, s.value, fold.binary(Op.SUB, old, fold.const(1, s.ty), s.ty))
    return (*head, Store(s.buffer, s.index, new))
