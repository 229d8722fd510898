"""Atomics as plain statements: on one PE nothing can come between the read and the write."""

from __future__ import annotations

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Assign,
    Atomic,
    Bin,
    Body,
    Expr,
    If,
    Load,
    Op,
    Stmt,
    Store,
    Ty,
    Var,
    bodies,
    read_names,
    with_bodies,
)  # fmt: skip

_OPERATORS = {
    "add": Op.ADD, "sub": Op.SUB, "min": Op.MIN, "max": Op.MAX, "and": Op.AND, "or": Op.OR, "xor": Op.XOR,
}  # fmt: skip


def lower_atomics(body: Body) -> Body:
    """Replace every atomic operation."""
    return _lower(body, read_names(body))


def _lower(body: Body, read: frozenset[str]) -> Body:
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, tuple(_lower(b, read) for b in bodies(s)))
        out.extend(_lower_one(s, read) if isinstance(s, Atomic) else (s,))
    return tuple(out)


def _lower_one(s: Atomic, read: frozenset[str]) -> Body:
    old: Expr = Load(s.buffer, s.index, s.ty)
    head: Body = ()
    if s.result is not None and s.result in read:
        head = (Assign(s.result, old),)
        old = Var(s.result, s.ty)
    if s.op in _OPERATORS:
        return (*head, Store(s.buffer, s.index, fold.binary(_OPERATORS[s.op], old, s.value, s.ty)))
    if s.op == "exch":
        return (*head, Store(s.buffer, s.index, s.value))
    if s.op == "cas":
        assert s.compare is not None
        return (*head, If(Bin(Op.EQ, old, s.compare, Ty.BOOL), (Store(s.buffer, s.index, s.value),)))
    one, zero = fold.const(1, s.ty), fold.const(0, s.ty)
    if s.op == "inc":
        new = fold.select(Bin(Op.GE, old, s.value, Ty.BOOL), zero, fold.binary(Op.ADD, old, one, s.ty))
    else:
        wraps = Bin(Op.LOR, Bin(Op.EQ, old, zero, Ty.BOOL), Bin(Op.GT, old, s.value, Ty.BOOL), Ty.BOOL)
        new = fold.select(wraps, s.value, fold.binary(Op.SUB, old, one, s.ty))
    return (*head, Store(s.buffer, s.index, new))
