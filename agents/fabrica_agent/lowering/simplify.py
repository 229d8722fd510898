"""Simplification of a serial program: index arithmetic, guards, loop nests.

Passes, in order of use:
 1. `variable_ranges`: value ranges of integer variables by abstract interpretation;
 2. `normalise`: folding, retyping of index arithmetic to I32, division and remainder by ranges, decided conditions;
 3. `reshape`: loops of one trip, fission of parallel loops, fusion of (block, thread) loop pairs, grid-stride loops,
    guards folded into bounds, splitting of a loop where a condition on its variable changes;
 4. `remove_dead`: variables and private buffers that nothing reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.flow import exposed
from fabrica_agent.lowering.ir import (
    COMPARISONS, SWAPPED, Assign, Bin, Body, Break, Cast, Const, Continue, Expr, For, If, Load, Op, Parallel, Param, Program, Select,
    Space, Stmt, Store, Ty, Un, Var, While, assigned, bodies, body_exprs, children, map_expr, map_stmt_exprs, names_in, read_buffers,
    read_names, stmt_exprs, substitute, walk, walk_stmts, with_bodies, written_buffers,
)  # fmt: skip
from fabrica_agent.lowering.linear import Linear, build, invariant, linear, linear_span, shortened
from fabrica_agent.lowering.names import Names
from fabrica_agent.lowering.ranges import Range, decide, fits, int_limits, signed, span

Ranges = dict[str, Range]
MAX_ROUNDS = 40
MAX_SPLIT_SIZE = 40


def simplify(program: Program) -> Program:
    """An equivalent, simpler serial program, with the ranges of its variables."""
    current = replace(program, buffers=dict(program.buffers), types=dict(program.types))
    names = Names(current)
    for _ in range(8):
        before = current.body
        current.ranges = variable_ranges(current)
        current.body = normalise(current.body, current.ranges)
        current.body = forward(propagate(current.body), frozenset())
        current.ranges = variable_ranges(current)
        current.body = _Reshape(current, names).body(current.body, current.ranges)
        current.body = remove_dead(current)
        if current.body == before:
            break
    current.ranges = variable_ranges(current)
    used = {n.buffer for n in body_exprs(current.body) if isinstance(n, Load)} | written_buffers(current.body)
    current.buffers = {n: b for n, b in current.buffers.items() if b.exported or n in used}
    return current


# ------------------------------------------------------------------------------------------------------------- ranges


def variable_ranges(program: Program) -> Ranges:
    """Ranges of all integer variables: the join over all assignments, refined by the conditions around them."""
    outside: Ranges = dict(program.given)
    for var in program.args:
        outside[var.name] = int_limits(var.ty) if not var.ty.is_float else (0, 0)
    ranges = dict(outside)
    for round_ in range(MAX_ROUNDS):
        found: Ranges = dict(outside)
        _collect_ranges(program.body, ranges, found, program.types)
        merged = {n: _join(ranges.get(n), r) for n, r in found.items()}
        if merged == ranges:
            return ranges
        if round_ > MAX_ROUNDS - 12:
            # No fixed point in sight: whatever still grows may take any value of its type.
            merged = {n: r if r == ranges.get(n) else _limits(program.types, n) for n, r in merged.items()}
        ranges = merged
    return {n: _limits(program.types, n) for n in ranges}


def _limits(types: Mapping[str, Ty], name: str) -> Range:
    ty = types.get(name, Ty.I32)
    return int_limits(ty) if not ty.is_float else (0, 0)


def _join(a: Range | None, b: Range) -> Range:
    return b if a is None else (min(a[0], b[0]), max(a[1], b[1]))


def _collect_ranges(body: Body, env: Ranges, found: Ranges, types: Mapping[str, Ty]) -> None:
    for s in body:
        match s:
            case Assign(name=name, value=value) if not value.ty.is_float:
                if all(n in env or types.get(n, Ty.I32).is_float for n in names_in(value)):
                    found[name] = _join(found.get(name), span(value, env))
            case For():
                inner = loop_range(s, env)
                if inner is not None:
                    found[s.var] = _join(found.get(s.var), inner)
                    _collect_ranges(s.body, {**env, s.var: inner}, found, types)
            case If(cond=cond):
                _collect_ranges(s.then, refine(cond, env, True), found, types)
                _collect_ranges(s.other, refine(cond, env, False), found, types)
            case While(cond=cond):
                inside = refine(cond, env, True)
                inside = {n: env[n] if n in assigned(s.body) and n in env else r for n, r in inside.items()}
                _collect_ranges(s.body, refine(cond, env, True), found, types)
                _collect_ranges(s.step, inside, found, types)


def loop_range(s: For, env: Mapping[str, Range]) -> Range | None:
    """Range of a loop's variable; None when the loop surely doesn't run or its bounds aren't known yet."""
    if any(isinstance(n, Var) and n.name not in env for e in (s.start, s.stop) for n in walk(e)):
        return None
    start, stop = span(s.start, env), span(s.stop, env)
    low, high = (start[0], stop[1] - 1) if s.step > 0 else (stop[0] + 1, start[1])
    return (low, high) if low <= high else None


def refine(cond: Expr, env: Ranges, truth: bool) -> Ranges:
    """The ranges where a condition holds (or doesn't)."""
    if isinstance(cond, Un) and cond.op == "!":
        return refine(cond.a, env, not truth)
    if not isinstance(cond, Bin):
        return env
    if cond.op is (Op.LAND if truth else Op.LOR):
        return refine(cond.b, refine(cond.a, env, truth), truth)
    if cond.op not in COMPARISONS or cond.a.ty.is_float:
        return env
    op = cond.op if truth else {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT, Op.EQ: Op.NE, Op.NE: Op.EQ}[cond.op]
    out = dict(env)
    for left, right, relation in ((cond.a, cond.b, op), (cond.b, cond.a, SWAPPED[op])):
        while isinstance(left, Cast) and left.a.ty.is_int and fits(span(left.a, env), left.ty):
            left = left.a
        if isinstance(left, Var) and left.name in env:
            low, high = env[left.name]
            bound = span(right, env)
            if relation in (Op.LT, Op.LE):
                high = min(high, bound[1] - (relation is Op.LT))
            elif relation in (Op.GT, Op.GE):
                low = max(low, bound[0] + (relation is Op.GT))
            elif relation is Op.EQ:
                low, high = max(low, bound[0]), min(high, bound[1])
            if low <= high:
                out[left.name] = (low, high)
    return out


# ---------------------------------------------------------------------------------------------------------- normalise


def normalise(body: Body, env: Ranges, *, keep_types: bool = False) -> Body:
    """Fold and retype all expressions; drop branches and loops that ranges decide.

    Args:
        body: Statements.
        env: Ranges of the variables in scope.
        keep_types: Leave loops as they are, for a kernel that isn't serialised yet.
    """
    if keep_types:
        return _folded(body, env)
    out: list[Stmt] = []
    for s in body:
        s = map_stmt_exprs(s, lambda e: expression(e, env))
        match s:
            case Store(buffer=buffer, index=index, value=value):
                out.append(Store(buffer, shortened(signed(index, env), env), value))
            case If(cond=cond, then=then, other=other):
                truth = decide(cond, env)
                if truth is not None and not _has_side(cond):
                    out.extend(normalise(then if truth else other, env))
                    continue
                then, other = normalise(then, refine(cond, env, True)), normalise(other, refine(cond, env, False))
                if then:
                    out.append(If(cond, then, other))
                elif other:
                    out.append(If(fold.logical_not(cond), other))
            case For():
                out.extend(_normal_loop(s, env))
            case While(cond=cond):
                if decide(cond, env) is False:
                    continue
                inside = refine(cond, env, True)
                stepping = {n: env[n] if n in assigned(s.body) else r for n, r in inside.items()}
                out.append(While(cond, normalise(s.body, _stable_part(inside, env, s.body)), normalise(s.step, stepping)))
            case _:
                out.append(s)
    return tuple(out)


def _folded(body: Body, env: Ranges) -> Body:
    out: list[Stmt] = []
    for s in body:
        s = map_stmt_exprs(s, lambda e: expression(e, env))
        out.append(with_bodies(s, tuple(_folded(b, env) for b in bodies(s))))
    return tuple(out)


def _stable_part(inside: Ranges, env: Ranges, body: Body) -> Ranges:
    changed = assigned(body)
    return {n: env[n] if n in changed else r for n, r in inside.items()}


def _normal_loop(s: For, env: Ranges) -> Body:
    start, stop, ty = s.start, s.stop, s.ty
    if ty is not Ty.I32 and ty.is_int:
        bounds = span(start, env), span(stop, env)
        if all(fits(b, Ty.I32) for b in bounds):
            var = Var(s.var, Ty.I32)
            inner = substitute(s.body, {s.var: fold.cast(var, ty)})
            s = For(s.var, Ty.I32, fold.cast(start, Ty.I32), fold.cast(stop, Ty.I32), s.step, inner, s.parallel)
    s = replace(s, start=signed(s.start, env), stop=signed(s.stop, env)) if s.ty is Ty.I32 else s
    run = loop_range(s, env)
    if run is None:
        known = all(n in env for e in (s.start, s.stop) for n in names_in(e))
        return () if known else (s,)
    at_most_once = span(s.stop, env)[1] - span(s.start, env)[0] <= s.step
    if at_most_once and s.step > 0 and not _escapes(s.body) and trip_count(s) is None:
        test = fold.binary(Op.LT, s.start, s.stop, Ty.BOOL)
        return normalise((If(test, substitute(s.body, {s.var: s.start})),), env)
    trips = trip_count(s)
    if trips == 1 and not _escapes(s.body):
        return normalise(substitute(s.body, {s.var: s.start}), env)
    body = normalise(s.body, {**env, s.var: run})
    return (replace(s, body=body),) if body else ()


def trip_count(s: For) -> int | None:
    """Number of iterations when both bounds are known."""
    start, stop = fold.int_value(s.start), fold.int_value(s.stop)
    return None if start is None or stop is None else len(range(start, stop, s.step))


def _escapes(body: Body) -> bool:
    return any(
        isinstance(s, Break | Continue) or (isinstance(s, If) and any(_escapes(b) for b in bodies(s))) for s in body
    )


def _has_side(_: Expr) -> bool:
    return False


def expression(e: Expr, env: Ranges) -> Expr:
    """Fold an expression with what ranges tell."""
    return map_expr(e, lambda n: _simpler(n, env))


def _simpler(e: Expr, env: Ranges) -> Expr:
    match e:
        case Load(buffer=buffer, index=index, ty=ty):
            return Load(buffer, shortened(signed(index, env), env), ty)
        case Cast(a=a, ty=Ty.I32) if a.ty.is_int:
            return signed(e, env)
        case Cast(a=a, ty=ty):
            return fold.cast(a, ty)
        case Select(cond=cond, a=a, b=b):
            truth = decide(cond, env)
            return fold.select(cond, a, b) if truth is None else (a if truth else b)
        case Un(op=op, a=a, ty=ty):
            return fold.unary(op, a, ty)
        case Bin(op=Op.DIV | Op.MOD, ty=ty) if ty.is_int:
            return _divide(e, env)
        case Bin(op=Op.AND, a=a, b=Const(value=mask)) if e.ty.is_int and (int(mask) + 1) & int(mask) == 0:
            if span(a, env)[0] >= 0 and int(mask) > 0:
                whole = _divide(Bin(Op.MOD, a, fold.const(int(mask) + 1, e.ty), e.ty), env)
                if not (isinstance(whole, Bin) and whole.op is Op.MOD):
                    return whole
            return fold.binary(Op.AND, a, e.b, e.ty)
        case Bin(op=op, a=a, b=b, ty=ty):
            if op in COMPARISONS and a.ty.is_int:
                return _comparison(e, env)
            if op in (Op.MIN, Op.MAX) and ty is Ty.I32:
                return bounded(op, a, b, env)
            return _as_size(fold.binary(op, a, b, ty))
        case _:
            return e


def _as_size(e: Expr) -> Expr:
    """An expression of a size that has the size's own value, such as `n / 256 * 256`, as the size itself."""
    if isinstance(e, Bin) and e.ty.is_int:
        known = fold.int_value(e)
        if known is not None:
            return next((Param(n.name, n.value, e.ty) for n in walk(e) if isinstance(n, Param) and n.value == known), e)
    return e


def _comparison(e: Bin, env: Ranges) -> Expr:
    truth = decide(e, env)
    if truth is not None:
        return fold.const(truth, Ty.BOOL)
    a, b = e.a, e.b
    if all(fits(span(x, env), Ty.I32) for x in (a, b)):
        a, b = signed(a, env), signed(b, env)
        difference = linear(a, env).plus(linear(b, env), -1)
        low, high = linear_span(difference, env)
        settled = decide(Bin(e.op, _probe(), fold.i32(0), Ty.BOOL), {_PROBE: (low, high)}) if fits((low, high), Ty.I32) else None
        if settled is not None:
            return fold.const(settled, Ty.BOOL)
        coarse = _coarser(e.op, difference, env)
        if coarse is not None:
            return coarse
    return fold.binary(e.op, a, b, Ty.BOOL)


def _coarser(op: Op, form: Linear, env: Ranges) -> Expr | None:
    """`32 * w + l < 64` as `w < 2` when `l` is known to stay below 32."""
    if op in (Op.LE, Op.GT):
        op, form = (Op.LT if op is Op.LE else Op.GE), form.plus(Linear((), -1))
    if op not in (Op.LT, Op.GE) or len(form.terms) < 2:
        return None
    step = max(abs(c) for _, c in form.terms)
    whole = Linear(tuple((a, c // step) for a, c in form.terms if c % step == 0), form.constant // step)
    rest = Linear(tuple((a, c) for a, c in form.terms if c % step), form.constant % step)
    low, high = linear_span(rest, env)
    if step < 2 or not (0 <= low and high < step):
        return None
    left, right = Linear(whole.terms, 0), -whole.constant
    return expression(fold.binary(op, build(left), fold.i32(right), Ty.BOOL), env)


_PROBE = "difference of the two sides"


def _probe() -> Var:
    return Var(_PROBE, Ty.I32)


def _divide(e: Bin, env: Ranges) -> Expr:
    """Division and remainder of a linear form by a constant, where ranges separate quotient and remainder."""
    divisor = fold.int_value(e.b)
    simple = _as_size(fold.binary(e.op, e.a, e.b, e.ty))
    if fold.int_value(e.a) is not None:
        return simple
    if divisor is None or divisor <= 0 or not isinstance(simple, Bin):
        return simple
    low, high = span(e.a, env)
    if low < 0 or not fits((low, high), Ty.I32):
        return simple
    form = linear(e.a, env)
    whole = Linear(tuple((a, c // divisor) for a, c in form.terms if c % divisor == 0), form.constant // divisor)
    rest = Linear(tuple((a, c) for a, c in form.terms if c % divisor), form.constant % divisor)
    rest_low, rest_high = linear_span(rest, env)
    if not (0 <= rest_low and rest_high < divisor):
        return simple
    return fold.cast(build(whole if e.op is Op.DIV else rest), e.ty)


# ---------------------------------------------------------------------------------------------------------- propagate


def propagate(body: Body) -> Body:
    """Replace variables that are assigned once, from an expression that can't change, by that expression."""
    count: dict[str, int] = {}
    values: dict[str, Expr] = {}
    for s in walk_stmts(body):
        match s:
            case Assign(name=name, value=value):
                count[name] = count.get(name, 0) + 1
                values[name] = value
            case For(var=var):
                count[var] = count.get(var, 0) + 2
    fixed = {
        n: v for n, v in values.items()
        if count[n] == 1 and all(not isinstance(x, Load | Var) for x in walk(v)) and _cheap(v)
    }  # fmt: skip
    return substitute(body, fixed) if fixed else body


def forward(body: Body, live: frozenset[str]) -> Body:
    """Within straight-line code, put the value of a variable where it is read, and drop what is never read.

    A value moves only past statements that can't change it, and only when it is read once, or costs nothing.

    Args:
        body: Statements.
        live: Variables that may be read after them.
    """
    out: list[Stmt] = list(body)
    for index, s in enumerate(out):
        after = frozenset(exposed(tuple(out[index + 1 :]))) | live
        inner = after | frozenset(exposed((s,))) if isinstance(s, For | While) else after
        if isinstance(s, While):
            inner |= names_in(s.cond) | frozenset(exposed(s.step)) | frozenset(exposed(s.body))
        if isinstance(s, For):
            inner |= frozenset(exposed(s.body))
        out[index] = with_bodies(s, tuple(forward(b, inner) for b in bodies(s)))
    index = 0
    while index < len(out):
        s = out[index]
        if isinstance(s, Assign) and _forward_one(out, index, s, live):
            del out[index]
            continue
        index += 1
    return tuple(out)


def _forward_one(out: list[Stmt], index: int, s: Assign, live: frozenset[str]) -> bool:
    """Try to remove the assignment at `index` by substituting its value into the next statement that reads it."""
    name = s.name
    if name not in live and name not in exposed(tuple(out[index + 1 :])):
        return True
    for later in range(index + 1, len(out)):
        t = out[later]
        own_reads = sum(1 for e in stmt_exprs(t) for n in walk(e) if isinstance(n, Var) and n.name == name)
        nested = any(name in read_names(b) or name in assigned(b) for b in bodies(t))
        if nested or (own_reads and isinstance(t, For | While)):
            return False
        if own_reads:
            rest = tuple(out[later + 1 :])
            ends = isinstance(t, Assign) and t.name == name
            if not ends and (name in live or name in exposed(rest)):
                return False
            if own_reads > 1 and not isinstance(s.value, Const | Param | Var):
                return False
            out[later] = map_stmt_exprs(t, lambda e: map_expr(e, lambda n: s.value if n == Var(name, n.ty) else n))
            return True
        if assigned((t,)) & names_in(s.value) or _changes_memory(t, s.value) or isinstance(t, Break | Continue):
            return False
    return False


def _changes_memory(t: Stmt, value: Expr) -> bool:
    loads = {n.buffer for n in walk(value) if isinstance(n, Load)}
    return bool(loads & written_buffers((t,)))


def _cheap(e: Expr) -> bool:
    return not any(type(n).__name__ == "Call" for n in walk(e))


# ------------------------------------------------------------------------------------------------------------ reshape


class _Reshape:
    """Loop transformations; see the module's docstring."""

    def __init__(self, program: Program, names: Names) -> None:
        self.program = program
        self.names = names

    def body(self, body: Body, env: Ranges) -> Body:
        """Reshape all loops, innermost first."""
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, For):
                fused = self._nest(s, env)
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
        for rule in (self._guard, self._stride, self._unflatten, self._split):
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
        start, stop, rest = s.start, s.stop, fold.TRUE
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
        if s.var in names_in(inner.stop) or s.var in read_names(inner.body) or _escapes(inner.body):
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
        if s.step != 1 or fold.int_value(s.start) != 0 or count is None or _escapes(s.body):
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

    def _split(self, s: For, env: Ranges) -> Body | None:
        """Split a loop where a condition on its variable, somewhere in its body, changes its truth."""
        if s.step != 1 or _escapes(s.body) or sum(1 for _ in walk_stmts(s.body)) > MAX_SPLIT_SIZE:
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


def bounded(op: Op, a: Expr, b: Expr, env: Ranges) -> Expr:
    """min or max of two I32 bounds, reduced to one of them where ranges tell which."""
    difference = linear(a, env).plus(linear(b, env), -1)
    low, high = linear_span(difference, env)
    if low == high == 0:
        return min(a, b, key=_clarity)
    if high <= 0:
        return a if op is Op.MIN else b
    if low >= 0:
        return b if op is Op.MIN else a
    return fold.binary(op, a, b, Ty.I32)


def _clarity(e: Expr) -> tuple[bool, int]:
    """Of two bounds that are equal for the given sizes, the clearer one names a size and is short."""
    nodes = list(walk(e))
    return not any(isinstance(n, Param) for n in nodes), len(nodes)


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


# --------------------------------------------------------------------------------------------------------------- dead


def remove_dead(program: Program) -> Body:
    """Drop assignments to variables, and stores to private buffers, that nothing reads; and empty statements."""
    body = program.body
    while True:
        read = read_names(body)
        loaded = {n.buffer for n in body_exprs(body) if isinstance(n, Load)}
        private = {n for n, b in program.buffers.items() if not b.exported and b.space is not Space.GLOBAL}
        private |= {n for n, b in program.buffers.items() if not b.exported}
        new = _prune(body, lambda s: _dead(s, read, loaded, private))
        if new == body:
            return body
        body = new


def _dead(s: Stmt, read: frozenset[str], loaded: set[str], private: set[str]) -> bool:
    match s:
        case Assign(name=name):
            return name not in read
        case Store(buffer=buffer):
            return buffer in private and buffer not in loaded
        case If(then=(), other=()) | For(body=()):
            return True
        case _:
            return False


def _prune(body: Body, dead: Callable[[Stmt], bool]) -> Body:
    kept: list[Stmt] = []
    for s in body:
        s = with_bodies(s, tuple(_prune(b, dead) for b in bodies(s)))
        if not dead(s):
            kept.append(s)
    return tuple(kept)
