"""Rewrites of how a program is cut into pieces and tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabrica_agent.rewrite.scope import Scope, scope_of
from fabrica_agent.rewrite.text import Edit, apply, before_comments, identifiers, parse
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

PIECE = 400.0
"""Cycles that one exchange less is expected to save, with its tasks and the latency of the fabric."""
LOAD = 3.0
"""Cycles that a read of a variable takes."""
DISPATCH = 6.0
"""Cycles from an activation to the start of a task on an idle PE, beyond those of a call."""


def larger_pieces(text: str, sizes: Mapping[str, int]) -> list[tuple[str, float]]:
    """For each size that is only the program's own choice, the text with a larger size in its place.

    A size that no exported array depends on says how the work is cut, not how large it is.
    """
    tree = parse(text)
    scope = scope_of(tree, sizes)
    params = [
        d for d in tree.items
        if isinstance(d, ast.VarDecl) and d.kind is ast.VarKind.PARAM and d.name in scope.values
        and scope.types.get(d.name) is not None and scope.types[d.name].is_int
    ]  # fmt: skip
    fixed = _in_exported_arrays(tree, scope)
    found: list[tuple[str, float]] = []
    for p in params:
        if p.name in fixed or scope.values[p.name] < 1:
            continue
        for q in params:
            pieces = -(-scope.values[q.name] // scope.values[p.name])
            if pieces < 2 or scope.types[q.name] is not scope.types[p.name]:
                continue
            uses = [n for n in walk(tree) if isinstance(n, ast.Ident) and n.name == p.name]
            if uses:
                edits = [Edit(n.span.start, n.span.end, q.name) for n in uses]
                found.append((apply(text, edits), PIECE * (pieces - 1)))
    return found


def _in_exported_arrays(tree: ast.File, scope: Scope) -> set[str]:
    """Names that the declarations of arrays mention whose address is taken at file level."""
    pointed = {
        n.operand.name
        for d in tree.items if isinstance(d, ast.VarDecl)
        for n in walk(d) if isinstance(n, ast.Unary) and n.op == "&" and isinstance(n.operand, ast.Ident)
    }  # fmt: skip
    return {
        n.name
        for d in tree.items if isinstance(d, ast.VarDecl) and d.name in pointed
        for n in walk(d) if isinstance(n, ast.Ident)
    }  # fmt: skip


def constants(text: str, sizes: Mapping[str, int]) -> tuple[str, float] | None:
    """The text with scalar variables that nothing ever changes as constants, so that reading them costs nothing."""
    del sizes
    tree = parse(text)
    changed: set[str] = set()
    for n in walk(tree):
        if isinstance(n, ast.Assign):
            changed |= {x.name for x in walk(n.target) if isinstance(x, ast.Ident)}
        elif isinstance(n, ast.Unary) and n.op == "&":
            changed |= {x.name for x in walk(n.operand) if isinstance(x, ast.Ident)}
        elif isinstance(n, ast.BuiltinCall) and n.name == "export_symbol":
            changed |= {x.name for x in walk(n.args) if isinstance(x, ast.Ident)}
    edits: list[Edit] = []
    for d in walk(tree):
        if (
            not isinstance(d, ast.VarDecl)
            or d.kind is not ast.VarKind.VAR
            or d.name in changed
            or d.storage is not None
        ):
            continue
        if isinstance(d.init, ast.IntLit | ast.FloatLit | ast.BoolLit) and d.attributes.align is None:
            edits.append(Edit(d.span.start, d.span.start + len("var"), "const"))
    return (apply(text, edits), LOAD * len(edits)) if edits else None


def fused_tasks(text: str, sizes: Mapping[str, int]) -> tuple[str, float] | None:
    """The text with a task called where a function ends by activating it.

    Holds only for local tasks that nothing blocks, and where the call can't lead back to the caller, since there is
    no recursion.
    """
    tree = parse(text)
    functions = {f.name: f for f in tree.items if isinstance(f, ast.FnDecl) and f.body is not None}
    bound = {
        c.args[1].name: c.args[0].name
        for c in walk(tree)
        if isinstance(c, ast.BuiltinCall) and c.name == "bind_local_task" and len(c.args) == 2
        and isinstance(c.args[0], ast.Ident) and isinstance(c.args[1], ast.Ident)
    }  # fmt: skip
    blocked = {
        n.name
        for c in walk(tree) if isinstance(c, ast.BuiltinCall) and c.name in ("block", "unblock")
        for n in walk(c.args) if isinstance(n, ast.Ident)
    }  # fmt: skip
    calls = {name: _calls(f, functions) for name, f in functions.items()}
    edits: list[Edit] = []
    moved: set[str] = set()
    for name, f in functions.items():
        assert f.body is not None
        for call in _last_activations(f.body.stmts):
            task = bound.get(call.args[0].name) if isinstance(call.args[0], ast.Ident) else None
            if task is None or task not in functions or functions[task].params or _id(call) in blocked:
                continue
            if name in _reached(task, calls) or name == task:
                continue
            edits.append(Edit(call.span.start, call.span.end, f"{task}_now()"))
            calls[name] = calls[name] | {task}
            moved.add(task)
    if not edits or any(f"{t}_now" in identifiers(tree) for t in moved):
        return None
    for task in moved:
        f = functions[task]
        assert f.body is not None
        body = text[f.body.span.start : f.body.span.end]
        at = before_comments(text, f.span.start)
        edits.append(Edit(at, at, f"fn {task}_now() void {body}\n\n"))
        edits.append(Edit(f.body.span.start, f.body.span.end, f"{{\n  {task}_now();\n}}"))
    # An activation inside a body that was moved would be edited twice.
    inside = [functions[t].body for t in moved]
    if any(b is not None and b.span.start < e.start < b.span.end for e in edits for b in inside):
        return None
    return apply(text, edits), DISPATCH * len(edits)


def _id(call: ast.BuiltinCall) -> str:
    return call.args[0].name if isinstance(call.args[0], ast.Ident) else ""


def _last_activations(statements: list[ast.Stmt]) -> Iterator[ast.BuiltinCall]:
    """Activations after which a function has nothing more to do."""
    if not statements:
        return
    last = statements[-1]
    if not isinstance(last, ast.ExprStmt):
        return
    e = last.expr
    if isinstance(e, ast.BuiltinCall) and e.name == "activate" and len(e.args) == 1:
        yield e
    elif isinstance(e, ast.If):
        for side in (e.then, e.otherwise):
            body = side.expr if isinstance(side, ast.ExprStmt) else side
            if isinstance(body, ast.Block):
                yield from _last_activations(body.stmts)


def _calls(f: ast.FnDecl, functions: Mapping[str, ast.FnDecl]) -> set[str]:
    return {n.name for n in walk(f.body) if isinstance(n, ast.Ident) and n.name in functions}


def _reached(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = [name]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo += calls.get(current, ())
    return seen
