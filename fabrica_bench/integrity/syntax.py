"""Looking at CSL syntax trees: walking, comparing without regard to places, finding declarations and calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from fabrica_bench.csl import ast
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.source import virtual_source


@lru_cache(maxsize=32)
def parse_text(name: str, text: str) -> ast.File:
    """Parse a file of a bundle; raises `fabrica_bench.csl.diagnostics.CslError`.

    Every check that asks for a text gets the same tree: don't change it.
    """
    return parse_file(virtual_source(name, text))


def children(node: ast.Node) -> Iterator[ast.Node]:
    """The nodes directly below a node, in source order of the fields."""
    return iter(_children(node))


def _children(node: ast.Node) -> list[ast.Node]:
    found: list[ast.Node] = []
    for name in field_names(type(node)):
        value = getattr(node, name)
        if isinstance(value, ast.Node):
            found.append(value)
        elif isinstance(value, list | ast.Attributes):
            found += _nodes(value)
    return found


def field_names(kind: type[Any]) -> tuple[str, ...]:
    """Fields that don't tell a place; found out once per kind of node, because every check walks whole trees."""
    if kind not in _FIELD_NAMES:
        names = (field.name for field in dataclasses.fields(kind))
        _FIELD_NAMES[kind] = tuple(name for name in names if name not in _PLACE_FIELDS)
    return _FIELD_NAMES[kind]


_FIELD_NAMES: dict[type[Any], tuple[str, ...]] = {}


def walk(node: ast.Node) -> Iterator[ast.Node]:
    """The node and everything below it; of a whole file this is found out once."""
    kept = _WALKS.get(id(node))
    if kept is not None:
        return iter(kept[1])
    found: list[ast.Node] = []
    stack = [node]
    while stack:
        current = stack.pop()
        found.append(current)
        stack += reversed(_children(current))
    if isinstance(node, ast.File):
        while len(_WALKS) >= _MOST_WALKS:
            _WALKS.pop(next(iter(_WALKS)), None)
        _WALKS[id(node)] = node, found  # the node too: as long as it lives, no other has its id
    return iter(found)


_MOST_WALKS: Final = 32
_WALKS: dict[int, tuple[ast.Node, list[ast.Node]]] = {}


def shape(value: Any) -> Any:
    """A value that is equal for equal syntax: no places, no comments, no source text."""
    if isinstance(value, ast.Node | ast.Attributes):
        return (type(value).__name__, *(shape(getattr(value, name)) for name in field_names(type(value))))
    if isinstance(value, list):
        return tuple(shape(item) for item in value)
    if isinstance(value, Enum):
        return value.value
    return value


_PLACE_FIELDS = frozenset({"span", "name_span", "op_span", "comments"})


def place(node: ast.Node) -> str:
    """`file:line:column` of a node."""
    return str(node.span)


def functions(tree: ast.File) -> dict[str, ast.FnDecl]:
    """Top-level functions and tasks by name (the last one of a name that is declared twice)."""
    return {item.name: item for item in tree.items if isinstance(item, ast.FnDecl)}


def declarations(tree: ast.File) -> list[ast.VarDecl]:
    """Top-level `const`, `var` and `param` declarations."""
    return [item for item in tree.items if isinstance(item, ast.VarDecl)]


def import_path(expr: ast.Expr | None) -> str | None:
    """The file named by `@import_module("...")`, None for any other expression."""
    if not isinstance(expr, ast.BuiltinCall) or expr.name != "import_module" or not expr.args:
        return None
    first = expr.args[0]
    return first.value.decode("utf-8", errors="replace") if isinstance(first, ast.StringLit) else None


def builtin_calls(node: ast.Node, name: str) -> Iterator[ast.BuiltinCall]:
    """Every call of a builtin below a node."""
    for found in walk(node):
        if isinstance(found, ast.BuiltinCall) and found.name == name:
            yield found


def export_name_of(call: ast.BuiltinCall) -> str | None:
    """The host-visible name of an `@export_symbol` call: its second argument, or the exported declaration's name."""
    if len(call.args) > 1:
        name = call.args[1]
        return name.value.decode("utf-8", errors="replace") if isinstance(name, ast.StringLit) else None
    exported = call.args[0] if call.args else None
    return exported.name if isinstance(exported, ast.Ident) else None


def bound_names(node: ast.Node) -> Iterator[tuple[str, ast.Node]]:
    """Every name that a node below introduces, with the introducing node."""
    for found in walk(node):
        if isinstance(found, ast.VarDecl | ast.FnDecl | ast.ColorDecl | ast.ParamDecl):
            if found.name is not None:
                yield found.name, found
        elif isinstance(found, ast.For):
            yield found.item, found
            if found.index is not None:
                yield found.index, found
        elif isinstance(found, ast.TensorAccess):
            for variable in found.variables:
                yield variable, found


def _nodes(value: Any) -> Iterator[ast.Node]:
    if isinstance(value, ast.Node):
        yield value
    elif isinstance(value, ast.Attributes):
        for name in field_names(type(value)):
            yield from _nodes(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from _nodes(item)
