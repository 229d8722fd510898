"""Walking syntax trees without regard to what the nodes mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

from fabrica_bench.csl import ast

#: Answers kept by node: the PE programs of a layout ask the same of the same files, once for each set of params.
KEPT_ANSWERS: Final = 4096

_CHILD_FIELDS: dict[type, tuple[str, ...]] = {}


def _child_fields(node_type: type[ast.Node]) -> tuple[str, ...]:
    known = _CHILD_FIELDS.get(node_type)
    if known is None:
        spans = ("span", "name_span", "op_span")
        known = _CHILD_FIELDS[node_type] = tuple(entry.name for entry in fields(node_type) if entry.name not in spans)
    return known


def walk(root: Any) -> Iterator[ast.Node]:
    """Every node under `root` (a node or list of nodes), itself included, in source order."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(reversed(node))
        elif isinstance(node, ast.Node):
            yield node
            stack.extend(getattr(node, name) for name in reversed(_child_fields(type(node))))
        elif isinstance(node, ast.Attributes):
            stack.extend((node.align, node.linksection, node.linkname))


def mentions(root: Any, names: set[str]) -> bool:
    """Whether an identifier of `names` occurs under `root`."""
    return any(isinstance(node, ast.Ident) and node.name in names for node in walk(root))


@lru_cache(maxsize=KEPT_ANSWERS)
def size(root: ast.Node) -> int:
    """How many nodes are under `root`."""
    return sum(1 for _ in walk(root))


@lru_cache(maxsize=KEPT_ANSWERS)
def contains_import(root: ast.Node | None) -> bool:
    """Whether `@import_module` occurs under `root`."""
    return any(isinstance(node, ast.BuiltinCall) and node.name == "import_module" for node in walk(root))


@lru_cache(maxsize=KEPT_ANSWERS)
def binds_colors(root: ast.Node | None) -> bool:
    """Whether `@bind_task` of the older dialect occurs under `root`."""
    return any(isinstance(node, ast.BuiltinCall) and node.name == "bind_task" for node in walk(root))


@lru_cache(maxsize=KEPT_ANSWERS)
def allocates_registers(root: ast.Node | None) -> bool:
    """Whether a FIFO with registers of its own is allocated under `root`."""
    nodes = list(walk(root))
    is_fifo = any(isinstance(node, ast.BuiltinCall) and node.name == "allocate_fifo" for node in nodes)
    return is_fifo and any(isinstance(node, ast.FieldInit) and node.name == "dest" for node in nodes)


@lru_cache(maxsize=KEPT_ANSWERS)
def address_taken(body: ast.Node | None) -> frozenset[str]:
    """Names of which some part's address is taken (`&x`, `&x[i]`, `&x.f`) anywhere in a function body."""
    names = set()
    for node in walk(body):
        if isinstance(node, ast.Unary) and node.op == "&":
            root: ast.Expr = node.operand
            while isinstance(root, ast.Index | ast.FieldAccess):
                root = root.base
            if isinstance(root, ast.Ident):
                names.add(root.name)
    return frozenset(names)
