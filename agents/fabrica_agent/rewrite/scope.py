"""What the names of a compute file stand for: sizes, constants, arrays, scalars, functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabrica_agent.lowering.ir import Ty
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

_TYPES = {t.value: t for t in Ty}


class UnreadableError(Exception):
    """A construct that the rewriting layer leaves alone."""


@dataclass(frozen=True)
class ArrayFact:
    """A one-dimensional array at file level: element type, length, its declaration."""

    name: str
    ty: Ty
    length: int
    declaration: ast.VarDecl


@dataclass
class Scope:
    """Names at file level.

    Attributes:
        values: Integer constants and sizes with their values.
        types: Types of constants, sizes and scalar variables, where known.
        arrays: Arrays with known length.
        scalars: Variables of numeric type.
        functions: Functions and tasks.
        modules: Imported modules: name to what is imported.
        numbers: Float constants with their values.
    """

    values: dict[str, int] = field(default_factory=dict)
    types: dict[str, Ty] = field(default_factory=dict)
    arrays: dict[str, ArrayFact] = field(default_factory=dict)
    scalars: dict[str, Ty] = field(default_factory=dict)
    functions: dict[str, ast.FnDecl] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)


def scope_of(tree: ast.File, sizes: Mapping[str, int]) -> Scope:
    """Read the declarations of a file, in order, with the given sizes."""
    scope = Scope()
    for item in tree.items:
        if isinstance(item, ast.FnDecl):
            scope.functions[item.name] = item
        elif isinstance(item, ast.VarDecl):
            _declare(item, scope, sizes)
    return scope


def local_names(fn: ast.FnDecl) -> set[str]:
    """Parameters and variables of a function, those of its blocks included."""
    declared = {p.name for p in fn.params} | {d.name for d in walk(fn) if isinstance(d, ast.VarDecl)}
    return {name for name in declared if name is not None}


def _declare(d: ast.VarDecl, scope: Scope, sizes: Mapping[str, int]) -> None:
    ty = named_type(d.type_expr)
    if d.kind is ast.VarKind.PARAM:
        if ty is not None:
            scope.types[d.name] = ty
            value = sizes.get(d.name)
            if value is None and d.init is not None:
                value = comptime_int(d.init, scope)
            if value is not None and ty.is_int:
                scope.values[d.name] = value
        return
    if isinstance(d.init, ast.BuiltinCall) and d.init.name == "import_module" and d.init.args:
        if isinstance(d.init.args[0], ast.StringLit):
            scope.modules[d.name] = d.init.args[0].value.decode()
        return
    shape = _array_type(d)
    if shape is not None:
        element = named_type(shape.element)
        if element is not None and len(shape.dims) == 1 and d.kind is ast.VarKind.VAR:
            length = comptime_int(shape.dims[0], scope)
            if length is not None:
                scope.arrays[d.name] = ArrayFact(d.name, element, length, d)
        return
    if d.kind is ast.VarKind.CONST and d.init is not None:
        value = comptime_int(d.init, scope)
        if value is not None:
            scope.values[d.name] = value
            found = ty or type_of(d.init, scope.types)
            if found is not None:
                scope.types[d.name] = found
            return
        number = _comptime_float(d.init)
        if number is not None:
            scope.numbers[d.name] = number
            if ty is not None:
                scope.types[d.name] = ty
        return
    if d.kind is ast.VarKind.VAR:
        found = ty or (type_of(d.init, scope.types) if d.init is not None else None)
        if found is not None:
            scope.scalars[d.name] = found
            scope.types[d.name] = found


def _array_type(d: ast.VarDecl) -> ast.ArrayType | None:
    if isinstance(d.type_expr, ast.ArrayType):
        return d.type_expr
    init = d.init
    if isinstance(init, ast.BuiltinCall) and init.name in ("zeros", "constants") and init.args:
        shape = init.args[0]
        return shape if isinstance(shape, ast.ArrayType) else None
    return init.type_expr if isinstance(init, ast.InitList) and isinstance(init.type_expr, ast.ArrayType) else None


def named_type(e: ast.Expr | None) -> Ty | None:
    """The numeric type that an expression names."""
    return _TYPES.get(e.name) if isinstance(e, ast.Ident) else None


def comptime_int(e: ast.Expr, scope: Scope) -> int | None:
    """The value of an integer expression of constants and sizes."""
    match e:
        case ast.IntLit(value=value):
            return value
        case ast.BoolLit(value=truth):
            return int(truth)
        case ast.Ident(name=name):
            return scope.values.get(name)
        case ast.Unary(op="-", operand=operand):
            inner = comptime_int(operand, scope)
            return None if inner is None else -inner
        case ast.BuiltinCall(name="as", args=[_, operand]):
            return comptime_int(operand, scope)
        case ast.If(cond=cond, then=ast.Expr() as then, otherwise=ast.Expr() as otherwise):
            test = comptime_int(cond, scope)
            return None if test is None else comptime_int(then if test else otherwise, scope)
        case ast.Binary(op=op, lhs=lhs, rhs=rhs):
            a, b = comptime_int(lhs, scope), comptime_int(rhs, scope)
            return None if a is None or b is None else _arithmetic(op, a, b)
        case _:
            return None


def _arithmetic(op: str, a: int, b: int) -> int | None:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/" if b > 0 and a >= 0:
            return a // b
        case "%" if b > 0 and a >= 0:
            return a % b
        case "<<" if 0 <= b < 32:
            return a << b
        case ">>" if 0 <= b < 32:
            return a >> b
        case "==":
            return int(a == b)
        case "!=":
            return int(a != b)
        case "<":
            return int(a < b)
        case "<=":
            return int(a <= b)
        case ">":
            return int(a > b)
        case ">=":
            return int(a >= b)
        case "and":
            return int(bool(a) and bool(b))
        case "or":
            return int(bool(a) or bool(b))
        case _:
            return None


def _comptime_float(e: ast.Expr) -> float | None:
    match e:
        case ast.FloatLit(value=value):
            return value
        case ast.Unary(op="-", operand=operand):
            inner = _comptime_float(operand)
            return None if inner is None else -inner
        case ast.BuiltinCall(name="as", args=[_, operand]):
            return _comptime_float(operand)
        case _:
            return None


def type_of(e: ast.Expr, types: Mapping[str, Ty]) -> Ty | None:
    """The type of an expression by its leaves; None for numbers that take the type of their surroundings."""
    match e:
        case ast.Ident(name=name):
            return types.get(name)
        case ast.BuiltinCall(name="as" | "bitcast", args=[to, _]):
            return named_type(to)
        case ast.Unary(operand=operand):
            return type_of(operand, types)
        case ast.Binary(op="==" | "!=" | "<" | "<=" | ">" | ">=" | "and" | "or"):
            return Ty.BOOL
        case ast.Binary(lhs=lhs, rhs=rhs):
            return type_of(lhs, types) or type_of(rhs, types)
        case ast.If(then=ast.Expr() as then, otherwise=ast.Expr() as otherwise):
            return type_of(then, types) or type_of(otherwise, types)
        case ast.BoolLit():
            return Ty.BOOL
        case _:
            return None
