"""Statements of a CSL function as kernel IR.

Scalars that live outside the statements (file-level variables, locals declared before or used after) become arrays of
one element, so that the passes treat them as memory; `Region.cells` names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Assign,
    Bin,
    Body,
    Buffer,
    Call,
    Const,
    Expr,
    For,
    If,
    Load,
    Op,
    Param,
    Program,
    Space,
    Stmt,
    Store,
    Ty,
    Un,
    Var,
    assigned,
    int_limits,
    names_in,
    substitute,
)
from fabrica_agent.rewrite.scope import Scope, UnreadableError, named_type
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

_BINARY = {
    "+": Op.ADD, "-": Op.SUB, "*": Op.MUL, "/": Op.DIV, "%": Op.MOD, "<<": Op.SHL, ">>": Op.SHR, "&": Op.AND,
    "|": Op.OR, "^": Op.XOR,
}  # fmt: skip
_COMPARE = {"<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE, "==": Op.EQ, "!=": Op.NE}
_MATH = {"exp": "exp", "log": "log", "sqrt": "sqrt", "invsqrt": "rsqrt", "sin": "sin", "cos": "cos", "tanh": "tanh",
         "abs": "abs", "floor": "floor", "ceil": "ceil", "pow": "pow"}  # fmt: skip


@dataclass
class Region:
    """Statements as a program.

    Attributes:
        program: Serial; arguments are immutable names from outside.
        cells: Scalars held as arrays of one element, by name, with their types.
        declared: Those of them that the statements declare themselves.
    """

    program: Program
    cells: dict[str, Ty]
    declared: tuple[str, ...]


@dataclass
class Locals:
    """Names known where the statements begin: types of locals, which of them can change, integer constants."""

    types: dict[str, Ty] = field(default_factory=dict)
    mutable: set[str] = field(default_factory=set)
    values: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Locals:
        """An independent copy."""
        return Locals(dict(self.types), set(self.mutable), dict(self.values))


def read_region(statements: Sequence[ast.Stmt], scope: Scope, outside: Locals, used_after: set[str]) -> Region:
    """Read statements.

    Args:
        statements: In order.
        scope: Names of the file.
        outside: Names of the function that are known before.
        used_after: Names that later statements mention.

    Raises:
        UnreadableError: One of them has no IR form.
    """
    return _Reader(scope, outside, used_after).region(statements)


class _Reader:
    def __init__(self, scope: Scope, outside: Locals, used_after: set[str]) -> None:
        self.scope = scope
        self.outside = outside
        self.used_after = used_after
        self.buffers: dict[str, Buffer] = {}
        self.types: dict[str, Ty] = {}
        self.cells: dict[str, Ty] = {}
        self.declared: list[str] = []
        self.arguments: dict[str, Var] = {}
        self.names: dict[str, str] = {}
        self.known: dict[str, Expr] = {}
        self.depth = 0

    def region(self, statements: Sequence[ast.Stmt]) -> Region:
        body = self._body(statements)
        given = {n: int_limits(v.ty) for n, v in self.arguments.items() if v.ty.is_int}
        program = Program(body, self.buffers, self.types, tuple(self.arguments.values()), given=given)
        return Region(program, self.cells, tuple(self.declared))

    # -------------------------------------------------------------------------------------------------- statements

    def _body(self, statements: Sequence[ast.Stmt]) -> Body:
        out: list[Stmt] = []
        self.depth += 1
        saved = dict(self.names)
        for s in statements:
            self._statement(s, out)
        self.names = saved
        self.depth -= 1
        return tuple(out)

    def _inner(self, body: ast.Stmt | ast.Expr) -> Body:
        if isinstance(body, ast.ExprStmt):
            body = body.expr
        if isinstance(body, ast.Block):
            if body.label is not None:
                raise UnreadableError("a labelled block")
            return self._body(body.stmts)
        if isinstance(body, ast.Stmt):
            return self._body([body])
        raise UnreadableError("an expression as a body")

    def _statement(self, s: ast.Stmt, out: list[Stmt]) -> None:
        match s:
            case ast.VarDecl():
                self._declaration(s, out)
            case ast.Assign():
                self._assignment(s, out)
            case ast.ExprStmt(expr=ast.If() as e):
                self._if(e, out)
            case ast.ExprStmt(expr=ast.Block() as e):
                out.extend(self._inner(e))
            case ast.For():
                self._for(s, out)
            case ast.While():
                self._while(s, out)
            case _:
                raise UnreadableError(type(s).__name__)

    def _declaration(self, s: ast.VarDecl, out: list[Stmt]) -> None:
        if s.init is None or s.is_comptime or s.storage is not None:
            raise UnreadableError("a declaration without a value")
        ty = named_type(s.type_expr) or self._type(s.init)
        if ty is None:
            ty = Ty.I32 if self._is_whole(s.init) else None
        if ty is None:
            raise UnreadableError(f"the type of {s.name}")
        value = self._expr(s.init, ty)
        if self.depth == 1 and s.name in self.used_after:
            self._cell(s.name, ty)
            self.declared.append(s.name)
            out.append(Store(s.name, fold.i32(0), value))
            return
        name = s.name
        while name in self.types or name in self.buffers or name in self.arguments:
            name += "'"
        self.types[name] = ty
        self.names[s.name] = name
        self._set(name, value)
        out.append(Assign(name, value))

    def _set(self, name: str, value: Expr) -> None:
        if value.ty.is_int and fold.int_value(value) is not None:
            self.known[name] = value
        else:
            self.known.pop(name, None)

    def _cell(self, name: str, ty: Ty) -> None:
        if ty is Ty.BOOL:
            raise UnreadableError("a flag")
        self.cells[name] = ty
        self.buffers[name] = Buffer(name, ty, fold.i32(1), Space.GLOBAL, exported=True)

    def _assignment(self, s: ast.Assign, out: list[Stmt]) -> None:
        op = s.op.removesuffix("=")
        target = s.target
        if isinstance(target, ast.Index):
            array = self._array(target)
            index = self._index(target)
            old: Expr = Load(array.name, index, array.ty)
            value = self._updated(op, old, s.value, array.ty)
            out.append(Store(array.name, index, value))
            return
        if not isinstance(target, ast.Ident):
            raise UnreadableError("an assignment to something else")
        local = self.names.get(target.name)
        if local is not None:
            ty = self.types[local]
            value = self._updated(op, self._variable(local), s.value, ty)
            out.append(Assign(local, value))
            self._set(local, value)
            return
        ty_ = self._outside_type(target.name)
        if ty_ is None:
            raise UnreadableError(f"an assignment to {target.name}")
        self._cell(target.name, ty_)
        cell = Load(target.name, fold.i32(0), ty_)
        out.append(Store(target.name, fold.i32(0), self._updated(op, cell, s.value, ty_)))

    def _updated(self, op: str, old: Expr, value: ast.Expr, ty: Ty) -> Expr:
        if not op:
            return self._expr(value, ty)
        if op not in _BINARY:
            raise UnreadableError(f"{op}=")
        return fold.binary(_BINARY[op], old, self._expr(value, ty), ty)

    def _variable(self, name: str) -> Expr:
        return self.known.get(name, Var(name, self.types[name]))

    def _outside_type(self, name: str) -> Ty | None:
        if name in self.outside.mutable:
            return self.outside.types.get(name)
        return self.scope.scalars.get(name) if name not in self.outside.types else None

    def _if(self, e: ast.If, out: list[Stmt]) -> None:
        cond = self._expr(e.cond, Ty.BOOL)
        truth = fold.int_value(cond)
        before = dict(self.known)
        then = self._inner(e.then) if truth is None or truth else ()
        after_then, self.known = self.known, dict(before)
        other = self._inner(e.otherwise) if e.otherwise is not None and (truth is None or not truth) else ()
        self.known = {n: v for n, v in self.known.items() if after_then.get(n) == v} if truth is None else (
            after_then if truth else self.known
        )  # fmt: skip
        if truth is None:
            out.append(If(cond, then, other))
        else:
            out.extend(then if truth else other)

    def _for(self, s: ast.For, out: list[Stmt]) -> None:
        e = s.iterable
        if s.index is not None or s.label is not None or not isinstance(e, ast.BuiltinCall) or e.name != "range":
            raise UnreadableError("a loop over something else than @range")
        ty = named_type(e.args[0])
        if ty is None or not ty.is_int:
            raise UnreadableError("a loop over another type")
        bounds = [self._expr(a, ty) for a in e.args[1:]]
        start, stop = (fold.const(0, ty), bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
        step = fold.int_value(bounds[2]) if len(bounds) > 2 else 1
        if step is None or step == 0:
            raise UnreadableError("a loop with a step that isn't constant")
        self._loop(s.item, ty, start, stop, step, s.body, out)

    def _loop(
        self, item: str, ty: Ty, start: Expr, stop: Expr, step: int, body: ast.Stmt | ast.Expr, out: list[Stmt]
    ) -> None:
        var = item if item != "_" else "turn"
        while var in self.types or var in self.buffers or var in self.arguments:
            var += "'"
        self.types[var] = ty
        saved, self.names = self.names, {**self.names, item: var}
        self._forget(body)
        inner = self._inner(body)
        self._forget(body)
        self.names = saved
        out.append(For(var, ty, start, stop, step, inner))

    def _forget(self, body: object) -> None:
        """Constants that a loop may change are unknown inside and after it."""
        for n in walk(body):
            if isinstance(n, ast.Assign) and isinstance(n.target, ast.Ident):
                self.known.pop(self.names.get(n.target.name, n.target.name), None)

    def _while(self, s: ast.While, out: list[Stmt]) -> None:
        """`while (i < n) : (i += 1)` as a counted loop."""
        step = s.step
        if s.label is not None or not isinstance(step, ast.Assign) or not isinstance(step.target, ast.Ident):
            raise UnreadableError("a while loop that doesn't count")
        name = self.names.get(step.target.name)
        if name is None or not self.types[name].is_int or step.op != "+=":
            raise UnreadableError("a while loop that doesn't count")
        ty = self.types[name]
        start = self._variable(name)
        by = fold.int_value(self._expr(step.value, ty))
        cond = s.cond
        if by is None or by <= 0 or not isinstance(cond, ast.Binary) or cond.op not in ("<", "<=", "!="):
            raise UnreadableError("a while loop that doesn't count")
        if not isinstance(cond.lhs, ast.Ident) or self.names.get(cond.lhs.name) != name:
            raise UnreadableError("a while loop that doesn't count")
        if cond.op == "!=" and by != 1:
            raise UnreadableError("a while loop that doesn't count")
        self._forget(s.body)
        stop = self._expr(cond.rhs, ty)
        if cond.op == "<=":
            stop = fold.binary(Op.ADD, stop, fold.const(1, ty), ty)
        inner: list[Stmt] = []
        self._loop(step.target.name, ty, start, stop, by, s.body, inner)
        loop = inner[0]
        assert isinstance(loop, For)
        changed = assigned(loop.body)
        if loop.var in changed or names_in(stop) & changed:
            raise UnreadableError("a while loop whose bounds change")
        out.append(loop)
        first, last = fold.int_value(start), fold.int_value(stop)
        if first is not None and last is not None:
            end: Expr = fold.const(first + max(0, -(-(last - first) // by)) * by, ty)
        elif by == 1:
            end = fold.binary(Op.MAX, start, stop, ty)
        else:
            raise UnreadableError("a while loop whose end isn't known")
        out.append(Assign(name, end))
        self._set(name, end)

    # ------------------------------------------------------------------------------------------------- expressions

    def _array(self, e: ast.Index):  # type: ignore[no-untyped-def]
        if not isinstance(e.base, ast.Ident) or e.base.name not in self.scope.arrays or e.base.name in self.names:
            raise UnreadableError("an element of something else than an array")
        array = self.scope.arrays[e.base.name]
        self.buffers[array.name] = Buffer(array.name, array.ty, fold.i32(array.length), Space.GLOBAL, exported=True)
        return array

    def _index(self, e: ast.Index) -> Expr:
        if len(e.indices) != 1:
            raise UnreadableError("an array of several dimensions")
        ty = self._type(e.indices[0]) or Ty.I32
        if not ty.is_int:
            raise UnreadableError("an index that isn't an integer")
        return fold.cast(self._expr(e.indices[0], ty), Ty.I32)

    def _is_whole(self, e: ast.Expr) -> bool:
        match e:
            case ast.IntLit():
                return True
            case ast.Ident(name=name):
                return name in self.scope.values
            case ast.Unary(operand=operand):
                return self._is_whole(operand)
            case ast.Binary(lhs=lhs, rhs=rhs):
                return self._is_whole(lhs) and self._is_whole(rhs)
            case _:
                return False

    def _type(self, e: ast.Expr) -> Ty | None:
        match e:
            case ast.Ident(name=name):
                if name in self.names:
                    return self.types[self.names[name]]
                return self.outside.types.get(name) or self.scope.types.get(name)
            case ast.Index(base=ast.Ident(name=name)):
                return self.scope.arrays[name].ty if name in self.scope.arrays else None
            case ast.BuiltinCall(name="as" | "bitcast", args=[to, _]):
                return named_type(to)
            case ast.Unary(operand=operand):
                return self._type(operand)
            case ast.Binary(op=op) if op in _COMPARE or op in ("and", "or"):
                return Ty.BOOL
            case ast.Binary(lhs=lhs, op="<<" | ">>"):
                return self._type(lhs)
            case ast.Binary(lhs=lhs, rhs=rhs):
                return self._type(lhs) or self._type(rhs)
            case ast.If(then=ast.Expr() as then, otherwise=ast.Expr() as otherwise):
                return self._type(then) or self._type(otherwise)
            case ast.BoolLit():
                return Ty.BOOL
            case ast.Call(callee=ast.FieldAccess(base=ast.Ident(name=name)), args=args):
                if self.scope.modules.get(name) == "<math>":
                    return next((t for t in map(self._type, args) if t is not None), Ty.F32)
                return None
            case ast.Call(callee=ast.Ident(name=name)) if name in self.scope.functions:
                return named_type(self.scope.functions[name].result)
            case _:
                return None

    def _expr(self, e: ast.Expr, ty: Ty) -> Expr:
        """An expression of a type that is known from outside; numbers take it, anything else must have it."""
        found = self._any(e, ty)
        if found.ty is not ty:
            raise UnreadableError(f"{found.ty.value} where {ty.value} is expected")
        return found

    def _any(self, e: ast.Expr, ty: Ty) -> Expr:
        match e:
            case ast.IntLit(value=value):
                return fold.const(value, ty)
            case ast.FloatLit(value=value):
                return fold.const(value, ty)
            case ast.BoolLit(value=value):
                return fold.const(value, Ty.BOOL)
            case ast.Ident(name=name):
                return self._name(name, ty)
            case ast.Index():
                array = self._array(e)
                return Load(array.name, self._index(e), array.ty)
            case ast.BuiltinCall(name="as", args=[to, operand]):
                wanted = named_type(to)
                if wanted is None:
                    raise UnreadableError("a conversion to another type")
                own = self._type(operand) or (wanted if not wanted.is_float or not self._is_whole(operand) else Ty.I32)
                return fold.cast(self._expr(operand, own), wanted)
            case ast.Unary(op="-", operand=operand):
                return fold.unary("-", self._expr(operand, ty), ty)
            case ast.Unary(op="!", operand=operand):
                return fold.logical_not(self._expr(operand, Ty.BOOL))
            case ast.Unary(op="~", operand=operand):
                return Un("~", self._expr(operand, ty), ty)
            case ast.Binary():
                return self._binary(e, ty)
            case ast.If(cond=cond, then=ast.Expr() as then, otherwise=ast.Expr() as otherwise):
                return fold.select(self._expr(cond, Ty.BOOL), self._expr(then, ty), self._expr(otherwise, ty))
            case ast.Call():
                return self._call(e, ty)
            case ast.ComptimeExpr(operand=operand):
                return self._any(operand, ty)
            case _:
                raise UnreadableError(type(e).__name__)

    def _name(self, name: str, ty: Ty) -> Expr:
        if name in self.names:
            return self._variable(self.names[name])
        if name in self.cells:
            return Load(name, fold.i32(0), self.cells[name])
        own = self.outside.types.get(name)
        if own is not None:
            if name in self.outside.mutable:
                self._cell(name, own)
                return Load(name, fold.i32(0), own)
            if name in self.outside.values:
                return fold.const(self.outside.values[name], own)
            return self._argument(name, own)
        if name in self.scope.values:
            own = self.scope.types.get(name)
            return Param(name, self.scope.values[name], own or ty) if (own or ty).is_int else fold.const(
                self.scope.values[name], own or ty
            )  # fmt: skip
        if name in self.scope.numbers:
            return fold.const(self.scope.numbers[name], self.scope.types.get(name, ty))
        if name in self.scope.scalars:
            self._cell(name, self.scope.scalars[name])
            return Load(name, fold.i32(0), self.scope.scalars[name])
        own = self.scope.types.get(name)
        if own is None:
            raise UnreadableError(f"the name {name}")
        return self._argument(name, own)

    def _argument(self, name: str, ty: Ty) -> Expr:
        self.arguments[name] = Var(name, ty)
        self.types[name] = ty
        return self.arguments[name]

    def _binary(self, e: ast.Binary, ty: Ty) -> Expr:
        if e.op in ("and", "or"):
            a, b = self._expr(e.lhs, Ty.BOOL), self._expr(e.rhs, Ty.BOOL)
            return fold.logical_and(a, b) if e.op == "and" else fold.logical_or(a, b)
        if e.op in _COMPARE:
            own = self._type(e.lhs) or self._type(e.rhs) or (Ty.I32 if self._is_whole(e.lhs) else Ty.F32)
            return fold.binary(_COMPARE[e.op], self._expr(e.lhs, own), self._expr(e.rhs, own), Ty.BOOL)
        if e.op not in _BINARY:
            raise UnreadableError(f"the operator {e.op}")
        own = self._type(e) or ty
        if e.op in ("<<", ">>"):
            amount = self._type(e.rhs) or Ty.U16
            return Bin(_BINARY[e.op], self._expr(e.lhs, own), self._expr(e.rhs, amount), own)
        return fold.binary(_BINARY[e.op], self._expr(e.lhs, own), self._expr(e.rhs, own), own)

    def _call(self, e: ast.Call, ty: Ty) -> Expr:
        if isinstance(e.callee, ast.FieldAccess) and isinstance(e.callee.base, ast.Ident):
            fn = e.callee.name
            if self.scope.modules.get(e.callee.base.name) == "<math>":
                own = self._type(e) or ty
                if fn in ("max", "min") and len(e.args) == 2:
                    op = Op.MAX if fn == "max" else Op.MIN
                    return Bin(op, self._expr(e.args[0], own), self._expr(e.args[1], own), own)
                if fn in _MATH:
                    return Call(_MATH[fn], tuple(self._expr(a, own) for a in e.args), own)
        if isinstance(e.callee, ast.Ident) and e.callee.name in self.scope.functions:
            return self._inlined(self.scope.functions[e.callee.name], e)
        raise UnreadableError("a call")

    def _inlined(self, fn: ast.FnDecl, e: ast.Call) -> Expr:
        """A function that only returns an expression of its parameters."""
        if fn.body is None or len(fn.body.stmts) != 1 or len(fn.params) != len(e.args) or self.depth > 8:
            raise UnreadableError("a call")
        (only,) = fn.body.stmts
        result = named_type(fn.result)
        if not isinstance(only, ast.Return) or only.value is None or result is None:
            raise UnreadableError("a call")
        mapping: dict[str, Expr] = {}
        saved, self.names = self.names, dict(self.names)
        for parameter, argument in zip(fn.params, e.args, strict=True):
            own = named_type(parameter.type_expr)
            if own is None or parameter.name is None:
                raise UnreadableError("a call")
            self.names, inner = saved, self.names
            value = self._expr(argument, own)
            self.names = inner
            name = f"{fn.name}.{parameter.name}"
            self.types[name] = own
            self.names[parameter.name] = name
            mapping[name] = value
        self.known = {n: v for n, v in self.known.items() if n not in mapping}
        self.depth += 1
        body = self._expr(only.value, result)
        self.depth -= 1
        self.names = saved
        (inlined,) = substitute((Assign("", body),), mapping)
        assert isinstance(inlined, Assign)
        return inlined.value


def locals_after(statements: Sequence[ast.Stmt], scope: Scope, outside: Locals) -> Locals:
    """What is known of a function's names after some of its statements."""
    known = outside.copy()
    for s in statements:
        if isinstance(s, ast.VarDecl):
            reader = _Reader(scope, known, set())
            ty = named_type(s.type_expr)
            if ty is None and s.init is not None:
                ty = reader._type(s.init)
                if ty is None and reader._is_whole(s.init) and s.kind is ast.VarKind.CONST:
                    ty = Ty.I32
            known.types.pop(s.name, None)
            known.mutable.discard(s.name)
            known.values.pop(s.name, None)
            if ty is None:
                continue
            known.types[s.name] = ty
            if s.kind is ast.VarKind.VAR:
                known.mutable.add(s.name)
            elif ty.is_int and s.init is not None:
                value = _constant(s.init, reader, ty)
                if value is not None:
                    known.values[s.name] = value
    return known


def _constant(e: ast.Expr, reader: _Reader, ty: Ty) -> int | None:
    try:
        return fold.int_value(reader._expr(e, ty))
    except UnreadableError:
        return None


def parameters(fn: ast.FnDecl) -> Locals:
    """The parameters of a function."""
    known = Locals()
    for p in fn.params:
        ty = named_type(p.type_expr)
        if p.name is not None and ty is not None:
            known.types[p.name] = ty
    return known


Sizes = Mapping[str, int]
__all__ = ["Const", "Locals", "Region", "Sizes", "locals_after", "parameters", "read_region"]
