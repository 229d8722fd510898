"""Products that are only added to something: one operation multiplies and adds, and the array between them goes.

@fmuls(product, x, factor);
@fadds(y, y, product);         ->     @fmacs(y, y, x, factor);
"""

from __future__ import annotations

from collections.abc import Mapping

from fabrica_agent.lowering.ir import Ty
from fabrica_agent.rewrite.descriptors import Descriptor, OperationCall, descriptors_of, name_of, statement_calls
from fabrica_agent.rewrite.scope import Scope, local_names, scope_of
from fabrica_agent.rewrite.text import Edit, apply, line_start, parse
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

START = 10.0
"""Cycles that an operation takes beyond those for its elements, about."""


def fused(text: str, sizes: Mapping[str, int]) -> tuple[str, float] | None:
    """The text with multiply-adds, and the cycles this is expected to save.

    Holds only where the factor is a number, nothing else uses the array of products, and no element that is read is
    written before: the sum lies where the other factor lies, element by element, or in another array.
    """
    tree = parse(text)
    scope = scope_of(tree, sizes)
    descriptors = descriptors_of(tree, scope)
    edits: list[Edit] = []
    gain = 0.0
    done: set[int] = set()
    for fn in tree.items:
        if not isinstance(fn, ast.FnDecl):
            continue
        numbers = {n for n, ty in scope.types.items() if ty is Ty.F32} | set(scope.numbers) | _local_numbers(fn)
        for product in statement_calls(fn):
            total = _next(product)
            if total is None or id(product.block.stmts[product.position]) in done:
                continue
            used = {n.name for n in walk([product.call, total]) if isinstance(n, ast.Ident)}
            if used & local_names(fn) - _local_numbers(fn):
                continue  # a local name may be that of a descriptor too
            call = _multiply_add(text, tree, product, total, descriptors, scope, numbers)
            if call is None:
                continue
            done.add(id(product.block.stmts[product.position + 1]))
            middle = name_of(product.call.args[0]) or ""
            gain += START + (descriptors[middle].count or 0)
            first, second = product.block.stmts[product.position : product.position + 2]
            edits += [_without_line(text, first), Edit(second.span.start, second.span.end, f"{call};")]
            edits += [_without_line(text, d) for d in tree.items if isinstance(d, ast.VarDecl)
                      and d.name in (middle, descriptors[middle].array)]  # fmt: skip
    return (apply(text, edits), gain) if edits else None


def _next(product: OperationCall) -> ast.BuiltinCall | None:
    """The sum that follows a product at once."""
    if product.call.name != "fmuls" or product.position + 1 >= len(product.block.stmts):
        return None
    match product.block.stmts[product.position + 1]:
        case ast.ExprStmt(expr=ast.BuiltinCall(name="fadds" | "fsubs") as call):
            return call if len(call.args) == len(product.call.args) == 3 else None
        case _:
            return None


def _multiply_add(
    text: str,
    tree: ast.File,
    product: OperationCall,
    total: ast.BuiltinCall,
    descriptors: Mapping[str, Descriptor],
    scope: Scope,
    numbers: set[str],
) -> str | None:
    middle = name_of(product.call.args[0])
    held = descriptors.get(middle or "")
    array = scope.arrays.get(held.array or "") if held is not None else None
    if middle is None or held is None or array is None or array.ty is not Ty.F32 or held.count is None:
        return None
    # Written by the product, read by the sum, and declared: more uses than these need the array.
    mentions = [n.name for n in walk(tree) if isinstance(n, ast.Ident) and n.name in (middle, array.name)]
    if sorted(mentions) != sorted([middle, middle, array.name]):
        return None
    sources = product.call.args[1:]
    columns = [a for a in sources if name_of(a) in descriptors]
    factors = [a for a in sources if name_of(a) not in descriptors and _is_number(a, numbers, scope)]
    others = [a for a in total.args[1:] if name_of(a) != middle]
    if len(columns) != 1 or len(factors) != 1 or len(others) != 1:
        return None
    if total.name == "fsubs" and name_of(total.args[2]) != middle:
        return None
    target, other, column = name_of(total.args[0]) or "", name_of(others[0]) or "", name_of(columns[0]) or ""
    parts = [descriptors.get(n) for n in (target, other, column)]
    if any(d is None or d.kind != "mem1d_dsd" or d.array is None or d.count != held.count for d in parts):
        return None
    if target != column and descriptors[target].array == descriptors[column].array:
        return None
    factor = text[factors[0].span.start : factors[0].span.end]
    if total.name == "fsubs":
        factor = f"-{factor}" if isinstance(factors[0], ast.Ident | ast.Index) else f"-({factor})"
    return f"@fmacs({target}, {other}, {column}, {factor})"


def _is_number(e: ast.Expr, numbers: set[str], scope: Scope) -> bool:
    """Whether an expression is surely a number rather than a descriptor."""
    match e:
        case ast.FloatLit():
            return True
        case ast.Ident(name=name):
            return name in numbers
        case ast.Index(base=ast.Ident(name=name)):
            return name in scope.arrays and scope.arrays[name].ty is Ty.F32
        case ast.Unary(op="-", operand=operand):
            return _is_number(operand, numbers, scope)
        case ast.Binary(op="+" | "-" | "*" | "/", lhs=lhs, rhs=rhs):
            return _is_number(lhs, numbers, scope) and _is_number(rhs, numbers, scope)
        case _:
            return False


def _local_numbers(fn: ast.FnDecl) -> set[str]:
    """Parameters and variables of a function that are declared as f32."""
    declared = [(p.name, p.type_expr) for p in fn.params]
    declared += [(d.name, d.type_expr) for d in walk(fn) if isinstance(d, ast.VarDecl)]
    return {n for n, ty in declared if n is not None and isinstance(ty, ast.Ident) and ty.name == "f32"}


def _without_line(text: str, node: ast.Node) -> Edit:
    end = text.find("\n", node.span.end)
    return Edit(line_start(text, node.span.start), len(text) if end < 0 else end + 1, "")
