"""Whole loop nests as bulk operations over boxes of elements.

`vectorise` replaces one loop by one-dimensional operations. This pass takes a nest with constant bounds as a whole:
it runs every statement of the nest for all iterations before the next one (where `nest.distributes` proves that this
changes nothing), keeps per-iteration variables in arrays, turns conditions on loop variables into smaller boxes, sums of
products into multiply-adds of whole columns, and other reductions into folds of halves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.cost import cost
from fabrica_agent.lowering.flow import exposed
from fabrica_agent.lowering.ir import (
    Access,
    Assign,
    Bin,
    Body,
    Call,
    Columns,
    Const,
    Elementary,
    Expr,
    For,
    Grid,
    If,
    Load,
    Op,
    Program,
    Reduce,
    Select,
    Space,
    Stmt,
    Store,
    Ty,
    Un,
    Var,
    VecOp,
    Vector,
    View,
    While,
    assigned,
    bodies,
    names_in,
    read_names,
    substitute_expr,
    walk,
    walk_stmts,
    with_bodies,
)
from fabrica_agent.lowering.linear import Linear, build
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

MAX_STRIDE = 127
MAX_DIMS = 4
SHORT = 40
"""Below this length going through the elements one by one is quicker than another fold."""
UNROLLED = 4
"""Turns of a loop around bulk operations that are written out."""
SCRATCH_LIMIT = 24 * 1024

_OPERATIONS = {Op.ADD: VecOp.ADD, Op.SUB: VecOp.SUB, Op.MUL: VecOp.MUL, Op.MAX: VecOp.MAX}
_ELEMENTARY = ("exp",)


def grids(program: Program) -> Program:
    """The program with those nests replaced for which that pays by a rough estimate."""
    copy = replace(program, buffers=dict(program.buffers), types=dict(program.types), ranges=dict(program.ranges))
    copy.body = _Grids(copy).body(copy.body, frozenset())
    return copy


@dataclass(frozen=True)
class _Ref:
    """An element of an array for each iteration."""

    buffer: str
    form: Linear


class _Grids:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = Names(program)
        self.free: list[str] = []

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
            self.free = [n for n in self.free if n in self.program.buffers]
            return None
        return new

    def temporary(self, ty: Ty, length: int) -> str:
        """A scratch array of at least `length` elements."""
        for name in self.free:
            buffer = self.program.buffers[name]
            if buffer.ty is ty and (fold.int_value(buffer.length or fold.i32(0)) or 0) >= length:
                self.free.remove(name)
                return name
        total = sum(
            (fold.int_value(b.length) or 0) * b.ty.bits // 8
            for b in self.program.buffers.values() if b.space is Space.LOCAL and b.length is not None
        )  # fmt: skip
        if total + length * ty.bits // 8 > SCRATCH_LIMIT:
            raise CannotDistributeError("too much scratch memory")
        return self.names.buffer("work", ty, fold.i32(length), Space.LOCAL)


@dataclass
class _Work:
    """What a leaf does: `target = value`, or `target = target op value` for all iterations that share the target."""

    target: _Ref | str
    value: Expr
    reduction: VecOp | None
    ty: Ty


class _Nest:
    """One attempt at a nest."""

    def __init__(self, owner: _Grids, loop: For, live: frozenset[str]) -> None:
        self.owner = owner
        self.program = owner.program
        self.env: Mapping[str, Range] = owner.program.ranges
        self.leaves = read_nest(replace(loop, body=_maxima(loop.body)), self.env)
        self.live = live
        self.places: dict[str, _Ref | None] = {}
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
            self._emit(w, leaf.box)
            self._release(held)
        self.owner.free.extend(held)
        return tuple(self.out)

    def _release(self, held: list[str]) -> None:
        for name in self.taken:
            if name not in held:
                self.owner.free.append(name)
        self.taken = list(held)

    def _temporary(self, ty: Ty, length: int) -> str:
        name = self.owner.temporary(ty, length)
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

    def _place(self, name: str) -> _Ref | None:
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
        if any(s.loops[: len(home)] != home for s in touching) or first.box != _whole(home):
            raise CannotDistributeError("a variable is set in some iterations only")
        stored = self._stored(name, touching, home)
        if stored is not None:
            return stored
        length = 1
        for loop in home:
            length *= loop.count
        return _Ref(self._temporary(self.program.types[name], length), _row_major(home))

    def _stored(self, name: str, touching: Sequence[Leaf], home: tuple[Loop, ...]) -> _Ref | None:
        """The place where a variable's value is stored in the end, if it can live there from the start."""
        last = touching[-1].statement
        if not isinstance(last, Store) or last.value != Var(name, self.program.types[name]):
            return None
        if touching[-1].loops != home or touching[-1].box != _whole(home):
            return None
        if self.program.buffers[last.buffer].ty is not self.program.types[name]:
            return None
        if any(last.buffer in _mentioned(s.statement) for s in self.leaves if s is not touching[-1]):
            return None
        form = affine(last.index, home, self.env)
        return _Ref(last.buffer, form) if _injective(form, home) else None

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

    def _work(self, leaf: Leaf) -> _Work:
        s = leaf.statement
        value = self._resolved(s.value)
        self.loops = leaf.loops
        self.box = leaf.box
        target: _Ref | str
        if isinstance(s, Assign):
            place = self.places[s.name]
            ty = self.program.types[s.name]
            if place is None:
                operation, rest = _accumulated(value, Var(s.name, ty), None)
                if operation is None or s.name in names_in(rest):
                    raise CannotDistributeError("a running value of another kind")
                return _Work(s.name, rest, operation, ty)
            target = place
        else:
            ty = self.program.buffers[s.buffer].ty
            target = _Ref(s.buffer, affine(s.index, leaf.loops, self.env))
        if _injective_in(target.form, leaf):
            return _Work(target, value, None, ty)
        operation, rest = _accumulated(value, None, (target, leaf.loops, self.env))
        if operation is None:
            raise CannotDistributeError("all iterations write one element")
        return _Work(target, rest, operation, ty)

    def _uses(self, index: int, w: _Work) -> list[Use]:
        loops = self.leaves[index].loops
        found = [
            Use(n.buffer, affine(n.index, loops, self.env), index, "read") for n in walk(w.value) if isinstance(n, Load)
        ]
        if isinstance(w.target, _Ref):
            kind = "write" if w.reduction is None else w.reduction.value
            found.append(Use(w.target.buffer, w.target.form, index, kind))
        return found

    def _emit(self, w: _Work, box: Box) -> None:
        if w.reduction is None:
            assert isinstance(w.target, _Ref)
            reads = {n.buffer for n in walk(w.value) if isinstance(n, Load)}
            self._compute(w.value, w.target, box, spare=w.target.buffer not in reads, ty=w.ty)
        else:
            self._reduction(w, box)

    # ---------------------------------------------------------------------------------------- elementwise work

    def _compute(self, e: Expr, dest: _Ref, box: Box, *, spare: bool, ty: Ty) -> None:
        """Leave `e` in `dest` for all iterations of a box; `spare`: `dest` may hold intermediate values."""
        e = _normal(e)
        if not ty.is_float:
            source = self._leaf_operand(e, box)
            if source is None or e.ty.bits != ty.bits:
                raise CannotDistributeError("integer arithmetic")
            self._operation(VecOp.MOVE, dest, (source,), box, ty)
            return
        if isinstance(e, Select):
            parts = split_select(e, box, self.env)
            if not spare and len(parts) > 1 and any(isinstance(n, Load) and n.buffer == dest.buffer for n in walk(e)):
                raise CannotDistributeError("a choice that reads what it writes")
            for value, part in parts:
                self._compute(value, dest, part, spare=spare, ty=ty)
            return
        multiply_add = self._multiply_add(e, box)
        if multiply_add is not None:
            addend, factor, scalar = multiply_add
            x = self._operand(addend, box, dest if spare else None)
            y = self._operand(factor, box, None)
            if isinstance(x, _Ref) and isinstance(y, _Ref):
                self._operation(VecOp.FMA, dest, (x, y, scalar), box, ty)
                return
        match e:
            case Bin(op=Op.ADD | Op.SUB | Op.MUL | Op.MAX as op, a=a, b=b):
                if op is not Op.SUB and isinstance(a, Select) and not isinstance(b, Select):
                    a, b = b, a
                if isinstance(_normal(b), Select) and self._varies(b, box):
                    self._choice(op, a, b, dest, box, spare=spare, ty=ty)
                    return
                x = self._operand(a, box, dest if spare else None)
                y = self._operand(b, box, dest if spare and x is not dest else None)
                self._operation(_OPERATIONS[op], dest, (x, y), box, ty)
            case Bin(op=Op.DIV, a=a, b=b):
                self._quotient(a, b, dest, box, spare=spare, ty=ty)
            case Un(op="-", a=a):
                self._operation(VecOp.NEG, dest, (self._operand(a, box, dest if spare else None),), box, ty)
            case Call(fn="abs", args=(a,)):
                self._operation(VecOp.ABS, dest, (self._operand(a, box, dest if spare else None),), box, ty)
            case Call(fn=fn, args=(a,)) if fn in _ELEMENTARY and ty is Ty.F32 and self._varies(e, box):
                inner = self._work_array(box, ty)
                self._compute(a, inner, box, spare=True, ty=ty)
                self._elementary(fn, inner, box, ty)
                self._operation(VecOp.MOVE, dest, (inner,), box, ty)
            case _:
                source = self._leaf_operand(e, box)
                if source is None:
                    self._scalar_loop(e, dest, box)
                else:
                    self._operation(VecOp.MOVE, dest, (source,), box, ty)

    def _choice(self, op: Op, a: Expr, b: Expr, dest: _Ref, box: Box, *, spare: bool, ty: Ty) -> None:
        """`a op (condition ? p : q)`: `a` for all, then each side of the choice for its part of the box."""
        target = dest if spare else self._work_array(box, ty)
        self._compute(a, target, box, spare=True, ty=ty)
        choice = _normal(b)
        assert isinstance(choice, Select)
        held = Load(target.buffer, build(target.form), ty)
        for value, part in split_select(choice, box, self.env):
            self._compute(Bin(op, held, value, ty), target, part, spare=False, ty=ty)
        if target is not dest:
            self._operation(VecOp.MOVE, dest, (target,), box, ty)

    def _quotient(self, a: Expr, b: Expr, dest: _Ref, box: Box, *, spare: bool, ty: Ty) -> None:
        if not self._varies(b, box):
            self._compute(Bin(Op.MUL, a, Bin(Op.DIV, Const(1.0, ty), b, ty), ty), dest, box, spare=spare, ty=ty)
            return
        if ty is not Ty.F32:
            raise CannotDistributeError("division in half precision")
        below = self._work_array(box, ty)
        self._compute(b, below, box, spare=True, ty=ty)
        self._elementary("reciprocal", below, box, ty)
        if isinstance(a, Const) and a.value == 1.0:
            self._operation(VecOp.MOVE, dest, (below,), box, ty)
            return
        x = self._operand(a, box, dest if spare else None)
        self._operation(VecOp.MUL, dest, (x, below), box, ty)

    def _elementary(self, fn: str, array: _Ref, box: Box, ty: Ty) -> None:
        count = _volume(box, self.loops)
        scratch = tuple(self._temporary(ty, count) for _ in range(2))
        self.out.append(Elementary(fn, View(array.buffer, fold.i32(0), ((count, 1),)), scratch, ty))

    def _scalar_loop(self, e: Expr, dest: _Ref, box: Box) -> None:
        """What has no bulk form, element by element."""
        body: Body = (Store(dest.buffer, build(dest.form), e),)
        for loop in reversed(self.loops):
            low, high = box[loop.var]
            body = (For(loop.var, Ty.I32, fold.i32(low), fold.i32(high), 1, body),)
        self.out.extend(body)

    def _operand(self, e: Expr, box: Box, spare: _Ref | None) -> _Ref | Expr:
        e = _normal(e)
        leaf = self._leaf_operand(e, box)
        if leaf is not None:
            return leaf
        target = spare or self._work_array(box, e.ty)
        self._compute(e, target, box, spare=True, ty=e.ty)
        return target

    def _leaf_operand(self, e: Expr, box: Box) -> _Ref | Expr | None:
        """An operand that needs no computation: a scalar or an array element that is linear in the loop variables."""
        fixed = {v: fold.i32(low) for v, (low, high) in box.items() if high - low == 1}
        e = substitute_expr(e, dict(fixed))
        if not self._varies(e, box):
            return e
        return _Ref(e.buffer, affine(e.index, self.loops, self.env)) if isinstance(e, Load) else None

    def _varies(self, e: Expr, box: Box) -> bool:
        return bool(names_in(e) & {v for v, (low, high) in box.items() if high - low > 1})

    def _multiply_add(self, e: Expr, box: Box) -> tuple[Expr, Expr, Expr] | None:
        """`addend + factor * scalar`, when exactly one factor is the same for all iterations."""
        if e.ty is not Ty.F32 or not isinstance(e, Bin) or e.op not in (Op.ADD, Op.SUB):
            return None
        for product, addend in ((e.b, e.a), (e.a, e.b)) if e.op is Op.ADD else ((e.b, e.a),):
            product, addend = _normal(product), _normal(addend)
            if not isinstance(product, Bin) or product.op is not Op.MUL or not self._varies(addend, box):
                continue
            if isinstance(addend, Select):
                continue
            for factor, scalar in ((product.a, product.b), (product.b, product.a)):
                if self._varies(factor, box) and not self._varies(scalar, box):
                    return addend, factor, fold.unary("-", scalar, e.ty) if e.op is Op.SUB else scalar
        return None

    def _work_array(self, box: Box, ty: Ty) -> _Ref:
        loops = tuple(Loop(x.var, box[x.var][0], box[x.var][1] - box[x.var][0]) for x in self.loops)
        return _Ref(self._temporary(ty, _volume(box, self.loops)), _row_major(loops))

    # ------------------------------------------------------------------------------------------------ operations

    def _operation(self, op: VecOp, dest: _Ref, sources: tuple[_Ref | Expr, ...], box: Box, ty: Ty) -> None:
        """One bulk operation over a box, in as few dimensions as the strides allow."""
        if op is VecOp.MOVE and sources == (dest,):
            return
        self.out.extend(self._bulk(op, dest, sources, box, ty))

    def _bulk(self, op: VecOp, dest: _Ref, sources: tuple[_Ref | Expr, ...], box: Box, ty: Ty) -> Body:
        refs = (dest, *(x for x in sources if isinstance(x, _Ref)))
        if op in (VecOp.SUB,) and not isinstance(sources[0], _Ref) and not isinstance(sources[1], _Ref):
            raise CannotDistributeError("scalar arithmetic")
        if not any(isinstance(x, _Ref) for x in sources) and op is not VecOp.MOVE:
            raise CannotDistributeError("scalar arithmetic")
        dims = _dimensions(refs, box)
        outer, inner = dims[:-MAX_DIMS], dims[-MAX_DIMS:]
        starts = {r: self._start(r, box) for r in refs}
        names: list[tuple[Var, int]] = []
        for extent, strides in outer:
            var = self.owner.names.variable("turn", Ty.I32)
            names.append((var, extent))
            starts = {
                r: s.plus(Linear(((var, strides[k]),) if strides[k] else (), 0))
                for k, (r, s) in enumerate((r, starts[r]) for r in refs)
            }
        views = {
            r: View(r.buffer, build(starts[r]), tuple((extent, strides[k]) for extent, strides in inner))
            for k, r in enumerate(refs)
        }
        parts = tuple(views[x] if isinstance(x, _Ref) else x for x in sources)
        body: Body = (_flat(op, views[dest], parts, ty),)
        for var, extent in reversed(names):
            body = (For(var.name, Ty.I32, fold.i32(0), fold.i32(extent), 1, body),)
        return body

    def _start(self, r: _Ref, box: Box) -> Linear:
        start = r.form
        for v, (low, _) in box.items():
            factor = start.of(v)
            if factor:
                start = start.without(v).plus(Linear((), factor * low))
        return start

    # ------------------------------------------------------------------------------------------------- reductions

    def _reduction(self, w: _Work, box: Box) -> None:
        assert w.reduction is not None
        dims = [x for x in self.loops if box[x.var][1] - box[x.var][0] > 1]
        kept = [x for x in dims if isinstance(w.target, _Ref) and w.target.form.of(x.var)]
        if not w.ty.is_float:
            raise CannotDistributeError("an integer reduction")
        value, sign = _normal(w.value), w.reduction is VecOp.SUB
        operation = VecOp.ADD if sign else w.reduction
        if operation is VecOp.ADD and w.ty is Ty.F32 and isinstance(w.target, _Ref) and kept:
            if self._by_columns(w.target, value, sign, dims, kept, box):
                return
        if sign:
            value = Un("-", value, w.ty)
        source = self._operand(value, box, None)
        if not isinstance(source, _Ref):
            raise CannotDistributeError("a reduction of a scalar")
        if isinstance(w.target, _Ref) and kept and _volume(box, tuple(kept)) >= 4:
            rest = [x for x in dims if x not in kept]
            body = self._in_loops(
                rest, box, lambda b: self._bulk(operation, w.target, (w.target, source), b, w.ty)  # type: ignore[arg-type]
            )
            self.out.extend(body)
            return
        if kept:
            raise CannotDistributeError("short reductions")
        self._fold(w, operation, source, box)

    def _in_loops(self, loops: Sequence[Loop], box: Box, make: object) -> Body:
        """`make` for each iteration of some loops: written out when they are few."""
        total = 1
        for x in loops:
            total *= box[x.var][1] - box[x.var][0]
        if total <= UNROLLED:
            boxes = [box]
            for x in loops:
                boxes = [{**b, x.var: (v, v + 1)} for b in boxes for v in range(*box[x.var])]
            return tuple(s for b in boxes for s in make(b))  # type: ignore[operator]
        inner = {v: r for v, r in box.items() if v not in {x.var for x in loops}}
        body: Body = make(inner)  # type: ignore[operator]
        for x in reversed(loops):
            low, high = box[x.var]
            body = (For(x.var, Ty.I32, fold.i32(low), fold.i32(high), 1, body),)
        return body

    def _by_columns(
        self, target: _Ref, value: Expr, sign: bool, dims: list[Loop], kept: list[Loop], box: Box
    ) -> bool:
        """A sum of products as multiply-adds of vectors by scalars."""
        if not isinstance(value, Bin) or value.op is not Op.MUL:
            return False
        best: tuple[int, list[Loop], Expr, _Ref] | None = None
        for scalar, vector in ((value.a, value.b), (value.b, value.a)):
            ref = self._leaf_operand(_normal(vector), box)
            if not isinstance(ref, _Ref):
                continue
            along = [x for x in kept if x.var not in names_in(scalar) and ref.form.of(x.var)]
            volume = _volume(box, tuple(along))
            if volume >= 4 and (best is None or volume > best[0]):
                best = (volume, along, scalar, ref)
        if best is None:
            return False
        _, along, scalar, ref = best
        rest = [x for x in dims if x not in along]
        rest.sort(key=lambda x: not target.form.of(x.var))
        inner = {v: r for v, r in box.items() if v not in {x.var for x in rest}}
        body = self._walk(target, ref, scalar, rest[-1], inner, box) if rest and not sign else None
        loops = rest[:-1]
        if body is None:
            factor = fold.unary("-", scalar, Ty.F32) if sign else scalar
            body, loops = self._bulk(VecOp.FMA, target, (target, ref, factor), inner, Ty.F32), rest
        for x in reversed(loops):
            low, high = box[x.var]
            body = (For(x.var, Ty.I32, fold.i32(low), fold.i32(high), 1, body),)
        self.out.extend(body)
        return True

    def _walk(self, target: _Ref, column: _Ref, scalar: Expr, loop: Loop, inner: Box, box: Box) -> Body | None:
        """The innermost loop over columns as one statement."""
        if not isinstance(scalar, Load) or target.form.of(loop.var):
            return None
        factors = _Ref(scalar.buffer, affine(scalar.index, self.loops, self.env))
        low, high = box[loop.var]
        step, stride = column.form.of(loop.var), factors.form.of(loop.var)
        dims = _dimensions((target, column), inner)
        if len(dims) != 1 or stride == 0 or abs(stride) > MAX_STRIDE or scalar.buffer == target.buffer:
            return None
        ((extent, strides),) = dims
        if any(abs(x) > MAX_STRIDE for x in strides) or not 0 <= abs(step) <= 1 << 14:
            return None
        at = {**inner, loop.var: (low, low + 1)}
        return (
            Columns(
                View(target.buffer, build(self._start(target, at)), ((extent, strides[0]),)),
                View(column.buffer, build(self._start(column, at)), ((extent, strides[1]),)),
                step,
                View(factors.buffer, build(self._start(factors, at)), ((high - low, stride),)),
                Ty.F32,
            ),
        )

    def _fold(self, w: _Work, op: VecOp, source: _Ref, box: Box) -> None:
        """Reduce a vector to one number by folding its second half onto the first until little is left."""
        dims = _dimensions((source,), box)
        if len(dims) > 1:
            packed = self._work_array(box, w.ty)
            self._operation(VecOp.MOVE, packed, (source,), box, w.ty)
            source, dims = packed, _dimensions((packed,), box)
        count, (stride,) = dims[0] if dims else (1, (1,))
        if abs(stride) > MAX_STRIDE:
            raise CannotDistributeError("stride too long")
        start, buffer = self._start(source, box), source.buffer
        own = buffer in self.taken
        while count > SHORT:
            half = count // 2
            if (count - half) % 4 == 0:
                half -= 1
            rest = count - half
            front, back = start, start.plus(Linear((), stride * rest))
            if own:
                dest = _access(buffer, start, stride, half)
            else:
                name = self._temporary(w.ty, rest)
                dest = _access(name, Linear((), 0), 1, half)
                if rest > half:
                    left = _access(buffer, start.plus(Linear((), stride * half)), stride, rest - half)
                    tail = _access(name, Linear((), half), 1, rest - half)
                    self.out.append(Vector(VecOp.MOVE, tail, (left,), w.ty))
            sources = (_access(buffer, front, stride, half), _access(buffer, back, stride, half))
            self.out.append(Vector(op, dest, sources, w.ty))
            if not own:
                buffer, start, stride, own = dest.buffer, Linear((), 0), 1, True
            count = rest
        access = _access(buffer, start, stride, count)
        if isinstance(w.target, str):
            self.out.append(Reduce(op, w.target, None, access, w.ty))
        else:
            self.out.append(Reduce(op, w.target.buffer, build(self._start(w.target, box)), access, w.ty))


# ------------------------------------------------------------------------------------------------------- helpers


def _access(buffer: str, start: Linear, stride: int, count: int) -> Access:
    return Access(buffer, build(start), stride, fold.i32(count))


def _dimensions(refs: Sequence[_Ref], box: Box) -> list[tuple[int, tuple[int, ...]]]:
    """Extents and strides of some references over a box, merged where they allow it, longest strides first."""
    dims = [
        (high - low, tuple(r.form.of(v) for r in refs)) for v, (low, high) in box.items() if high - low > 1
    ]  # fmt: skip
    dims = [d for d in dims if any(d[1])]
    dims.sort(key=lambda d: -abs(d[1][0]))
    merged: list[tuple[int, tuple[int, ...]]] = []
    for extent, strides in dims:
        if merged and all(outer == extent * own for outer, own in zip(merged[-1][1], strides, strict=True)):
            merged[-1] = (merged[-1][0] * extent, strides)
        else:
            merged.append((extent, strides))
    return merged


def _flat(op: VecOp, dest: View, sources: tuple[View | Expr, ...], ty: Ty) -> Stmt:
    """A one-dimensional operation where it is one, for which a DSD is cheapest to make and to move."""
    views = [dest, *(x for x in sources if isinstance(x, View))]
    if len(dest.dims) > 1 or any(abs(stride) > MAX_STRIDE for v in views for _, stride in v.dims):
        return Grid(op, dest, sources, ty)

    def access(v: View) -> Access:
        extent, stride = v.dims[0] if v.dims else (1, 1)
        return Access(v.buffer, v.start, stride, fold.i32(extent))

    return Vector(op, access(dest), tuple(access(x) if isinstance(x, View) else x for x in sources), ty)


def _whole(loops: Sequence[Loop]) -> Box:
    return {x.var: (x.first, x.first + x.count) for x in loops}


def _volume(box: Box, loops: Sequence[Loop]) -> int:
    total = 1
    for x in loops:
        total *= box[x.var][1] - box[x.var][0]
    return total


def _row_major(loops: Sequence[Loop]) -> Linear:
    form, scale = Linear((), 0), 1
    for x in reversed(loops):
        form = form.plus(Linear(((Var(x.var, Ty.I32), scale),), -scale * x.first))
        scale *= x.count
    return form


def _mentioned(s: Assign | Store) -> set[str]:
    found = {n.buffer for e in ((s.value, s.index) if isinstance(s, Store) else (s.value,)) for n in walk(e)
             if isinstance(n, Load)}  # fmt: skip
    return found | ({s.buffer} if isinstance(s, Store) else set())


def _injective(form: Linear, loops: Sequence[Loop]) -> bool:
    """Whether an index is different in every iteration."""
    return _distinct([(form.of(x.var), x.first, x.count) for x in loops])


def _injective_in(form: Linear, leaf: Leaf) -> bool:
    return _distinct([(form.of(x.var), leaf.box[x.var][0], leaf.box[x.var][1] - leaf.box[x.var][0]) for x in leaf.loops])


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


def _accumulated(
    value: Expr, own: Var | None, place: tuple[_Ref, tuple[Loop, ...], Mapping[str, Range]] | None
) -> tuple[VecOp | None, Expr]:
    """`x op rest` as (op, rest), where x is the variable, or the array element, that the statement sets."""

    def is_own(e: Expr) -> bool:
        if own is not None:
            return e == own
        assert place is not None
        ref, loops, env = place
        return isinstance(e, Load) and e.buffer == ref.buffer and affine(e.index, loops, env) == ref.form

    if isinstance(value, Bin) and value.op is Op.MAX:
        for x, rest in ((value.a, value.b), (value.b, value.a)):
            if is_own(x):
                return VecOp.MAX, rest
    terms = _terms(value)
    mine = [k for k, (sign, e) in enumerate(terms) if sign > 0 and is_own(e)]
    if len(mine) != 1 or len(terms) < 2:
        return None, value
    rest = [t for k, t in enumerate(terms) if k != mine[0]]
    if all(sign < 0 for sign, _ in rest):
        return VecOp.SUB, _sum([(1, e) for _, e in rest], value.ty)
    rest.sort(key=lambda t: -t[0])
    return VecOp.ADD, _sum(rest, value.ty)


def _terms(e: Expr) -> list[tuple[int, Expr]]:
    """The terms of a sum with their signs."""
    if isinstance(e, Bin) and e.ty.is_float and e.op in (Op.ADD, Op.SUB):
        flip = 1 if e.op is Op.ADD else -1
        return [*_terms(e.a), *((flip * sign, x) for sign, x in _terms(e.b))]
    return [(1, e)]


def _sum(terms: Sequence[tuple[int, Expr]], ty: Ty) -> Expr:
    total = terms[0][1]
    for sign, e in terms[1:]:
        total = Bin(Op.ADD if sign > 0 else Op.SUB, total, e, ty)
    return total


def _maxima(body: Body) -> Body:
    """`if (v > x) x = v` as `x = max(x, v)`."""
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, tuple(_maxima(b) for b in bodies(s)))
        if isinstance(s, If) and len(s.then) == 1 and not s.other and isinstance(s.then[0], Assign):
            name, value, cond = s.then[0].name, s.then[0].value, s.cond
            own = Var(name, value.ty)
            if value.ty.is_float and isinstance(cond, Bin):
                bigger = (cond.a, cond.b) if cond.op in (Op.GT, Op.GE) else (cond.b, cond.a)
                if cond.op in (Op.GT, Op.GE, Op.LT, Op.LE) and bigger == (value, own):
                    s = Assign(name, Bin(Op.MAX, own, value, value.ty))
        out.append(s)
    return tuple(out)


def _normal(e: Expr) -> Expr:
    """Equivalent forms with a bulk operation: min by max, rectifiers, subtraction of a product, tanh by exp."""
    match e:
        case Bin(op=Op.MIN, a=a, b=b, ty=ty) if ty.is_float:
            return Un("-", Bin(Op.MAX, fold.unary("-", a, ty), fold.unary("-", b, ty), ty), ty)
        case Bin(op=Op.ADD, a=Const(value=0.0), b=b):
            return _normal(b)
        case Select(cond=Bin(op=Op.GT | Op.GE, a=x, b=y), a=a, b=b) if e.ty.is_float and a == x and b == y:
            return Bin(Op.MAX, a, b, e.ty)
        case Select(cond=Bin(op=Op.LT | Op.LE, a=x, b=y), a=a, b=b) if e.ty.is_float and a == y and b == x:
            return Bin(Op.MAX, a, b, e.ty)
        case Select(cond=Bin(op=Op.GT | Op.GE, a=x, b=Const(value=0.0)), a=a, b=b) if e.ty.is_float and a == x:
            if isinstance(b, Bin) and b.op is Op.MUL:
                for factor, other in ((b.a, b.b), (b.b, b.a)):
                    if other == x and isinstance(factor, Const) and 0.0 <= float(factor.value) <= 1.0:
                        return Bin(Op.MAX, x, b, e.ty)
            return e
        case Call(fn="tanh", args=(a,), ty=ty) if ty is Ty.F32:
            twice = Call("exp", (Bin(Op.MUL, Const(2.0, ty), a, ty),), ty)
            return Bin(Op.SUB, Const(1.0, ty), Bin(Op.DIV, Const(2.0, ty), Bin(Op.ADD, twice, Const(1.0, ty), ty), ty), ty)
        case _:
            return e


def uses_bulk(body: Body) -> bool:
    """Whether a body has any bulk operation."""
    return any(isinstance(s, Vector | Reduce | Grid | Columns | Elementary) for s in walk_stmts(body))
