"""Bulk operations for what a leaf of a nest does: elementwise work, multiply-adds of columns, folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.forms import Ref, normal
from fabrica_agent.lowering.ir import (
    Access,
    Bin,
    Body,
    Call,
    Columns,
    Const,
    Elementary,
    Expr,
    For,
    Grid,
    Load,
    Op,
    Program,
    Reduce,
    Select,
    Stmt,
    Store,
    Ty,
    Un,
    Var,
    VecOp,
    Vector,
    View,
    names_in,
    substitute_expr,
    walk,
)
from fabrica_agent.lowering.linear import Linear, build
from fabrica_agent.lowering.names import Names
from fabrica_agent.lowering.nest import (
    Box,
    CannotDistributeError,
    Loop,
    affine,
    split_select,
)
from fabrica_agent.lowering.ranges import Range

MAX_STRIDE = 127
MAX_DIMS = 4
SHORT = 40
"""Below this length going through the elements one by one is quicker than another fold."""
UNROLLED = 4
"""Turns of a loop around bulk operations that are written out."""

_OPERATIONS = {Op.ADD: VecOp.ADD, Op.SUB: VecOp.SUB, Op.MUL: VecOp.MUL, Op.MAX: VecOp.MAX}
_ELEMENTARY = ("exp",)


@dataclass
class Work:
    """What a leaf does: `target = value`, or `target = target op value` for all iterations that share the target."""

    target: Ref | str
    value: Expr
    reduction: VecOp | None
    ty: Ty


class Emission:
    """Turns the work of one leaf into statements; a nest has one and tells it the loops around each leaf."""

    program: Program
    env: Mapping[str, Range]
    loops: tuple[Loop, ...]
    out: list[Stmt]
    taken: list[str]
    names: Names

    def _temporary(self, ty: Ty, length: int) -> str:
        raise NotImplementedError

    def _within(self, box: Box) -> Mapping[str, Range]:
        return {**self.env, **{v: (low, high - 1) for v, (low, high) in box.items()}}

    # ---------------------------------------------------------------------------------------- elementwise work

    def _compute(self, e: Expr, dest: Ref, box: Box, *, spare: bool, ty: Ty) -> None:
        """Leave `e` in `dest` for all iterations of a box; `spare`: `dest` may hold intermediate values."""
        e = normal(e)
        if not ty.is_float:
            source = self._leaf_operand(e, box)
            if source is None or e.ty.bits != ty.bits or ty.bits not in (16, 32):
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
            if isinstance(x, Ref) and isinstance(y, Ref):
                self._operation(VecOp.FMA, dest, (x, y, scalar), box, ty)
                return
        match e:
            case Bin(op=Op.ADD | Op.SUB | Op.MUL | Op.MAX as op, a=a, b=b):
                if op is not Op.SUB and isinstance(a, Select) and not isinstance(b, Select):
                    a, b = b, a
                if isinstance(normal(b), Select) and self._varies(b, box):
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

    def _choice(self, op: Op, a: Expr, b: Expr, dest: Ref, box: Box, *, spare: bool, ty: Ty) -> None:
        """`a op (condition ? p : q)`: `a` for all, then each side of the choice for its part of the box."""
        target = dest if spare else self._work_array(box, ty)
        self._compute(a, target, box, spare=True, ty=ty)
        choice = normal(b)
        assert isinstance(choice, Select)
        held = Load(target.buffer, build(target.form), ty)
        for value, part in split_select(choice, box, self.env):
            self._compute(Bin(op, held, value, ty), target, part, spare=False, ty=ty)
        if target is not dest:
            self._operation(VecOp.MOVE, dest, (target,), box, ty)

    def _quotient(self, a: Expr, b: Expr, dest: Ref, box: Box, *, spare: bool, ty: Ty) -> None:
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

    def _elementary(self, fn: str, array: Ref, box: Box, ty: Ty) -> None:
        count = volume(box, self.loops)
        scratch = tuple(self._temporary(ty, count) for _ in range(2))
        self.out.append(Elementary(fn, View(array.buffer, fold.i32(0), ((count, 1),)), scratch, ty))

    def _scalar_loop(self, e: Expr, dest: Ref, box: Box) -> None:
        """What has no bulk form, element by element."""
        body: Body = (Store(dest.buffer, build(dest.form), e),)
        for loop in reversed(self.loops):
            low, high = box[loop.var]
            body = (For(loop.var, Ty.I32, fold.i32(low), fold.i32(high), 1, body),)
        self.out.extend(body)

    def _operand(self, e: Expr, box: Box, spare: Ref | None) -> Ref | Expr:
        e = normal(e)
        leaf = self._leaf_operand(e, box)
        if leaf is not None:
            return leaf
        target = spare or self._work_array(box, e.ty)
        self._compute(e, target, box, spare=True, ty=e.ty)
        return target

    def _leaf_operand(self, e: Expr, box: Box) -> Ref | Expr | None:
        """An operand that needs no computation: a scalar or an array element that is linear in the loop variables."""
        fixed = {v: fold.i32(low) for v, (low, high) in box.items() if high - low == 1}
        e = substitute_expr(e, dict(fixed))
        if not self._varies(e, box):
            return e
        return Ref(e.buffer, affine(e.index, self.loops, self._within(box))) if isinstance(e, Load) else None

    def _varies(self, e: Expr, box: Box) -> bool:
        return bool(names_in(e) & {v for v, (low, high) in box.items() if high - low > 1})

    def _multiply_add(self, e: Expr, box: Box) -> tuple[Expr, Expr, Expr] | None:
        """`addend + factor * scalar`, when exactly one factor is the same for all iterations."""
        if e.ty is not Ty.F32 or not isinstance(e, Bin) or e.op not in (Op.ADD, Op.SUB):
            return None
        for product, addend in ((e.b, e.a), (e.a, e.b)) if e.op is Op.ADD else ((e.b, e.a),):
            product, addend = normal(product), normal(addend)
            if not isinstance(product, Bin) or product.op is not Op.MUL or not self._varies(addend, box):
                continue
            if isinstance(addend, Select):
                continue
            for factor, scalar in ((product.a, product.b), (product.b, product.a)):
                if self._varies(factor, box) and not self._varies(scalar, box):
                    return addend, factor, fold.unary("-", scalar, e.ty) if e.op is Op.SUB else scalar
        return None

    def _work_array(self, box: Box, ty: Ty) -> Ref:
        loops = tuple(Loop(x.var, box[x.var][0], box[x.var][1] - box[x.var][0]) for x in self.loops)
        return Ref(self._temporary(ty, volume(box, self.loops)), row_major(loops))

    # ------------------------------------------------------------------------------------------------ operations

    def _operation(self, op: VecOp, dest: Ref, sources: tuple[Ref | Expr, ...], box: Box, ty: Ty) -> None:
        """One bulk operation over a box, in as few dimensions as the strides allow."""
        if op is VecOp.MOVE and sources == (dest,):
            return
        self.out.extend(self._bulk(op, dest, sources, box, ty))

    def _bulk(self, op: VecOp, dest: Ref, sources: tuple[Ref | Expr, ...], box: Box, ty: Ty) -> Body:
        refs = (dest, *(x for x in sources if isinstance(x, Ref)))
        if op in (VecOp.SUB,) and not isinstance(sources[0], Ref) and not isinstance(sources[1], Ref):
            raise CannotDistributeError("scalar arithmetic")
        if not any(isinstance(x, Ref) for x in sources) and op is not VecOp.MOVE:
            raise CannotDistributeError("scalar arithmetic")
        dims = _dimensions(refs, box)
        outer, inner = dims[:-MAX_DIMS], dims[-MAX_DIMS:]
        starts = {r: self._start(r, box) for r in refs}
        names: list[tuple[Var, int]] = []
        for extent, strides in outer:
            var = self.names.variable("turn", Ty.I32)
            names.append((var, extent))
            starts = {
                r: s.plus(Linear(((var, strides[k]),) if strides[k] else (), 0))
                for k, (r, s) in enumerate((r, starts[r]) for r in refs)
            }
        views = {
            r: View(r.buffer, build(starts[r]), tuple((extent, strides[k]) for extent, strides in inner))
            for k, r in enumerate(refs)
        }
        parts = tuple(views[x] if isinstance(x, Ref) else x for x in sources)
        body: Body = (_flat(op, views[dest], parts, ty),)
        for var, extent in reversed(names):
            body = (For(var.name, Ty.I32, fold.i32(0), fold.i32(extent), 1, body),)
        return body

    def _start(self, r: Ref, box: Box) -> Linear:
        start = r.form
        for v, (low, _) in box.items():
            factor = start.of(v)
            if factor:
                start = start.without(v).plus(Linear((), factor * low))
        return start

    # ------------------------------------------------------------------------------------------------- reductions

    def _reduction(self, w: Work, box: Box) -> None:
        assert w.reduction is not None
        dims = [x for x in self.loops if box[x.var][1] - box[x.var][0] > 1]
        kept = [x for x in dims if isinstance(w.target, Ref) and w.target.form.of(x.var)]
        if not w.ty.is_float:
            raise CannotDistributeError("an integer reduction")
        value, sign = normal(w.value), w.reduction is VecOp.SUB
        operation = VecOp.ADD if sign else w.reduction
        columns = operation is VecOp.ADD and w.ty is Ty.F32 and isinstance(w.target, Ref) and bool(kept)
        if columns and isinstance(w.target, Ref) and self._by_columns(w.target, value, sign, dims, kept, box):
            return
        if sign:
            value = Un("-", value, w.ty)
        source = self._operand(value, box, None)
        if not isinstance(source, Ref):
            raise CannotDistributeError("a reduction of a scalar")
        if isinstance(w.target, Ref) and kept and volume(box, tuple(kept)) >= 4:
            rest = [x for x in dims if x not in kept]
            body = self._in_loops(
                rest,
                box,
                lambda b: self._bulk(operation, w.target, (w.target, source), b, w.ty),
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

    def _by_columns(self, target: Ref, value: Expr, sign: bool, dims: list[Loop], kept: list[Loop], box: Box) -> bool:
        """A sum of products as multiply-adds of vectors by scalars."""
        if not isinstance(value, Bin) or value.op is not Op.MUL:
            return False
        best: tuple[int, list[Loop], Expr, Ref] | None = None
        for scalar, vector in ((value.a, value.b), (value.b, value.a)):
            ref = self._leaf_operand(normal(vector), box)
            if not isinstance(ref, Ref):
                continue
            along = [x for x in kept if x.var not in names_in(scalar) and ref.form.of(x.var)]
            count = volume(box, tuple(along))
            if count >= 4 and (best is None or count > best[0]):
                best = (count, along, scalar, ref)
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

    def _walk(self, target: Ref, column: Ref, scalar: Expr, loop: Loop, inner: Box, box: Box) -> Body | None:
        """The innermost loop over columns as one statement."""
        if not isinstance(scalar, Load) or target.form.of(loop.var):
            return None
        factors = Ref(scalar.buffer, affine(scalar.index, self.loops, self._within(box)))
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

    def _fold(self, w: Work, op: VecOp, source: Ref, box: Box) -> None:
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


def _access(buffer: str, start: Linear, stride: int, count: int) -> Access:
    return Access(buffer, build(start), stride, fold.i32(count))


def _dimensions(refs: Sequence[Ref], box: Box) -> list[tuple[int, tuple[int, ...]]]:
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


def whole(loops: Sequence[Loop]) -> Box:
    return {x.var: (x.first, x.first + x.count) for x in loops}


def volume(box: Box, loops: Sequence[Loop]) -> int:
    total = 1
    for x in loops:
        total *= box[x.var][1] - box[x.var][0]
    return total


def row_major(loops: Sequence[Loop]) -> Linear:
    form, scale = Linear((), 0), 1
    for x in reversed(loops):
        form = form.plus(Linear(((Var(x.var, Ty.I32), scale),), -scale * x.first))
        scale *= x.count
    return form
