"""Loop transformations of a serial program.

Fission of parallel loops, fusion of (block, thread) loop pairs, grid-stride loops, guards folded into bounds, loops
over quotient and remainder, and splitting of a loop where a condition on its variable changes.
"""

from __future__ import annotations

from dataclasses import replace

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.flow import exposed
from fabrica_agent.lowering.intervals import Ranges, loop_range
from fabrica_agent.lowering.ir import (
    COMPARISONS,
    SWAPPED,
    Bin,
    Body,
    Expr,
    For,
    If,
    Load,
    Op,
    Parallel,
    Program,
    Select,
    Space,
    Stmt,
    Ty,
    Var,
    assigned,
    bodies,
    body_exprs,
    children,
    map_expr,
    map_stmt_exprs,
    names_in,
    read_buffers,
    read_names,
    stmt_exprs,
    substitute,
    walk,
    walk_stmts,
    with_bodies,
    written_buffers,
)
from fabrica_agent.lowering.linear import Linear, build, invariant, linear, linear_span
from fabrica_agent.lowering.names import Names
from fabrica_agent.lowering.normalise import bounded, escapes, normalise, trip_count
from fabrica_agent.lowering.ranges import span

MAX_SPLIT_SIZE = 40


class Reshape:
    """Loop transformations; see the module's docstring."""

    def __init__(self, program: Program, names: Names, *, late: bool = False, split: bool = True) -> None:
        self.split = split
        self.program = program
        self.names = names
        self.late = late

    def body(self, body: Body, env: Ranges) -> Body:
        """Reshape all loops, innermost first."""
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, For):
                fused = self._nest(s, env) or self._ragged(s, env)
                if fused is not None:
                    out.extend(self.body(fused, env))
                    continue
                run = loop_range(s, env)
                inner_env = {**env, s.var: run} if run is not None else env
                s = replace(s, body=self.body(s.body, inner_env))
                out.extend(self.loop(s, env))
            else:
                out.append(with_bodies(s, tuple(self.body(b, env) for b in bodies(s))))
        return tuple(out)

    def loop(self, s: For, env: Ranges) -> Body:
        """One loop whose body is already reshaped."""
        if s.parallel and len(s.body) > 1:
            parts = _fission(s.body, self._private(s.parallel))
            if len(parts) > 1:
                return tuple(x for part in parts for x in self.loop(self._copy(s, part), env))
        rules = (self._guard, self._stride, self._unflatten, self._even_trips)
        for rule in (*rules, self._split) if self.split else rules:
            new = rule(s, env)
            if new is not None:
                return self.body(new, env)
        return (s,)

    def _private(self, parallel: Parallel) -> frozenset[str]:
        """Buffers that each iteration of a parallel loop has for itself, though all use the same memory here."""
        own = (Space.LOCAL,) if parallel is Parallel.THREAD else (Space.LOCAL, Space.SHARED)
        return frozenset(n for n, b in self.program.buffers.items() if b.space in own and not b.exported)

    def _copy(self, s: For, body: Body) -> For:
        var = self.names.variable(s.var, s.ty)
        return replace(s, var=var.name, body=substitute(body, {s.var: var}))

    def _guard(self, s: For, env: Ranges) -> Body | None:
        """`for v { if (v < e && rest) X }` → bounds on v, with `rest` left inside."""
        if len(s.body) != 1 or not isinstance(s.body[0], If) or s.body[0].other or abs(s.step) != 1:
            return None
        if s.step < 0:
            return None
        guard = s.body[0]
        inner_env = {**env, s.var: loop_range(s, env) or (0, 0)}
        start, stop = s.start, s.stop
        rest: Expr = fold.TRUE
        changed = False
        own = assigned(s.body) | {s.var}
        written = written_buffers(s.body)
        for test in _conjuncts(guard.cond):
            bound = self._bound(test, s.var, own, written, inner_env)
            if bound is None:
                rest = fold.logical_and(rest, test)
                continue
            changed = True
            lower, upper = bound
            if upper is not None:
                stop = bounded(Op.MIN, stop, upper, env)
            if lower is not None:
                start = bounded(Op.MAX, start, lower, env)
        if not changed:
            return None
        inside = guard.then if rest == fold.TRUE else (If(rest, guard.then),)
        return (replace(s, start=start, stop=stop, body=inside),)

    def _bound(
        self, test: Expr, var: str, own: frozenset[str], written: frozenset[str], env: Ranges
    ) -> tuple[Expr | None, Expr | None] | None:
        """A condition on a loop variable as (first value, first value after the last); None if it isn't one."""
        if not isinstance(test, Bin) or test.op not in (Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ) or not test.a.ty.is_int:
            return None
        difference = linear(test.a, env, symbolic=True).plus(linear(test.b, env, symbolic=True), -1)
        coefficient = difference.of(var)
        if coefficient not in (1, -1) or difference.opaque_in(var):
            return None
        rest = difference.without(var)
        if not invariant(build(rest), own, written):
            return None
        # coefficient * var + rest  op  0
        op = test.op if coefficient == 1 else SWAPPED[test.op]
        edge = rest.times(-coefficient)
        after = edge.plus(Linear((), 1))
        match op:
            case Op.LT:
                return None, build(edge)
            case Op.LE:
                return None, build(after)
            case Op.GE:
                return build(edge), None
            case Op.GT:
                return build(after), None
            case _:
                return build(edge), build(after)

    def _nest(self, s: For, env: Ranges) -> Body | None:
        """Fuse two parallel loops of a perfect nest whose variables occur only as `outer * size + inner`."""
        nest: list[For] = [s]
        while len(nest[-1].body) == 1 and isinstance(nest[-1].body[0], For) and nest[-1].body[0].parallel:
            nest.append(nest[-1].body[0])
        if len(nest) < 2 or not s.parallel:
            return None
        variables = {f.var for f in nest}
        if any(names_in(e) & variables for f in nest for e in (f.start, f.stop)) or any(f.step != 1 for f in nest):
            return None
        if any(fold.int_value(f.start) != 0 for f in nest):
            return None
        body = nest[-1].body
        nest_env = {**env, **{f.var: loop_range(f, env) or (0, 0) for f in nest}}
        for i, outer in enumerate(nest):
            for inner in nest[i + 1 :]:
                size = fold.int_value(inner.stop)
                if size is None or not _only_together(body, outer.var, inner.var, size, nest_env):
                    continue
                total = fold.binary(Op.MUL, outer.stop, inner.stop, Ty.I32)
                fused = self.names.variable(outer.var, Ty.I32)
                new = substitute(body, {outer.var: fold.i32(0), inner.var: fused})
                loops = [f for f in nest if f is not inner]
                for f in reversed(loops):
                    if f is outer:
                        kind = Parallel.BLOCK if Parallel.BLOCK in (outer.parallel, inner.parallel) else Parallel.THREAD
                        new = (For(fused.name, Ty.I32, fold.i32(0), total, 1, new, kind),)
                    else:
                        new = (replace(f, body=new),)
                return new
        return None

    def _ragged(self, s: For, env: Ranges) -> Body | None:
        """`for b { for t in 0..min(T, n - T*b) X(T*b + t) }` → `for i in 0..n X(i)`."""
        if len(s.body) != 1 or not isinstance(s.body[0], For) or not s.parallel or not s.body[0].parallel:
            return None
        inner = s.body[0]
        blocks = fold.int_value(s.stop)
        starts = fold.int_value(s.start), fold.int_value(inner.start)
        if s.step != 1 or inner.step != 1 or blocks is None or starts != (0, 0):
            return None
        if not (isinstance(inner.stop, Bin) and inner.stop.op is Op.MIN):
            return None
        inner_env = {**env, s.var: (0, max(blocks - 1, 0)), inner.var: loop_range(inner, env) or (0, 0)}
        for size_expr, left in ((inner.stop.a, inner.stop.b), (inner.stop.b, inner.stop.a)):
            size = fold.int_value(size_expr)
            form = linear(left, inner_env, symbolic=True)
            total = fold.int_value(build(form.without(s.var)))
            if size is None or form.of(s.var) != -size or form.opaque_in(s.var) or total is None:
                continue
            if blocks != -(-total // size) or not _only_together(inner.body, s.var, inner.var, size, inner_env):
                continue
            fused = self.names.variable(s.var, Ty.I32)
            body = substitute(inner.body, {s.var: fold.i32(0), inner.var: fused})
            kind = Parallel.BLOCK if Parallel.BLOCK in (s.parallel, inner.parallel) else Parallel.THREAD
            return (For(fused.name, Ty.I32, fold.i32(0), build(form.without(s.var)), 1, body, kind),)
        return None

    def _stride(self, s: For, env: Ranges) -> Body | None:
        """`for t in 0..T { for (i = k*t + c; i < n; i += k*T) X(i) }` → `for (i = c; i < n; i += k) X(i)`."""
        if not s.parallel or len(s.body) != 1 or s.step != 1 or fold.int_value(s.start) != 0:
            return None
        inner = s.body[0]
        threads = fold.int_value(s.stop)
        if not isinstance(inner, For) or inner.step <= 0 or threads is None or inner.parallel:
            return None
        inner_env = {**env, s.var: loop_range(s, env) or (0, 0)}
        start = linear(inner.start, inner_env)
        k = start.of(s.var)
        if k <= 0 or start.opaque_in(s.var) or inner.step != k * threads:
            return None
        if s.var in names_in(inner.stop) or s.var in read_names(inner.body) or escapes(inner.body):
            return None
        if exposed(inner.body) & assigned(inner.body):
            return None
        first = build(linear(inner.start, inner_env, symbolic=True).without(s.var))
        # Two iterations of one thread are ordered; only if there is one per thread are all independent.
        once = span(inner.stop, env)[1] <= linear_span(start.without(s.var), env)[0] + k * threads
        kind = s.parallel if once else Parallel.NO
        return (For(inner.var, inner.ty, fold.cast(first, inner.ty), inner.stop, k, inner.body, kind),)

    def _unflatten(self, s: For, env: Ranges) -> Body | None:
        """A loop whose body divides its variable by a constant becomes a loop over quotients and remainders."""
        count = trip_count(s)
        if s.step != 1 or fold.int_value(s.start) != 0 or count is None or escapes(s.body):
            return None
        sizes = {
            size
            for e in body_exprs(s.body)
            if isinstance(e, Bin) and e.op in (Op.DIV, Op.MOD) and isinstance(e.a, Var) and e.a.name == s.var
            and (size := fold.int_value(e.b)) is not None
        }  # fmt: skip
        fitting = [size for size in sorted(sizes) if 1 < size < count and count % size == 0]
        if not fitting:
            return None
        size = fitting[-1]
        row, column = self.names.variable("row", Ty.I32), self.names.variable("column", Ty.I32)
        whole = fold.binary(Op.ADD, fold.binary(Op.MUL, row, fold.i32(size), Ty.I32), column, Ty.I32)
        inner_env = {**env, row.name: (0, count // size - 1), column.name: (0, size - 1)}
        body = normalise(substitute(s.body, {s.var: whole}), inner_env)
        inner = For(column.name, Ty.I32, fold.i32(0), fold.i32(size), 1, body, s.parallel)
        return (For(row.name, Ty.I32, fold.i32(0), fold.i32(count // size), 1, (inner,), s.parallel),)

    def _even_trips(self, s: For, env: Ranges) -> Body | None:
        """Give an inner loop `for (i = k*t + c; i < n; i += k*T)` the same trip count for all threads `t` of a loop.

        The inner loop then counts trips, with `i` computed from the count, and can stay around bulk operations over
        the threads. Where the count changes with the thread, the thread loop is split there.
        """
        count = trip_count(s)
        # Late, because a loop that `_stride` can take as a whole needs no such care.
        if not self.late or not s.parallel or s.step != 1 or count is None or count < 2:
            return None
        first = fold.int_value(s.start) or 0
        inner_env = {**env, s.var: (first, first + count - 1)}
        for position, inner in enumerate(s.body):
            if not isinstance(inner, For) or inner.step <= 1 or s.var not in names_in(inner.start):
                continue
            start, stop = linear(inner.start, inner_env), fold.int_value(inner.stop)
            k = start.of(s.var)
            if stop is None or k <= 0 or start.without(s.var).terms or escapes(inner.body):
                continue
            trips = [len(range(start.constant + k * t, stop, inner.step)) for t in range(first, first + count)]
            change = next((t for t, n in enumerate(trips) if n != trips[0]), None)
            if change is not None:
                edge = fold.i32(first + change)
                head, tail = self._copy(s, s.body), self._copy(s, s.body)
                return (replace(head, stop=edge), replace(tail, start=edge))
            turn = self.names.variable("turn", Ty.I32)
            advance = fold.binary(Op.MUL, turn, fold.i32(inner.step), Ty.I32)
            at = fold.binary(Op.ADD, fold.cast(inner.start, Ty.I32), advance, Ty.I32)
            body = substitute(inner.body, {inner.var: fold.cast(at, inner.ty)})
            counted = For(turn.name, Ty.I32, fold.i32(0), fold.i32(trips[0]), 1, body)
            return (replace(s, body=(*s.body[:position], counted, *s.body[position + 1 :])),)
        return None

    def _split(self, s: For, env: Ranges) -> Body | None:
        """Split a loop where a condition on its variable, somewhere in its body, changes its truth."""
        if s.step != 1 or escapes(s.body) or sum(1 for _ in walk_stmts(s.body)) > MAX_SPLIT_SIZE:
            return None
        inner_env = {**env, s.var: loop_range(s, env) or (0, 0)}
        own = assigned(s.body) | {s.var}
        written = written_buffers(s.body)
        for test in _conditions(s.body):
            bound = self._bound(test, s.var, own, written, inner_env)
            if bound is None or (isinstance(test, Bin) and test.op is Op.EQ):
                continue
            edge = bound[0] if bound[0] is not None else bound[1]
            assert edge is not None
            edge = bounded(Op.MIN, bounded(Op.MAX, edge, s.start, env), s.stop, env)
            holds_first = bound[1] is not None
            first, second = self._copy(s, s.body), self._copy(s, s.body)
            low, high = Var(first.var, s.ty), Var(second.var, s.ty)
            head = replace(first, stop=edge, body=_assume(first.body, _renamed(test, s.var, low), holds_first))
            tail = replace(second, start=edge, body=_assume(second.body, _renamed(test, s.var, high), not holds_first))
            return (head, tail)
        return None


def _renamed(e: Expr, old: str, new: Var) -> Expr:
    return map_expr(e, lambda n: new if isinstance(n, Var) and n.name == old else n)


def _assume(body: Body, test: Expr, truth: bool) -> Body:
    """The body where a condition is known to hold (or not), wherever it occurs."""
    value = fold.const(truth, Ty.BOOL)

    def visit(e: Expr) -> Expr:
        if e == test:
            return value
        return fold.select(e.cond, e.a, e.b) if isinstance(e, Select) else (
            fold.binary(e.op, e.a, e.b, e.ty) if isinstance(e, Bin) and e.ty is Ty.BOOL else e
        )  # fmt: skip

    out: list[Stmt] = []
    for s in body:
        s = map_stmt_exprs(s, lambda e: map_expr(e, visit))
        if isinstance(s, If):
            known = fold.value(s.cond)
            if known is not None:
                out.extend(_assume(s.then if known else s.other, test, truth))
                continue
        out.append(with_bodies(s, tuple(_assume(b, test, truth) for b in bodies(s))))
    return tuple(out)


def _conditions(body: Body) -> list[Expr]:
    """All comparisons in conditions of a body."""
    found: list[Expr] = []
    for s in walk_stmts(body):
        tests = [s.cond] if isinstance(s, If) else []
        tests += [n.cond for e in stmt_exprs(s) for n in walk(e) if isinstance(n, Select)]
        for test in tests:
            found += [n for n in walk(test) if isinstance(n, Bin) and n.op in COMPARISONS]
    return found


def _conjuncts(e: Expr) -> list[Expr]:
    if isinstance(e, Bin) and e.op is Op.LAND:
        return _conjuncts(e.a) + _conjuncts(e.b)
    return [e]


def _only_together(body: Body, outer: str, inner: str, size: int, env: Ranges) -> bool:
    """Whether two variables occur only in linear forms with coefficients `k * size` and `k`."""
    return all(_together(e, outer, inner, size, env) for s in walk_stmts(body) for e in stmt_exprs(s))


def _together(e: Expr, outer: str, inner: str, size: int, env: Ranges) -> bool:
    if not names_in(e) & {outer, inner}:
        return True
    if e.ty.is_int and not isinstance(e, Load):
        form = linear(e, env)
        if not form.opaque_in(outer) and not form.opaque_in(inner):
            return form.of(outer) == size * form.of(inner)
    return not isinstance(e, Var) and all(_together(k, outer, inner, size, env) for k in children(e))


def _fission(body: Body, private: frozenset[str]) -> list[Body]:
    """Split the body of a parallel loop into runs of statements that share no scalar variable and no private buffer."""
    count = len(body)
    touched = [
        assigned((s,)) | _assigned_reads(s, body) | {f"[{b}]" for b in _buffers(s) & private} for s in body
    ]  # fmt: skip
    reach = list(range(count))
    for i in range(count):
        for j in range(i + 1, count):
            if touched[i] & touched[j]:
                reach[i] = j
    parts: list[Body] = []
    start = end = 0
    for i in range(count):
        end = max(end, reach[i])
        if i == end:
            parts.append(body[start : i + 1])
            start = end = i + 1
    return parts


def _buffers(s: Stmt) -> frozenset[str]:
    return read_buffers((s,)) | written_buffers((s,))


def _assigned_reads(s: Stmt, body: Body) -> frozenset[str]:
    own = frozenset().union(*(assigned((x,)) for x in body)) if body else frozenset()
    return read_names((s,)) & own
