"""Results that are only passed on, computed straight to where they go.

    if (has_west) { @fadds(sums, from_west, sums); } else { @fadds(sums, sums, b); }
    if (has_east) { @fmovs(to_east, sums); } else { @fmovs(y, sums); }

The last operation on each path can write to the fabric or to the result itself: words leave as they are computed.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabrica_agent.rewrite.scope import Scope, scope_of
from fabrica_agent.rewrite.text import Edit, apply, indentation, line_start, parse
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

GAIN = 10.0
"""Cycles expected to be saved: less than by removing a buffer, which has to come first where both apply."""
_OPERATIONS = ("fmovs", "fadds", "fsubs", "fmuls", "fmaxs")


def forwarded(text: str, sizes: Mapping[str, int]) -> tuple[str, float] | None:
    """The text with results computed straight to where they are copied, and the cycles this is expected to save."""
    tree = parse(text)
    scope = scope_of(tree, sizes)
    for fn in tree.items:
        if not isinstance(fn, ast.FnDecl) or fn.body is None:
            continue
        for position in range(len(fn.body.stmts) - 1):
            edits = _forwarding(text, tree, scope, fn, position)
            if edits is not None:
                return apply(text, edits), GAIN
    return None


def _forwarding(text: str, tree: ast.File, scope: Scope, fn: ast.FnDecl, position: int) -> list[Edit] | None:
    assert fn.body is not None
    first, second = fn.body.stmts[position : position + 2]
    copies = _branches(second)
    if copies is None or len(copies) != 2 or any(len(b.stmts) != 1 for b in copies):
        return None
    targets = [_copy(b.stmts[0]) for b in copies]
    cond = second.expr.cond if isinstance(second, ast.ExprStmt) and isinstance(second.expr, ast.If) else None
    if any(t is None for t in targets) or cond is None or not _is_fixed(cond, scope, tree):
        return None
    places = [t[0] for t in targets if t is not None]
    held = {t[1] for t in targets if t is not None}
    if len(held) != 1:
        return None
    (name,) = held
    last = _last_operations(first)
    if last is None or any(_first_name(c) != name for c in last):
        return None
    # Nothing else may look at the intermediate result: no other function, and nothing that follows.
    after = fn.body.stmts[position + 2 :]
    others = [f for f in tree.items if isinstance(f, ast.FnDecl) and f is not fn]
    if any(isinstance(n, ast.Ident) and n.name == name for n in walk([*after, *others])):
        return None
    test = text[cond.span.start : cond.span.end]
    edits = []
    for call in last:
        pad = indentation(text, call.span.start)
        rest = text[call.args[0].span.end : call.span.end]
        one, two = (f"@{call.name}({place}{rest};" for place in places)
        new = f"if ({test}) {{\n{pad}  {one}\n{pad}}} else {{\n{pad}  {two}\n{pad}}}"
        stop = call.span.end + (text[call.span.end : call.span.end + 1] == ";")
        edits.append(Edit(call.span.start, stop, new))
    start = line_start(text, second.span.start)
    return [*edits, Edit(start, text.find("\n", second.span.end) + 1, "")]


def _branches(s: ast.Stmt) -> list[ast.Block] | None:
    """Both blocks of an `if` with an `else`."""
    if not isinstance(s, ast.ExprStmt) or not isinstance(s.expr, ast.If):
        return None
    found = []
    for side in (s.expr.then, s.expr.otherwise):
        body = side.expr if isinstance(side, ast.ExprStmt) else side
        if not isinstance(body, ast.Block):
            return None
        found.append(body)
    return found


def _copy(s: ast.Stmt) -> tuple[str, str] | None:
    match s:
        case ast.ExprStmt(expr=ast.BuiltinCall(name="fmovs", args=[ast.Ident(name=to), ast.Ident(name=origin)])):
            return to, origin
        case _:
            return None


def _last_operations(s: ast.Stmt) -> list[ast.BuiltinCall] | None:
    """The last operation on every path through a statement."""
    if isinstance(s, ast.ExprStmt) and isinstance(s.expr, ast.BuiltinCall) and s.expr.name in _OPERATIONS:
        call = s.expr
        return [call] if not any(isinstance(a, ast.InitList) for a in call.args) else None
    blocks = _branches(s)
    if blocks is None or any(not b.stmts for b in blocks):
        return None
    found: list[ast.BuiltinCall] = []
    for block in blocks:
        inner = _last_operations(block.stmts[-1])
        if inner is None:
            return None
        found += inner
    return found


def _first_name(call: ast.BuiltinCall) -> str | None:
    return call.args[0].name if isinstance(call.args[0], ast.Ident) else None


def _is_fixed(e: ast.Expr, scope: Scope, tree: ast.File) -> bool:
    """Whether a condition is known when the program is compiled: only then may both sides have different types."""
    fixed = {d.name for d in tree.items if isinstance(d, ast.VarDecl) and d.kind is ast.VarKind.PARAM} | set(
        scope.values
    )
    return all(n.name in fixed for n in walk(e) if isinstance(n, ast.Ident)) and not any(
        isinstance(n, ast.Call | ast.BuiltinCall | ast.Index) for n in walk(e)
    )
