"""Products with gathered elements, formed for all elements at once.

    while (k < end) : (k += 1) { sum += value[k] * x[index[k]]; }

The products don't depend on which sum they go to. `@map` gathers, one operation multiplies, and the loop only adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabrica_agent.rewrite.scope import Scope, scope_of
from fabrica_agent.rewrite.text import Edit, apply, before_comments, identifiers, indentation, parse
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

ELEMENT = 4.0
"""Cycles that an element is expected to save."""


@dataclass(frozen=True)
class _Gather:
    statement: ast.Assign
    values: str
    origin: str
    indices: str
    counter: str


def gathered(text: str, sizes: Mapping[str, int]) -> tuple[str, float] | None:
    """The text with the products of one loop formed ahead, and the cycles that this is expected to save.

    Elements that the loop wouldn't reach are gathered too, so every index in the array has to be a valid one.
    """
    tree = parse(text)
    scope = scope_of(tree, sizes)
    for fn in tree.items:
        if not isinstance(fn, ast.FnDecl) or fn.body is None:
            continue
        for position, outer in enumerate(fn.body.stmts):
            found = _find(outer, scope)
            if found is None:
                continue
            written = {
                n.target.base.name
                for n in walk(fn) if isinstance(n, ast.Assign) and isinstance(n.target, ast.Index)
                and isinstance(n.target.base, ast.Ident)
            }  # fmt: skip
            if written & {found.values, found.origin, found.indices}:
                continue
            return _rewritten(text, tree, scope, fn, fn.body.stmts[position], found)
    return None


def _find(s: ast.Stmt, scope: Scope) -> _Gather | None:
    for loop in walk(s):
        if isinstance(loop, ast.While) and isinstance(loop.step, ast.Assign):
            counter = loop.step.target.name if isinstance(loop.step.target, ast.Ident) else None
        elif isinstance(loop, ast.For):
            counter = loop.item
        else:
            continue
        body = loop.body.expr if isinstance(loop.body, ast.ExprStmt) else loop.body
        if counter is None or not isinstance(body, ast.Block) or len(body.stmts) != 1:
            continue
        only = body.stmts[0]
        if isinstance(only, ast.Assign) and only.op == "+=" and isinstance(only.value, ast.Binary):
            product = only.value
            for a, b in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
                values, inner = _element(a, counter), _indirect(b, counter)
                if product.op == "*" and values is not None and inner is not None:
                    names = (values, *inner)
                    if all(n in scope.arrays for n in names):
                        return _Gather(only, values, inner[0], inner[1], counter)
    return None


def _element(e: ast.Expr, counter: str) -> str | None:
    match e:
        case ast.Index(base=ast.Ident(name=name), indices=[ast.Ident(name=index)]) if index == counter:
            return name
        case _:
            return None


def _indirect(e: ast.Expr, counter: str) -> tuple[str, str] | None:
    match e:
        case ast.Index(base=ast.Ident(name=name), indices=[index]):
            if isinstance(index, ast.BuiltinCall) and index.name == "as":
                index = index.args[1]
            inner = _element(index, counter)
            return None if inner is None else (name, inner)
        case _:
            return None


def _rewritten(
    text: str, tree: ast.File, scope: Scope, fn: ast.FnDecl, outer: ast.Stmt, g: _Gather
) -> tuple[str, float] | None:
    taken = identifiers(tree)
    names = {n: _fresh(n, taken) for n in ("products", "gather", "products_dsd", "values_dsd", "indices_dsd")}
    length = min(scope.arrays[g.indices].length, scope.arrays[g.values].length)
    index_type, ty = scope.arrays[g.indices].ty, scope.arrays[g.values].ty
    if ty.value != "f32" or scope.arrays[g.origin].ty is not ty:
        return None
    at = "at" if index_type.value == "u16" else "@as(u16, at)"

    def dsd(name: str, array: str) -> str:
        return f"const {name} = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{length}}} -> {array}[i] }});"

    top = "\n".join([
        f"var {names['products']}: [{length}]f32 align(16) = @zeros([{length}]f32);",
        dsd(names["products_dsd"], names["products"]),
        dsd(names["values_dsd"], g.values),
        dsd(names["indices_dsd"], g.indices),
        f"fn {names['gather']}(at: {index_type.value}) f32 {{\n  return {g.origin}[{at}];\n}}",
    ])  # fmt: skip
    pad = indentation(text, outer.span.start)
    ahead = (
        f"@map({names['gather']}, {names['indices_dsd']}, {names['products_dsd']});\n{pad}"
        f"@fmuls({names['products_dsd']}, {names['products_dsd']}, {names['values_dsd']});\n{pad}"
    )
    value = g.statement.value.span
    where = before_comments(text, fn.span.start)
    edits = [
        Edit(where, where, top + "\n\n"),
        Edit(outer.span.start, outer.span.start, ahead),
        Edit(value.start, value.end, f"{names['products']}[{g.counter}]"),
    ]
    return apply(text, edits), ELEMENT * length


def _fresh(base: str, taken: set[str]) -> str:
    name, count = base, 1
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    return name
