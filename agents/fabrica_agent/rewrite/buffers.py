"""Copies into arrays that are only read once: the reader takes the elements from where they were copied from.

@fmovs(received, from_west);             @fadds(sums, from_west, sums);
@fadds(sums, sums, received);     ->

@fmovs(edge, column_of_tile);     ->
...                                      @fmovs(to_east, column_of_tile);
@fmovs(to_east, edge);
"""

from __future__ import annotations

from collections.abc import Mapping

from fabrica_agent.rewrite.descriptors import (
    OPERATIONS,
    Descriptor,
    OperationCall,
    descriptors_of,
    name_of,
    statement_calls,
)
from fabrica_agent.rewrite.scope import scope_of
from fabrica_agent.rewrite.text import Edit, apply, line_start, parse
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

COPY = 12.0
"""Cycles that a copy of a few elements is expected to cost."""
_COMMUTATIVE = ("fadds", "fmuls", "fmaxs")


def without_copies(text: str, sizes: Mapping[str, int]) -> tuple[str, float] | None:
    """The text without copies into arrays that one other operation reads, and the cycles this is expected to save."""
    tree = parse(text)
    scope = scope_of(tree, sizes)
    descriptors = descriptors_of(tree, scope)
    calls = [c for f in tree.items if isinstance(f, ast.FnDecl) for c in statement_calls(f)]
    edits: list[Edit] = []
    gain = 0.0
    for array in scope.arrays:
        found = _removal(text, tree, array, descriptors, calls)
        if found is not None:
            edits += found
            gain += COPY
    return (apply(text, edits), gain) if edits else None


def _removal(
    text: str, tree: ast.File, array: str, descriptors: Mapping[str, Descriptor], calls: list[OperationCall]
) -> list[Edit] | None:
    own = {n for n, d in descriptors.items() if d.array == array}
    if not own or not all(descriptors[n].whole for n in own):
        return None
    mentions = [n for n in walk(tree) if isinstance(n, ast.Ident) and n.name == array]
    if len(mentions) != len(own):
        return None
    uses = [n for n in walk(tree) if isinstance(n, ast.Ident) and n.name in own]
    writes = [c for c in calls if name_of(c.call.args[0]) in own]
    reads = [c for c in calls if any(name_of(a) in own for a in c.call.args[1:])]
    if len(uses) != 2 or len(writes) != 1 or len(reads) != 1 or writes[0].call is reads[0].call:
        return None
    copy, use = writes[0], reads[0]
    if copy.call.name != "fmovs" or len(copy.call.args) != 2:
        return None
    origin = name_of(copy.call.args[1])
    source = descriptors.get(origin or "")
    mine = next(iter(own))
    if origin is None or source is None or source.count is None or source.count != descriptors[mine].count:
        return None
    adjacent = copy.block is use.block and use.position == copy.position + 1
    if source.kind == "fabin_dsd":
        if not adjacent or len(use.call.args) != (2 if use.call.name == "fmovs" else 3):
            return None
    elif not adjacent and not _unchanged(source, descriptors, calls, copy, use):
        return None
    replaced = _with_source(text, use.call, own, origin, fabric=source.kind == "fabin_dsd")
    if replaced is None:
        return None
    s = copy.block.stmts[copy.position]
    start = line_start(text, s.span.start)
    end = text.find("\n", s.span.end) + 1
    return [Edit(start, end, ""), Edit(use.call.span.start, use.call.span.end, replaced)]


def _unchanged(
    source: Descriptor,
    descriptors: Mapping[str, Descriptor],
    calls: list[OperationCall],
    copy: OperationCall,
    use: OperationCall,
) -> bool:
    """Whether neither function changes the array that was copied from, so that a later reader finds the same."""
    if source.array is None:
        return False
    for fn in (copy.fn, use.fn):
        for n in walk(fn):
            if isinstance(n, ast.Assign) and any(
                isinstance(x, ast.Ident) and x.name == source.array for x in walk(n.target)
            ):
                return False
            if isinstance(n, ast.BuiltinCall) and n.name in (*OPERATIONS, "map"):
                for a in n.args[:1] if n.name != "map" else n.args[1:]:
                    named = descriptors.get(name_of(a) or "")
                    if named is not None and named.array == source.array:
                        return False
    return True


def _with_source(text: str, call: ast.BuiltinCall, own: set[str], origin: str, *, fabric: bool) -> str | None:
    args = [text[a.span.start : a.span.end] for a in call.args]
    at = next(i for i, a in enumerate(call.args) if i > 0 and name_of(a) in own)
    args[at] = origin
    if fabric and call.name != "fmovs" and at == 2:
        if call.name not in _COMMUTATIVE:
            return None
        args[1], args[2] = args[2], args[1]
    return f"@{call.name}({', '.join(args)})"
