"""Loops to bulk operations.

The threads of a CUDA kernel become the elements of a DSD operation: a parallel loop is vectorised over its variable,
with inner sequential loops kept around the bulk operations, and per-thread scalars kept as arrays. Sequential loops are
vectorised where no iteration depends on another one, and as reductions. What doesn't fit stays a scalar loop; of the
possible forms the cheapest is taken by a rough cost estimate.
"""

from __future__ import annotations

from dataclasses import replace

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.cost import cost
from fabrica_agent.lowering.flow import exposed
from fabrica_agent.lowering.forms import simple_form
from fabrica_agent.lowering.intervals import loop_range, refine
from fabrica_agent.lowering.ir import (
    Access,
    Assign,
    Bin,
    Body,
    Call,
    Const,
    Expr,
    For,
    If,
    Load,
    Op,
    Parallel,
    Program,
    Reduce,
    Space,
    Stmt,
    Store,
    Ty,
    Un,
    Var,
    VecOp,
    Vector,
    While,
    assigned,
    bodies,
    body_exprs,
    names_in,
    read_buffers,
    read_names,
    walk,
    walk_stmts,
    with_bodies,
    written_buffers,
)  # fmt: skip
from fabrica_agent.lowering.linear import Linear, build, linear, linear_span
from fabrica_agent.lowering.names import Names
from fabrica_agent.lowering.ranges import Range, span
from fabrica_agent.lowering.scratch import Scratch

MAX_STRIDE = 127
"""The stride of a one-dimensional DSD is an i8 (Cerebras SDK, language reference)."""

_OPERATIONS = {Op.ADD: VecOp.ADD, Op.SUB: VecOp.SUB, Op.MUL: VecOp.MUL, Op.MAX: VecOp.MAX}


class _CannotVectoriseError(Exception):
    """This loop has no bulk form; the reason is for debugging."""


def vectorise(program: Program) -> Program:
    """The program with bulk operations where they pay."""
    copy = replace(program, buffers=dict(program.buffers), types=dict(program.types))
    copy.body = _Vectoriser(copy).body(copy.body, dict(program.ranges), frozenset())
    used = read_buffers(copy.body) | written_buffers(copy.body)
    copy.buffers = {n: b for n, b in copy.buffers.items() if b.exported or n in used}
    return copy


class _Vectoriser:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = Names(program)
        self.scratch = Scratch(self.names, "scratch")

    def body(self, body: Body, env: dict[str, Range], live: frozenset[str]) -> Body:
        """Vectorise the loops of a body. `live`: variables that may be read after it."""
        out: list[Stmt] = []
        for index, s in enumerate(body):
            after = live | frozenset(exposed(body[index + 1 :]))
            if isinstance(s, For):
                out.extend(self._loop(s, env, after))
            elif isinstance(s, If):
                then = self.body(s.then, refine(s.cond, env, True), after)
                out.append(replace(s, then=then, other=self.body(s.other, refine(s.cond, env, False), after)))
            else:
                inner = after | frozenset(exposed((s,))) | (read_names((s,)) if bodies(s) else frozenset())
                out.append(with_bodies(s, tuple(self.body(b, env, inner) for b in bodies(s))))
        return tuple(out)

    def _loop(self, s: For, env: dict[str, Range], live: frozenset[str]) -> Body:
        run = loop_range(s, env)
        inner_env = {**env, s.var: run} if run is not None else env
        around = live | frozenset(exposed(s.body))
        nested: Body = (replace(s, body=self.body(s.body, inner_env, around)),)
        try:
            bulk = _Bulk(self, s, inner_env, live).run()
        except _CannotVectoriseError:
            return nested
        return bulk if cost(bulk, env) < cost(nested, env) else nested


class _Bulk:
    """One attempt at vectorising a loop over its variable."""

    def __init__(self, owner: _Vectoriser, loop: For, env: dict[str, Range], live: frozenset[str]) -> None:
        self.owner = owner
        self.loop = loop
        self.env = env
        self.live = live
        self.count = build(linear(loop.stop, env, symbolic=True).plus(linear(loop.start, env, symbolic=True), -1))
        if loop.step != 1:
            trips = fold.int_value(self.count)
            if trips is None or loop.step < 0:
                raise _CannotVectoriseError("unknown trip count")
            self.count = fold.i32(-(-trips // loop.step))
        low, high = span(self.count, env)
        self.longest = max(high, 0)
        self.may_be_empty = low <= 0
        self.written = written_buffers(loop.body)
        self.own = assigned(loop.body) | {loop.var}
        self.vectors: dict[str, Access] = {}
        self.scratch: list[str] = []

    def run(self) -> Body:
        """The bulk form.

        Raises:
            _CannotVectoriseError: There is none.
        """
        if self.longest < 2 or names_in(self.count) & self.own:
            raise _CannotVectoriseError("short or odd loop")
        self._check_memory()
        private = assigned(self.loop.body) - {s.var for s in walk_stmts(self.loop.body) if isinstance(s, For)}
        reduced = {n for n in private if self._accumulates(n)}
        if (private - reduced) & (self.live | frozenset(exposed(self.loop.body))):
            raise _CannotVectoriseError("a variable is carried from one iteration to the next")
        body = self._statements(self.loop.body, self.env)
        self.owner.scratch.give_back(dict.fromkeys(self.scratch))
        if self.may_be_empty:
            return (If(fold.binary(Op.GT, self.count, fold.i32(0), Ty.BOOL), body),)
        return body

    # ------------------------------------------------------------------------------------------------- dependences

    def _check_memory(self) -> None:
        """Every write must go to a different element in each iteration, which no other iteration touches."""
        stores = [s for s in walk_stmts(self.loop.body) if isinstance(s, Store)]
        if any(not isinstance(s, Store | Assign | For | While) for s in walk_stmts(self.loop.body)):
            raise _CannotVectoriseError("control flow or bulk operations inside")
        loads = [n for n in body_exprs(self.loop.body) if isinstance(n, Load)]
        for s in stores:
            write = self._form(s.index)
            if write.of(self.loop.var) == 0:
                if not self._is_reduction(s) or sum(1 for x in stores if x.buffer == s.buffer) > 1:
                    raise _CannotVectoriseError("all iterations write one element")
                others = [n for n in loads if n.buffer == s.buffer and n.index != s.index]
                if others:
                    raise _CannotVectoriseError("a reduction into an array that is also read")
                continue
            for index in [n.index for n in loads if n.buffer == s.buffer] + [
                x.index for x in stores if x.buffer == s.buffer
            ]:
                if not self._independent(s.buffer, write, index):
                    raise _CannotVectoriseError("iterations depend on each other")

    def _form(self, index: Expr) -> Linear:
        form = linear(index, self.env)
        if form.opaque_in(self.loop.var):
            raise _CannotVectoriseError("an index that isn't linear")
        return form

    def _independent(self, buffer: str, write: Linear, index: Expr) -> bool:
        space = self.owner.program.buffers[buffer].space
        trusted = (Space.GLOBAL, Space.SHARED) if self.loop.parallel is Parallel.THREAD else (Space.GLOBAL,)
        if self.loop.parallel and space in trusted:
            return True  # threads that touch each other's elements without a barrier would be a race in CUDA
        other = linear(index, self.env)
        if other.opaque_in(self.loop.var):
            return False
        step = write.of(self.loop.var)
        difference = other.plus(write, -1)
        if difference == Linear((), 0):
            # The same element in the same iteration; inner loop variables move it within the iteration only.
            inner = {n.var for n in walk_stmts(self.loop.body) if isinstance(n, For)}
            return not write.mentions(inner)
        if difference.terms:
            low, high = linear_span(difference, self.env)
            return low > abs(step) * self.longest or high < -abs(step) * self.longest
        distance = difference.constant
        return distance % step != 0 or abs(distance) >= abs(step) * self.longest * self.loop.step

    def _is_reduction(self, s: Store) -> bool:
        v = s.value
        return isinstance(v, Bin) and v.op in (Op.ADD, Op.MAX) and v.a == Load(s.buffer, s.index, v.ty)

    def _accumulates(self, name: str) -> bool:
        """Whether a variable is only ever used as `name = name op value` at the top level of the loop."""
        uses = [s for s in self.loop.body if name in assigned((s,)) | read_names((s,))]
        if len(uses) != 1 or not isinstance(uses[0], Assign):
            return False
        value = uses[0].value
        return (
            isinstance(value, Bin) and value.op in (Op.ADD, Op.MAX) and value.a == Var(name, value.ty)
            and name not in names_in(value.b)
        )  # fmt: skip

    # -------------------------------------------------------------------------------------------------- statements

    def _statements(self, body: Body, env: dict[str, Range]) -> Body:
        out: list[Stmt] = []
        for s in body:
            match s:
                case Store(buffer=buffer, index=index, value=value):
                    self._store(buffer, index, value, out)
                case Assign(name=name, value=value):
                    self._assign(name, value, out)
                case For(start=start, stop=stop):
                    if any(self._varies(e) for e in (start, stop)):
                        raise _CannotVectoriseError("inner bounds depend on the vectorised variable")
                    out.append(replace(s, body=self._statements(s.body, env)))
                case While(cond=cond):
                    if self._varies(cond):
                        raise _CannotVectoriseError("inner condition depends on the vectorised variable")
                    out.append(replace(s, body=self._statements(s.body, env), step=self._statements(s.step, env)))
                case _:
                    raise _CannotVectoriseError("statement without a bulk form")
        return tuple(out)

    def _varies(self, e: Expr) -> bool:
        """Whether an expression differs between iterations, or might change while the loop runs."""
        names = names_in(e)
        inner = {s.var for s in walk_stmts(self.loop.body) if isinstance(s, For)}
        if names & (self.own - inner):
            return True
        return any(isinstance(n, Load) and n.buffer in self.written for n in walk(e))

    def _assign(self, name: str, value: Expr, out: list[Stmt]) -> None:
        ty = value.ty
        if not ty.is_float:
            raise _CannotVectoriseError("integer variables have no bulk form")
        if self._accumulates(name) and isinstance(value, Bin):
            source = self._operand(value.b, out, set())
            if not isinstance(source, Access):
                raise _CannotVectoriseError("accumulating a scalar")
            out.append(Reduce(_OPERATIONS[value.op], name, None, source, ty))
            return
        if name not in self.vectors:
            self.vectors[name] = self._scratch(ty)
        self._into(self.vectors[name], value, out)

    def _store(self, buffer: str, index: Expr, value: Expr, out: list[Stmt]) -> None:
        form = self._form(index)
        if form.of(self.loop.var) == 0 and isinstance(value, Bin):
            source = self._operand(value.b, out, set())
            if not isinstance(source, Access):
                raise _CannotVectoriseError("accumulating a scalar")
            out.append(Reduce(_OPERATIONS[value.op], buffer, index, source, value.ty))
            return
        self._into(self._access(buffer, index), value, out)

    def _access(self, buffer: str, index: Expr) -> Access:
        form = linear(index, self.env, symbolic=True)
        if form.of(self.loop.var) != self._form(index).of(self.loop.var):
            form = self._form(index)
        stride = form.of(self.loop.var) * self.loop.step
        if abs(stride) > MAX_STRIDE:
            raise _CannotVectoriseError("stride too long")
        first_index = linear(self.loop.start, self.env, symbolic=True)
        start = form.without(self.loop.var).plus(first_index, form.of(self.loop.var))
        if start.mentions(self.vectors):
            raise _CannotVectoriseError("an index that is a vector")
        inner = {s.var for s in walk_stmts(self.loop.body) if isinstance(s, For)}
        if start.mentions(self.own - inner):
            raise _CannotVectoriseError("an index that changes in the loop")
        first = build(start)
        if any(isinstance(n, Load) and n.buffer in self.written for n in walk(first)):
            raise _CannotVectoriseError("an index read from an array that the loop writes")
        return Access(buffer, first, stride, self.count)

    def _scratch(self, ty: Ty) -> Access:
        name = self.owner.scratch.take(ty, self.longest)
        if name is None:
            raise _CannotVectoriseError("too much scratch memory")
        self.scratch.append(name)
        return Access(name, fold.i32(0), 1, self.count)

    # ------------------------------------------------------------------------------------------------- expressions

    def _into(self, dest: Access, value: Expr, out: list[Stmt]) -> None:
        """Emit operations that leave `value` in `dest`."""
        ty = self.owner.program.buffers[dest.buffer].ty
        if not value.ty.is_float:
            plain = isinstance(value, Load | Const) or not self._varies(value)
            if not plain or value.ty.bits not in (16, 32) or ty.bits != value.ty.bits:
                raise _CannotVectoriseError("integer arithmetic has no bulk form")
            out.append(Vector(VecOp.MOVE, dest, (self._leaf(value),), ty))
            return
        # The destination can hold intermediate results unless the value still reads its array.
        reads = {n.buffer for n in walk(value) if isinstance(n, Load)}
        reads |= {self.vectors[n.name].buffer for n in walk(value) if isinstance(n, Var) and n.name in self.vectors}
        free = set() if dest.buffer in reads else {dest.buffer}
        self._compute(dest, value, out, dest if free else None)

    def _compute(self, dest: Access, e: Expr, out: list[Stmt], spare: Access | None) -> None:
        """The operation at the root of `e` writes `dest`; its first operand may use `spare`."""
        e = simple_form(e)
        ty = e.ty
        fma = self._fma(e)
        if fma is not None:
            addend, factor, scalar = fma
            sources = (self._operand(addend, out, spare), self._operand(factor, out, None), scalar)
            if not all(isinstance(x, Access) for x in sources[:2]):
                raise _CannotVectoriseError("multiply-add of scalars")
            out.append(Vector(VecOp.FMA, dest, sources, ty))
            return
        match e:
            case Bin(op=Op.ADD | Op.SUB | Op.MUL | Op.MAX as op, a=a, b=b):
                x = self._operand(a, out, spare)
                y = self._operand(b, out, None if isinstance(x, Access) and x is spare else spare)
                if not isinstance(x, Access) and not isinstance(y, Access):
                    raise _CannotVectoriseError("scalar arithmetic")
                if op is Op.SUB and not isinstance(x, Access):
                    raise _CannotVectoriseError("scalar minus vector")
                out.append(Vector(_OPERATIONS[op], dest, (x, y), ty))
            case Un(op="-", a=a):
                out.append(Vector(VecOp.NEG, dest, (self._operand(a, out, spare),), ty))
            case Call(fn="abs", args=(a,)):
                out.append(Vector(VecOp.ABS, dest, (self._operand(a, out, spare),), ty))
            case _:
                out.append(Vector(VecOp.MOVE, dest, (self._leaf(e),), ty))

    def _operand(self, e: Expr, out: list[Stmt], spare: Access | set[str] | None) -> Access | Expr:
        """A source operand: a leaf as it is, anything else computed into `spare` or a new scratch array."""
        e = simple_form(e)
        if not self._varies(e):
            return e
        if isinstance(e, Load | Var):
            return self._leaf(e)
        target = spare if isinstance(spare, Access) else self._scratch(e.ty)
        self._compute(target, e, out, target)
        return target

    def _leaf(self, e: Expr) -> Access | Expr:
        if not self._varies(e):
            return e
        if isinstance(e, Var) and e.name in self.vectors:
            return self.vectors[e.name]
        if isinstance(e, Load):
            form = self._form(e.index)
            if form.of(self.loop.var) == 0:
                raise _CannotVectoriseError("reads one element of an array that the loop writes")
            return self._access(e.buffer, e.index)
        raise _CannotVectoriseError("operand without a bulk form")

    def _fma(self, e: Expr) -> tuple[Expr, Expr, Expr] | None:
        """`addend + factor * scalar` as its three parts, when exactly one factor is the same for all iterations."""
        if e.ty is not Ty.F32 or not isinstance(e, Bin) or e.op not in (Op.ADD, Op.SUB):
            return None
        for product, addend in ((e.b, e.a), (e.a, e.b)) if e.op is Op.ADD else ((e.b, e.a),):
            product, addend = simple_form(product), simple_form(addend)
            if isinstance(product, Bin) and product.op is Op.MUL and self._varies(addend):
                for factor, scalar in ((product.a, product.b), (product.b, product.a)):
                    if self._varies(factor) and not self._varies(scalar):
                        return addend, factor, fold.unary("-", scalar, e.ty) if e.op is Op.SUB else scalar
        return None
