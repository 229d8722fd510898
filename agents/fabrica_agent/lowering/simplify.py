"""Simplification of a serial program, pass after pass until nothing changes."""

from __future__ import annotations

from dataclasses import replace

from fabrica_agent.lowering.forward import forward, propagate, remove_dead
from fabrica_agent.lowering.intervals import variable_ranges
from fabrica_agent.lowering.ir import Load, Program, body_exprs, written_buffers
from fabrica_agent.lowering.names import Names
from fabrica_agent.lowering.normalise import normalise
from fabrica_agent.lowering.reshape import Reshape

MAX_ROUNDS = 8


def simplify(program: Program, *, split: bool = True) -> Program:
    """An equivalent, simpler serial program, with the ranges of its variables.

    Args:
        program: A serial program.
        split: Whether loops may be split where a condition on their variable changes.
    """
    current = replace(program, buffers=dict(program.buffers), types=dict(program.types))
    names = Names(current)
    for late in (False, True):
        for _ in range(MAX_ROUNDS):
            before = current.body
            current.ranges = variable_ranges(current)
            current.body = normalise(current.body, current.ranges)
            current.body = forward(propagate(current.body), frozenset())
            current.ranges = variable_ranges(current)
            current.body = Reshape(current, names, late=late, split=split).body(current.body, current.ranges)
            current.body = remove_dead(current)
            if current.body == before:
                break
    current.ranges = variable_ranges(current)
    used = {n.buffer for n in body_exprs(current.body) if isinstance(n, Load)} | written_buffers(current.body)
    current.buffers = {n: b for n, b in current.buffers.items() if b.exported or n in used}
    return current


def tidy(program: Program) -> Program:
    """Scalars and dead code once more, after loops were written out; no loop is touched."""
    copy = replace(program, body=forward(propagate(program.body), frozenset()))
    copy.body = remove_dead(copy)
    copy.ranges = variable_ranges(copy)
    return copy
