"""Scalars and dead code: forward substitution, and removal of what nothing reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fabrica_agent.lowering.flow import exposed
from fabrica_agent.lowering.ir import (
    Assign,
    Body,
    Break,
    Const,
    Continue,
    Expr,
    For,
    If,
    Load,
    Param,
    Program,
    Reduce,
    Stmt,
    Store,
    Var,
    While,
    assigned,
    bodies,
    map_stmt_exprs,
    names_in,
    read_buffers,
    read_names,
    stmt_exprs,
    substitute,
    substitute_expr,
    walk,
    walk_stmts,
    with_bodies,
    written_buffers,
)


def propagate(body: Body) -> Body:
    """Replace variables that are assigned once, from an expression that can't change, by that expression."""
    count: dict[str, int] = {}
    values: dict[str, Expr] = {}
    for s in walk_stmts(body):
        match s:
            case Assign(name=name, value=value):
                count[name] = count.get(name, 0) + 1
                values[name] = value
            case For(var=var) | Reduce(target=var, index=None):
                count[var] = count.get(var, 0) + 2
    fixed = {
        n: v for n, v in values.items()
        if count[n] == 1 and all(not isinstance(x, Load | Var) for x in walk(v)) and _cheap(v)
    }  # fmt: skip
    return substitute(body, fixed) if fixed else body


def forward(body: Body, live: frozenset[str]) -> Body:
    """Within straight-line code, put the value of a variable where it is read, and drop what is never read.

    A value moves only past statements that can't change it, and only when it is read once, or costs nothing.

    Args:
        body: Statements.
        live: Variables that may be read after them.
    """
    out: list[Stmt] = list(body)
    for index, s in enumerate(out):
        after = frozenset(exposed(tuple(out[index + 1 :]))) | live
        inner = after | frozenset(exposed((s,))) if isinstance(s, For | While) else after
        if isinstance(s, While):
            inner |= names_in(s.cond) | frozenset(exposed(s.step)) | frozenset(exposed(s.body))
        if isinstance(s, For):
            inner |= frozenset(exposed(s.body))
        out[index] = with_bodies(s, tuple(forward(b, inner) for b in bodies(s)))
    index = 0
    while index < len(out):
        s = out[index]
        if isinstance(s, Assign) and _forward_one(out, index, s, live):
            del out[index]
            continue
        index += 1
    return tuple(out)


def _forward_one(out: list[Stmt], index: int, s: Assign, live: frozenset[str]) -> bool:
    """Try to remove the assignment at `index` by substituting its value into the next statement that reads it."""
    name = s.name
    if name not in live and name not in exposed(tuple(out[index + 1 :])):
        return True
    for later in range(index + 1, len(out)):
        t = out[later]
        own_reads = sum(1 for e in stmt_exprs(t) for n in walk(e) if isinstance(n, Var) and n.name == name)
        nested = any(name in read_names(b) or name in assigned(b) for b in bodies(t))
        if nested or (own_reads and isinstance(t, For | While)) or (isinstance(t, Reduce) and t.target == name):
            return False
        if own_reads:
            rest = tuple(out[later + 1 :])
            ends = isinstance(t, Assign) and t.name == name
            if not ends and (name in live or name in exposed(rest)):
                return False
            if own_reads > 1 and not isinstance(s.value, Const | Param | Var):
                return False
            out[later] = map_stmt_exprs(t, lambda e: substitute_expr(e, {name: s.value}))
            return True
        if assigned((t,)) & names_in(s.value) or _changes_memory(t, s.value) or isinstance(t, Break | Continue):
            return False
    return False


def _changes_memory(t: Stmt, value: Expr) -> bool:
    loads = {n.buffer for n in walk(value) if isinstance(n, Load)}
    return bool(loads & written_buffers((t,)))


def _cheap(e: Expr) -> bool:
    return not any(type(n).__name__ == "Call" for n in walk(e))


def remove_dead(program: Program) -> Body:
    """Drop assignments to variables, and stores to private buffers, that nothing reads; and empty statements."""
    body = program.body
    while True:
        read = read_names(body)
        loaded = read_buffers(body)
        private = {n for n, b in program.buffers.items() if not b.exported}
        new = _prune(body, partial(_dead, read=read, loaded=loaded, private=private))
        if new == body:
            return body
        body = new


def _dead(s: Stmt, read: frozenset[str], loaded: frozenset[str], private: set[str]) -> bool:
    match s:
        case Assign(name=name):
            return name not in read
        case Store(buffer=buffer):
            return buffer in private and buffer not in loaded
        case If(then=(), other=()) | For(body=()):
            return True
        case _:
            return False


def _prune(body: Body, dead: Callable[[Stmt], bool]) -> Body:
    kept: list[Stmt] = []
    for s in body:
        s = with_bodies(s, tuple(_prune(b, dead) for b in bodies(s)))
        if not dead(s):
            kept.append(s)
    return tuple(kept)
