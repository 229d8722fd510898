"""Transfers that go on while a function computes.

    @fmovs(to_east, edge);                @fmovs(to_east, edge, .{ .async = true, .activate = continue_id });
    @fadds(total, left, right);    ->     @fadds(total, left, right);
    window.end();                       } task continue_task() { window.end();
    sys_mod.unblock_cmd_stream();         sys_mod.unblock_cmd_stream();

A task starts only after the function that runs has ended, so what follows the overlapped work waits for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fabrica_agent.rewrite.scope import Scope, comptime_int, scope_of
from fabrica_agent.rewrite.text import Edit, apply, before_comments, identifiers, line_start, parse
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

OPERATIONS = frozenset(
    f"f{word}{size}" for word in ("mov", "add", "sub", "mul", "mac", "max", "neg", "abs") for size in "sh"
) | {"mov32", "mov16"}
FIRST_TASK, LAST_TASK = 24, 8
"""Task ids to look for a free one among, from the end that libraries use least."""
DISPATCH = 20.0
"""Cycles that another task costs, about."""


def overlapped(text: str, sizes: Mapping[str, int]) -> tuple[str, float] | None:
    """The text with one transfer overlapped, the longest there is, and the cycles this is expected to save."""
    tree = parse(text)
    scope = scope_of(tree, sizes)
    fabric = dict(_fabric_descriptors(tree))
    best: tuple[float, ast.FnDecl, int, int] | None = None
    for fn in tree.items:
        if not isinstance(fn, ast.FnDecl) or fn.body is None or not _starts_alone(fn, tree):
            continue
        for position in range(len(fn.body.stmts) - 2):
            end = _independent(fn.body.stmts, position, fabric, tree)
            if end is None or not _movable(fn, fn.body.stmts[end:]):
                continue
            gain = float(_extent(fn.body.stmts[position], fabric, scope)) - DISPATCH
            if best is None or gain > best[0]:
                best = gain, fn, position, end
    if best is None or best[0] <= 0 or _free_task(tree) is None:
        return None
    gain, fn, position, end = best
    return _rewritten(text, tree, fn, position, end), gain


def _fabric_descriptors(tree: ast.File) -> Iterator[tuple[str, ast.BuiltinCall]]:
    for d in tree.items:
        if isinstance(d, ast.VarDecl) and isinstance(d.init, ast.BuiltinCall) and d.init.name == "get_dsd":
            kind = d.init.args[0] if d.init.args else None
            if isinstance(kind, ast.Ident) and kind.name in ("fabin_dsd", "fabout_dsd"):
                yield d.name, d.init


def _starts_alone(fn: ast.FnDecl, tree: ast.File) -> bool:
    """Whether nothing is left to do in a caller when the function ends: it is a task, or only the host calls it."""
    if fn.params:
        return False
    called = any(
        isinstance(n, ast.Call) and isinstance(n.callee, ast.Ident) and n.callee.name == fn.name for n in walk(tree)
    )
    exported = any(
        isinstance(n, ast.BuiltinCall) and n.name == "export_symbol" and n.args
        and isinstance(n.args[0], ast.Ident) and n.args[0].name == fn.name
        for n in walk(tree)
    )  # fmt: skip
    return not called and (fn.kind == "task" or exported)


def _transfer(s: ast.Stmt, fabric: Mapping[str, ast.BuiltinCall]) -> ast.BuiltinCall | None:
    """A synchronous operation with the fabric."""
    if not isinstance(s, ast.ExprStmt) or not isinstance(s.expr, ast.BuiltinCall) or s.expr.name not in OPERATIONS:
        return None
    call = s.expr
    plain = all(isinstance(a, ast.Ident) for a in call.args)
    return call if plain and _names(call) & set(fabric) else None


def _independent(
    stmts: Sequence[ast.Stmt], position: int, fabric: Mapping[str, ast.BuiltinCall], tree: ast.File
) -> int | None:
    """The end of the statements after a transfer that neither touch what it moves nor use the fabric.

    None if there are none with a bulk operation, or nothing that could wait for them follows.
    """
    call = _transfer(stmts[position], fabric)
    if call is None:
        return None
    arrays = {n: _arrays_of(n, tree) for n in _names(call)}
    moved = {a for found in arrays.values() for a in found} | (_names(call) - set(fabric))
    end, worth = position + 1, False
    while end < len(stmts):
        s = stmts[end]
        names = {n.name for n in walk(s) if isinstance(n, ast.Ident)}
        reached = names | {a for n in names for a in _arrays_of(n, tree)}
        calls = any(isinstance(n, ast.Call) for n in walk(s))
        others = any(isinstance(n, ast.Return) or _schedules(n) for n in walk(s))
        declares = any(isinstance(n, ast.VarDecl) for n in walk(s))
        if reached & moved or names & set(fabric) or calls or others or declares:
            break
        worth = worth or any(isinstance(n, ast.BuiltinCall) and n.name in OPERATIONS for n in walk(s))
        end += 1
    return end if worth and end < len(stmts) else None


def _schedules(n: object) -> bool:
    return isinstance(n, ast.BuiltinCall) and n.name in ("activate", "block", "unblock")


def _arrays_of(name: str, tree: ast.File) -> set[str]:
    """The arrays that a descriptor describes."""
    variables = {d.name for d in tree.items if isinstance(d, ast.VarDecl) and d.kind is ast.VarKind.VAR}
    found: set[str] = set()
    for d in tree.items:
        if isinstance(d, ast.VarDecl) and d.name == name and d.init is not None:
            found |= {n.name for n in walk(d.init) if isinstance(n, ast.Ident)} & variables
    return found


def _names(call: ast.BuiltinCall) -> set[str]:
    return {a.name for a in call.args if isinstance(a, ast.Ident)}


def _movable(fn: ast.FnDecl, rest: Sequence[ast.Stmt]) -> bool:
    """Whether statements may leave a function: they use none of its variables, and it isn't left before them."""
    assert fn.body is not None
    local = {n.name for n in walk(fn.body) if isinstance(n, ast.VarDecl)}
    used = {n.name for s in rest for n in walk(s) if isinstance(n, ast.Ident)}
    return not used & local and not any(isinstance(n, ast.Return) for n in walk(fn.body))


def _extent(s: ast.Stmt, fabric: Mapping[str, ast.BuiltinCall], scope: Scope) -> int:
    """Words that a transfer moves, where that is known."""
    call = _transfer(s, fabric)
    assert call is not None
    found = 0
    for name in _names(call) & set(fabric):
        for n in walk(fabric[name]):
            if isinstance(n, ast.FieldInit) and n.name == "extent":
                found = max(found, comptime_int(n.value, scope) or 0)
    return found


def _free_task(tree: ast.File) -> int | None:
    taken = {
        c.args[0].value
        for c in walk(tree)
        if isinstance(c, ast.BuiltinCall) and c.name == "get_local_task_id" and c.args
        and isinstance(c.args[0], ast.IntLit)
    }  # fmt: skip
    return next((k for k in range(FIRST_TASK, LAST_TASK - 1, -1) if k not in taken), None)


def _rewritten(text: str, tree: ast.File, fn: ast.FnDecl, position: int, end: int) -> str:
    assert fn.body is not None
    known = identifiers(tree)
    base = next(f"after_{fn.name}{k}" for k in ("", *range(2, 99)) if f"after_{fn.name}{k}" not in known)
    stmts = fn.body.stmts
    call = stmts[position].span
    closing = text.rfind(")", call.start, text.find("\n", call.end - 1) + 1 or len(text))
    start = line_start(text, stmts[end].span.start)
    stop = text.rfind("}", 0, fn.body.span.end)
    rest = text[start:stop].rstrip()
    at = before_comments(text, fn.span.start)
    number = _free_task(tree)
    declaration = f"const {base}_id = @get_local_task_id({number});\n"
    task = f"\n\ntask {base}() void {{\n{rest}\n}}\n\ncomptime {{\n  @bind_local_task({base}, {base}_id);\n}}"
    return apply(
        text,
        [
            Edit(at, at, declaration),
            Edit(closing, closing, f", .{{ .async = true, .activate = {base}_id }}"),
            Edit(start, stop, ""),
            Edit(fn.body.span.end, fn.body.span.end, task),
        ],
    )
