"""Descriptors at file level, and the operations on them that are statements of their own."""

from __future__ import annotations

from dataclasses import dataclass

from fabrica_agent.rewrite.scope import Scope, comptime_int
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

OPERATIONS = ("fmovs", "fadds", "fsubs", "fmuls", "fmaxs", "fmacs")


@dataclass(frozen=True)
class Descriptor:
    """A constant descriptor at file level: `mem1d_dsd`, `fabin_dsd`, ...; its array and number of elements."""

    kind: str
    array: str | None
    count: int | None
    whole: bool


@dataclass(frozen=True)
class OperationCall:
    """A DSD operation that is a statement of its own."""

    fn: ast.FnDecl
    block: ast.Block
    position: int
    call: ast.BuiltinCall


def statement_calls(fn: ast.FnDecl) -> list[OperationCall]:
    """The operations of a function, blocks within blocks included."""
    found: list[OperationCall] = []
    for block in walk(fn):
        if isinstance(block, ast.Block):
            for position, s in enumerate(block.stmts):
                if isinstance(s, ast.ExprStmt) and isinstance(s.expr, ast.BuiltinCall) and s.expr.name in OPERATIONS:
                    found.append(OperationCall(fn, block, position, s.expr))
    return found


def descriptors_of(tree: ast.File, scope: Scope) -> dict[str, Descriptor]:
    """The constant descriptors of a file by name."""
    found: dict[str, Descriptor] = {}
    for d in tree.items:
        if not isinstance(d, ast.VarDecl) or d.kind is not ast.VarKind.CONST:
            continue
        match d.init:
            case ast.BuiltinCall(name="get_dsd", args=[ast.Ident(name=kind), ast.InitList(inits=inits)]):
                values = {i.name: i.value for i in inits}
                access, extent = values.get("tensor_access"), values.get("extent")
                if isinstance(access, ast.TensorAccess) and isinstance(access.base, ast.Ident):
                    found[d.name] = _memory(kind, access, scope)
                elif extent is not None:
                    found[d.name] = Descriptor(kind, None, comptime_int(extent, scope), False)
            case _:
                pass
    return found


def _memory(kind: str, access: ast.TensorAccess, scope: Scope) -> Descriptor:
    assert isinstance(access.base, ast.Ident)
    count: int | None = 1
    for e in access.extents:
        extent = comptime_int(e, scope)
        count = None if extent is None or count is None else count * extent
    array = scope.arrays.get(access.base.name)
    places = [
        comptime_int(access.indices[0], Scope(values={**scope.values, **dict.fromkeys(access.variables, v)}))
        for v in (0, 1)
    ]
    whole = kind == "mem1d_dsd" and places == [0, 1] and array is not None and count == array.length
    return Descriptor(kind, access.base.name, count, whole)


def name_of(e: ast.Expr) -> str | None:
    """The name that an expression is, if it is no more than that."""
    return e.name if isinstance(e, ast.Ident) else None
