"""Statements and bulk operations as CSL text."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fabrica_agent.csl.bulk import elementary, walk_by_offset, walk_by_register
from fabrica_agent.csl.expressions import Expressions
from fabrica_agent.csl.names import Identifiers
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Access,
    Assign,
    Body,
    Break,
    Columns,
    Const,
    Continue,
    Elementary,
    Expr,
    For,
    Grid,
    If,
    Load,
    Note,
    Op,
    Param,
    Reduce,
    Stmt,
    Store,
    Ty,
    UnsupportedError,
    Var,
    VecOp,
    Vector,
    View,
    While,
    assigned,
    bodies,
    own_level,
    read_names,
    stmt_exprs,
    walk,
)  # fmt: skip
from fabrica_agent.lowering.ranges import Range, fits, span

_BUILTINS = {
    Ty.F32: {
        VecOp.MOVE: "@fmovs", VecOp.ADD: "@fadds", VecOp.SUB: "@fsubs", VecOp.MUL: "@fmuls", VecOp.MAX: "@fmaxs",
        VecOp.NEG: "@fnegs", VecOp.ABS: "@fabss", VecOp.FMA: "@fmacs",
    },
    Ty.F16: {
        VecOp.MOVE: "@fmovh", VecOp.ADD: "@faddh", VecOp.SUB: "@fsubh", VecOp.MUL: "@fmulh", VecOp.MAX: "@fmaxh",
        VecOp.NEG: "@fnegh", VecOp.ABS: "@fabsh", VecOp.FMA: "@fmach",
    },
    Ty.I32: {VecOp.MOVE: "@mov32"}, Ty.U32: {VecOp.MOVE: "@mov32"},
    Ty.I16: {VecOp.MOVE: "@mov16"}, Ty.U16: {VecOp.MOVE: "@mov16"},
}  # fmt: skip


def storage_type(name: str, ty: Ty, ranges: dict[str, Range]) -> Ty:
    """The type a variable is declared with: i16 where its range fits."""
    if ty.is_int and name in ranges and fits(ranges[name], Ty.I16):
        return Ty.I16
    return ty


@dataclass(slots=True)
class Statements:
    """Writes statements; collects the DSDs and accumulators that they need at file level."""

    expressions: Expressions
    identifiers: Identifiers
    ranges: dict[str, Range]
    lengths: dict[str, int]
    dsds: dict[str, tuple[str, str]] = field(default_factory=dict)
    globals: dict[str, Ty] = field(default_factory=dict)
    counters: set[str] = field(default_factory=set)
    registers: bool = True
    functions: list[str] = field(default_factory=list)

    def block(self, body: Body, indent: int, declared: frozenset[str]) -> list[str]:
        """The lines of a body. `declared`: variables that an enclosing block declares."""
        lines: list[str] = []
        here = self._to_declare(body, declared)
        known = set(declared)
        for index, s in enumerate(body):
            pad = "  " * indent
            if isinstance(s, Assign) and s.name in here and s.name not in known:
                known.add(s.name)
                constant = s.name not in assigned(body[index + 1 :])
                lines.append(pad + self._declaration(s, constant=constant))
                continue
            for name in sorted(n for n in here if n not in known and n in assigned((s,)) | read_names((s,))):
                ty = self.expressions.types[name]
                zero = "false" if ty is Ty.BOOL else "0.0" if ty.is_float else "0"
                lines.append(f"{pad}var {self.identifiers.of(name)}: {ty.value} = {zero};")
                known.add(name)
            lines.extend(pad + line for line in self.statement(s, frozenset(known)))
        return lines

    def _to_declare(self, body: Body, declared: frozenset[str]) -> set[str]:
        """Variables used in more than one statement of the body, or directly in it: they live in this block."""
        uses: dict[str, int] = {}
        for s in body:
            direct = {n.name for e in stmt_exprs(s) for n in walk(e) if isinstance(n, Var)}
            if isinstance(s, Assign):
                direct.add(s.name)
            if isinstance(s, While):
                direct |= assigned(s.step) | read_names(s.step)
            inner = (assigned((s,)) | read_names((s,))) - direct
            for name in direct:
                uses[name] = uses.get(name, 0) + 2
            for name in inner:
                parts = sum(1 for b in bodies(s) if name in assigned(b) | read_names(b))
                uses[name] = uses.get(name, 0) + parts
        return {n for n, count in uses.items() if count > 1} - declared - self.counters - set(self.globals)

    def _declaration(self, s: Assign, *, constant: bool) -> str:
        ty = self.expressions.types[s.name]
        word = "const" if constant else "var"
        return f"{word} {self.identifiers.of(s.name)}: {ty.value} = {self.expressions.as_type(s.value, ty)};"

    def statement(self, s: Stmt, declared: frozenset[str]) -> list[str]:
        """The lines of one statement."""
        match s:
            case Assign(name=name, value=value):
                return [f"{self._assignment(name, value)};"]
            case Store(buffer=buffer, index=index, value=value):
                return [self._store(buffer, index, value)]
            case If():
                return self._if(s, declared)
            case For():
                return self._for(s, declared)
            case While():
                return self._while(s, declared)
            case Break():
                return ["break;"]
            case Continue():
                return ["continue;"]
            case Vector():
                return [self._vector(s)]
            case Reduce():
                return self._reduce(s)
            case Grid():
                return [self._grid(s)]
            case Columns():
                return self._columns(s)
            case Elementary():
                return [self._elementary(s)]
            case Note(text=text):
                return [f"// {text}"]
            case _:
                raise AssertionError(f"{type(s).__name__} has no place in a serial program")

    def _assignment(self, name: str, value: Expr) -> str:
        ty = self.expressions.types[name]
        return f"{self.identifiers.of(name)} = {self.expressions.as_type(value, ty)}"

    def _store(self, buffer: str, index: Expr, value: Expr) -> str:
        ty = self.expressions.buffers[buffer]
        place = self.expressions.element(buffer, index)
        if value.ty is Ty.BOOL:
            return f"{place} = if ({self.expressions.condition(value)}) @as({ty.value}, 1) else @as({ty.value}, 0);"
        return f"{place} = {self.expressions.as_type(value, ty)};"

    def _if(self, s: If, declared: frozenset[str]) -> list[str]:
        lines = [f"if ({self.expressions.condition(s.cond)}) {{", *self.block(s.then, 1, declared)]
        if s.other:
            lines += ["} else {", *self.block(s.other, 1, declared)]
        return [*lines, "}"]

    def _for(self, s: For, declared: frozenset[str]) -> list[str]:
        ty = self._counter_type(s)
        start, stop = self.expressions.as_type(s.start, ty), self.expressions.as_type(s.stop, ty)
        if s.step == 1 and fold.is_const(s.start, 0):
            header = f"@range({ty.value}, {stop})"
        else:
            header = f"@range({ty.value}, {start}, {stop}, {s.step})"
        self.expressions.types[s.var] = ty  # type: ignore[index]
        body = self.block(s.body, 1, declared | {s.var})
        return [f"for ({header}) |{self.identifiers.of(s.var)}| {{", *body, "}"]

    def _counter_type(self, s: For) -> Ty:
        bounds = [span(e, self.ranges) for e in (s.start, s.stop)]
        reach = (min(b[0] for b in bounds) - abs(s.step), max(b[1] for b in bounds) + abs(s.step))
        if fits(reach, Ty.I16):
            return Ty.I16
        if all(fits(b, Ty.U16) for b in bounds) and s.step > 0 and fits((0, reach[1]), Ty.U16):
            return Ty.U16
        return s.ty

    def _while(self, s: While, declared: frozenset[str]) -> list[str]:
        cond = self.expressions.condition(s.cond)
        if len(s.step) == 1 and isinstance(s.step[0], Assign):
            step = self._assignment(s.step[0].name, s.step[0].value)
            return [f"while ({cond}) : ({step}) {{", *self.block(s.body, 1, declared), "}"]
        if s.step and any(isinstance(x, Continue) for x in own_level(s.body)):
            raise UnsupportedError("`continue` in a loop with a compound step")
        return [f"while ({cond}) {{", *self.block((*s.body, *s.step), 1, declared), "}"]

    # --------------------------------------------------------------------------------------------- bulk operations

    def _vector(self, s: Vector) -> str:
        builtin = _BUILTINS.get(s.ty, {}).get(s.op)
        if builtin is None:
            raise UnsupportedError(f"bulk {s.op.value} of {s.ty.value}")
        operands = [self._dsd(s.dest)]
        for source in s.sources:
            operands.append(self._dsd(source) if isinstance(source, Access) else self._scalar(source, s.ty))
        return f"{builtin}({', '.join(operands)});"

    def _scalar(self, e: Expr, ty: Ty) -> str:
        return self.expressions.as_type(e, ty)

    def _reduce(self, s: Reduce) -> list[str]:
        builtin = _BUILTINS.get(s.ty, {}).get(s.op)
        if builtin is None:
            raise UnsupportedError(f"bulk {s.op.value} of {s.ty.value}")
        if s.index is None:
            place = self.identifiers.of(s.target)
        else:
            place = self.expressions.element(s.target, s.index)
        dsd = self._dsd(s.source)
        if s.target in self.expressions.cells:
            # A local variable has no address that a DSD operation could write to.
            total = self._total(s.ty)
            return [f"{total} = {place};", f"{builtin}(&{total}, {total}, {dsd});", f"{place} = {total};"]
        return [f"{builtin}(&{place}, {place}, {dsd});"]

    def _total(self, ty: Ty) -> str:
        name = f"total of {ty.value}"
        self.globals[name] = ty
        return self.identifiers.of(name)

    def _dsd(self, x: Access) -> str:
        """A DSD operand: a constant at file level, moved and cut to length here where that isn't constant."""
        ty = self.expressions.buffers[x.buffer]
        start_fixed, count_fixed = _is_comptime(x.start), _is_comptime(x.count)
        if start_fixed and count_fixed:
            return self._constant_dsd(x)
        length = self.lengths[x.buffer]
        reach = 1 + (length - 1) // abs(x.stride) if x.stride else length
        count: Expr = x.count if count_fixed and (fold.int_value(x.count) or 0) <= reach else fold.i32(1)
        if x.stride < 0:
            count = fold.i32(1)
        base = self._constant_dsd(Access(x.buffer, x.start if start_fixed else fold.i32(0), x.stride, count))
        if not start_fixed:
            base = f"@increment_dsd_offset({base}, {self.expressions.as_type(x.start, Ty.I16)}, {ty.value})"
        if count != x.count:
            base = f"@set_dsd_length({base}, {self.expressions.as_type(x.count, Ty.U16)})"
        return base

    def _constant_dsd(self, x: Access) -> str:
        extent = self.expressions.as_type(x.count, Ty.I16)
        if x.stride == 0:
            element = self.expressions.as_type(x.start, Ty.I16)
        else:
            i = self.expressions.named("i")
            moved = i if abs(x.stride) == 1 else f"{i} * {abs(x.stride)}"
            start = self.expressions.as_type(x.start, Ty.I16)
            zero = fold.is_const(x.start, 0)
            element = (moved if zero else f"{start} + {moved}") if x.stride > 0 else f"{start} - {moved}"
        place = f"{self.identifiers.of(x.buffer)}[{element}]"
        text = f"@get_dsd(mem1d_dsd, .{{ .tensor_access = |{self.expressions.named('i')}|{{{extent}}} -> {place} }})"
        if text not in self.dsds:
            suffix = "_dsd" if x.stride == 1 else f"_by_{abs(x.stride)}_dsd"
            self.dsds[text] = (self.identifiers.fresh(x.buffer + suffix), text)
        return self.dsds[text][0]

    def _grid(self, s: Grid) -> str:
        builtin = _BUILTINS.get(s.ty, {}).get(s.op)
        if builtin is None:
            raise UnsupportedError(f"bulk {s.op.value} of {s.ty.value}")
        operands = [self._box(s.dest)]
        operands += [self._box(x) if isinstance(x, View) else self._scalar(x, s.ty) for x in s.sources]
        return f"{builtin}({', '.join(operands)});"

    def _box(self, x: View) -> str:
        """A DSD of several dimensions: a constant at file level, moved here where its start isn't constant."""
        if _is_comptime(x.start):
            return self._constant_box(x)
        base = self._constant_box(replace(x, start=fold.i32(0)))
        ty = self.expressions.buffers[x.buffer]
        return f"@increment_dsd_offset({base}, {self.expressions.as_type(x.start, Ty.I16)}, {ty.value})"

    def _constant_box(self, x: View) -> str:
        variables = [self.expressions.named(f"i{k}") for k in range(len(x.dims))]
        terms = [
            name if stride == 1 else f"{name} * {stride}"
            for name, (_, stride) in zip(variables, x.dims, strict=True) if stride
        ]  # fmt: skip
        if not fold.is_const(x.start, 0) or not terms:
            terms.append(self.expressions.as_type(x.start, Ty.I16))
        extents = ", ".join(str(n) for n, _ in x.dims)
        place = f"{self.identifiers.of(x.buffer)}[{' + '.join(terms)}]"
        text = f"@get_dsd(mem4d_dsd, .{{ .tensor_access = |{', '.join(variables)}|{{{extents}}} -> {place} }})"
        if text not in self.dsds:
            self.dsds[text] = (self.identifiers.fresh(x.buffer + "_box_dsd"), text)
        return self.dsds[text][0]

    def _columns(self, s: Columns) -> list[str]:
        views = [Access(v.buffer, v.start, v.dims[0][1], fold.i32(v.dims[0][0])) for v in (s.dest, s.column, s.factors)]
        dest, column, factors = (self._dsd(a) for a in views)
        extent, stride = s.column.dims[0]
        if self.registers and s.step == extent * stride:
            top, lines = walk_by_register(s, dest, column, factors, self.identifiers.fresh)
        else:
            fixed = _is_comptime(s.dest.start)
            first = self._constant_dsd(replace(views[1], start=fold.i32(0)))
            top, lines = walk_by_offset(s, (dest, fixed), (first, column), factors, self.identifiers.fresh)
        self.functions.append(top)
        return lines

    def _elementary(self, s: Elementary) -> str:
        whole = Access(s.dest.buffer, fold.i32(0), 1, fold.i32(s.dest.count))
        dsds = tuple(self._constant_dsd(replace(whole, buffer=b)) for b in (s.dest.buffer, *s.scratch))
        scratch = tuple(self.identifiers.of(b) for b in s.scratch)
        text, call = elementary(s, self.identifiers.of(s.dest.buffer), scratch, dsds, self.identifiers.fresh)
        self.functions.append(text)
        return call


def _is_comptime(e: Expr) -> bool:
    return not any(isinstance(n, Var | Load) for n in walk(e)) and fold.int_value(e) is not None


__all__ = ["Const", "Op", "Param", "Statements", "storage_type"]
