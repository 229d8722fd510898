"""What is the same in every turn of a loop, computed once before it.

for (@range(u16, n)) |j| {            const kept_0 = i * n;
  y[j] = c[0] * x[i * n + j];         const kept_1 = c[0];
}                              ->     for (@range(u16, n)) |j| {
                                        y[j] = kept_1 * x[kept_0 + j];
                                      }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from fabrica_agent.rewrite.scope import Scope, comptime_int, local_names, scope_of
from fabrica_agent.rewrite.text import Edit, apply, identifiers, indentation, parse
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

TURNS = 8
"""Turns of a loop whose number isn't known when the program is compiled."""
OPERATION, LOAD = 2.0, 4.0
"""Cycles of one operation, and of one read of an array element with the computation of its place."""
_OPERATORS = ("+", "-", "*", "&", "|", "^")
_PURE = ("as", "bitcast", "range")
_EVERYTHING = "*"

Loop = ast.For | ast.While


@dataclass(frozen=True)
class _Surroundings:
    """What a loop may not take as known.

    Attributes:
        changed: Names that it declares or assigns; `*` for all variables and arrays at file level.
        fixed: Names with values that are known at compile time: what is made of them alone costs nothing.
        variables: Variables and arrays at file level.
        local: Names of the function's own, which may be those of arrays at file level too.
        pointed: Variables and arrays that a pointer may lead to.
        through_pointers: Whether it writes where a pointer leads.
    """

    scope: Scope
    changed: set[str]
    fixed: set[str]
    variables: set[str]
    local: set[str]
    pointed: set[str]
    through_pointers: bool


def hoisted(text: str, sizes: Mapping[str, int]) -> tuple[str, float] | None:
    """The text with the values that loops don't change before them, and the cycles this is expected to save.

    Only sums, products and bit operations of numbers, and elements at places that are known at compile time, so that
    nothing can fail that would not have been computed at all.
    """
    tree = parse(text)
    scope = scope_of(tree, sizes)
    edits: list[Edit] = []
    names = _fresh(tree)
    gain = 0.0
    for fn in tree.items:
        if not isinstance(fn, ast.FnDecl) or any(isinstance(n, ast.AsmExpr) for n in walk(fn)):
            continue
        covered: list[ast.Span] = []
        for loop, turns in _loops(fn.body, scope, 1):
            around = _surroundings(loop, fn, tree, scope)
            known: dict[str, str] = {}
            for e in _constant_parts(_repeated(loop), around):
                if any(c.start <= e.span.start < c.end for c in covered):
                    continue
                covered.append(e.span)
                own = text[e.span.start : e.span.end]
                if own not in known:
                    known[own] = next(names)
                edits.append(Edit(e.span.start, e.span.end, known[own]))
                gain += (turns - 1) * _cost(e, around)
            pad, at = indentation(text, loop.span.start), loop.span.start
            edits += [Edit(at, at, f"const {name} = {own};\n{pad}") for own, name in known.items()]
    return (apply(text, edits), gain) if edits else None


def _fresh(tree: ast.File) -> Iterator[str]:
    taken, number = identifiers(tree), 0
    while True:
        if f"kept_{number}" not in taken:
            yield f"kept_{number}"
        number += 1


def _loops(body: ast.Node | None, scope: Scope, turns: int) -> Iterator[tuple[Loop, int]]:
    """Loops that are statements of a block, outer ones first, with how often their bodies run."""
    if isinstance(body, ast.ExprStmt):
        body = body.expr
    if isinstance(body, ast.If):
        yield from _loops(body.then, scope, turns)
        yield from _loops(body.otherwise, scope, turns)
    if not isinstance(body, ast.Block):
        return
    for s in body.stmts:
        if isinstance(s, ast.For | ast.While) and not s.is_inline:
            own = turns * _turns(s, scope)
            yield s, own
            yield from _loops(s.body, scope, own)
        elif isinstance(s, ast.ExprStmt):
            yield from _loops(s, scope, turns)


def _turns(loop: Loop, scope: Scope) -> int:
    match loop:
        case ast.For(iterable=ast.BuiltinCall(name="range", args=[_, stop])):
            return max(1, comptime_int(stop, scope) or TURNS)
        case _:
            return TURNS


def _repeated(loop: Loop) -> list[ast.Node | None]:
    return [loop.body] if isinstance(loop, ast.For) else [loop.cond, loop.step, loop.body]


def _surroundings(loop: Loop, fn: ast.FnDecl, tree: ast.File, scope: Scope) -> _Surroundings:
    local = local_names(fn)
    variables = {d.name for d in tree.items if isinstance(d, ast.VarDecl) and d.kind is ast.VarKind.VAR}
    changed: set[str] = set()
    through = False
    for n in walk(loop):
        match n:
            case ast.For(item=item, index=index):
                changed |= {item} | ({index} if index else set())
            case ast.VarDecl(name=name):
                changed.add(name)
            case ast.TensorAccess(variables=own):
                changed |= set(own)
            case ast.Assign(target=target):
                base = _base(target)
                changed |= {base} if base else {_EVERYTHING}
                through |= isinstance(target, ast.Deref | ast.Index) and (base in local or base not in scope.arrays)
            case ast.Unary(op="&", operand=operand):
                changed |= {_EVERYTHING, _base(operand) or _EVERYTHING}
            case ast.BuiltinCall(name=name) if name not in _PURE:
                changed.add(_EVERYTHING)
            case ast.Call(callee=callee) if not _is_math(callee, scope):
                changed.add(_EVERYTHING)
            case _:
                pass
    fixed = {d.name for d in tree.items if isinstance(d, ast.VarDecl) and d.kind is not ast.VarKind.VAR}
    return _Surroundings(scope, changed, fixed, variables, local, _pointed(tree), through)


def _base(target: ast.Expr) -> str | None:
    while isinstance(target, ast.Index | ast.Deref | ast.FieldAccess):
        target = target.base
    return target.name if isinstance(target, ast.Ident) else None


def _is_math(callee: ast.Expr, scope: Scope) -> bool:
    return (
        isinstance(callee, ast.FieldAccess)
        and isinstance(callee.base, ast.Ident)
        and scope.modules.get(callee.base.name) == "<math>"
    )


def _pointed(tree: ast.File) -> set[str]:
    """Names whose address goes anywhere but into a pointer that is only exported."""
    exported = {
        n.args[0].name: n for n in walk(tree)
        if isinstance(n, ast.BuiltinCall) and n.name == "export_symbol" and n.args and isinstance(n.args[0], ast.Ident)
    }  # fmt: skip
    mentions = [n.name for n in walk(tree) if isinstance(n, ast.Ident)]
    harmless = {
        id(d.init) for d in tree.items
        if isinstance(d, ast.VarDecl) and d.name in exported and mentions.count(d.name) == 1
    }  # fmt: skip
    return {
        _base(n.operand) or "" for n in walk(tree)
        if isinstance(n, ast.Unary) and n.op == "&" and id(n) not in harmless
    }  # fmt: skip


def _constant_parts(node: object, around: _Surroundings) -> Iterator[ast.Expr]:
    """The largest expressions that are the same in every turn and take time to compute."""
    for top in node if isinstance(node, list) else [node]:
        yield from _parts(top, around)


def _parts(node: object, around: _Surroundings) -> Iterator[ast.Expr]:
    if isinstance(node, ast.Expr) and _is_constant(node, around):
        if _cost(node, around) > 0:
            yield node
        return
    match node:
        case ast.Assign(target=target, value=value):
            # A target is a place: only the indices in it are values.
            yield from _inside_target(target, around)
            yield from _parts(value, around)
        case ast.Unary(op="&") | ast.TensorAccess() | ast.ComptimeExpr() | ast.StringLit():
            return
        case ast.For(iterable=iterable, body=body, is_inline=False):
            yield from _parts(iterable, around)
            yield from _parts(body, around)
        case ast.For() | ast.While(is_inline=True):
            return
        case ast.BuiltinCall(name="as" | "bitcast" | "range", args=[_, *values]):
            yield from _constant_parts(values, around)
        case ast.BuiltinCall():
            return
        case ast.Node():
            for child in _children(node):
                yield from _parts(child, around)
        case _:
            return


def _inside_target(target: ast.Expr, around: _Surroundings) -> Iterator[ast.Expr]:
    match target:
        case ast.Index(base=base, indices=indices):
            yield from _inside_target(base, around)
            yield from _constant_parts(indices, around)
        case ast.Deref(base=base) | ast.FieldAccess(base=base):
            yield from _inside_target(base, around)
        case _:
            return


def _children(node: ast.Node) -> Iterator[object]:
    for value in (getattr(node, field.name) for field in fields(node)):
        if isinstance(value, ast.Node):
            yield value
        elif isinstance(value, list):
            yield from (v for v in value if isinstance(v, ast.Node))


def _is_constant(e: ast.Expr, around: _Surroundings) -> bool:
    match e:
        case ast.IntLit() | ast.FloatLit():
            return True
        case ast.Ident(name=name):
            everything = _EVERYTHING in around.changed
            reached = (everything or around.through_pointers) and name in around.pointed
            if name in around.changed or reached or (everything and name in around.variables):
                return False
            return name not in around.scope.arrays
        case ast.Unary(op="-", operand=operand):
            return _is_constant(operand, around)
        case ast.Binary(op=op, lhs=lhs, rhs=rhs) if op in _OPERATORS:
            return _is_constant(lhs, around) and _is_constant(rhs, around)
        case ast.Index(base=ast.Ident(name=name), indices=[index]):
            array = around.scope.arrays.get(name)
            if array is None or name in around.local or name in around.changed or _EVERYTHING in around.changed:
                return False
            if around.through_pointers and name in around.pointed:
                return False
            place = comptime_int(index, around.scope)
            return place is not None and 0 <= place < array.length
        case _:
            return False


def _cost(e: ast.Expr, around: _Surroundings) -> float:
    """Cycles of an expression in every turn; nothing for what the compiler computes."""
    match e:
        case ast.Index():
            return LOAD
        case ast.Binary(lhs=lhs, rhs=rhs):
            parts = [n for n in walk(e) if isinstance(n, ast.Ident | ast.Index)]
            free = all(isinstance(n, ast.Ident) and n.name in around.fixed for n in parts)
            return 0.0 if free else OPERATION + _cost(lhs, around) + _cost(rhs, around)
        case ast.Unary(operand=operand):
            return _cost(operand, around)
        case _:
            return 0.0
