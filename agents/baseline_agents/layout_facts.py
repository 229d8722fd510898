"""What a layout file promises of the PE program that it places: its params and its exported symbols."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from fabrica_bench.csl import ast
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.sema.walk import walk
from fabrica_bench.csl.source import virtual_source


@dataclass(frozen=True)
class Export:
    """One advertised symbol, with its type as text: `[*]f32`, `fn(f32)void`.

    Attributes:
        parameters: Types of a function's parameters; None for a tensor.
        mutable: Whether the host may write the tensor.
    """

    name: str
    type_text: str
    parameters: tuple[str, ...] | None
    element: str | None
    mutable: bool


@dataclass(frozen=True)
class LayoutFacts:
    """What the PE program called `program` must declare."""

    program: str
    params: tuple[str, ...]
    exports: tuple[Export, ...]


def read_layout(text: str, program: str = "pe.csl") -> LayoutFacts:
    """Collect the facts from a layout's text.

    Args:
        text: The layout file.
        program: Which PE program is asked about; a layout may place several.

    Raises:
        CslError: The layout doesn't parse.
    """
    tree = parse_file(virtual_source("layout.csl", text))
    params: dict[str, None] = {}
    exports: dict[str, Export] = {}
    for call in _builtin_calls(tree):
        if call.name == "set_tile_code" and _places(call, program):
            params |= dict.fromkeys(_param_names(call, tree))
        elif call.name == "export_name":
            export = _export(call)
            exports[export.name] = export
    return LayoutFacts(program, tuple(params), tuple(exports.values()))


def exported_names(text: str) -> frozenset[str]:
    """Host-visible names of the symbols that a module exports itself.

    Raises:
        CslError: The module doesn't parse.
    """
    tree = parse_file(virtual_source("module.csl", text))
    calls = [call for call in _builtin_calls(tree) if call.name == "export_symbol" and call.args]
    names = [call.args[-1] for call in calls]
    return frozenset(
        name.value.decode() if isinstance(name, ast.StringLit) else name.name
        for name in names
        if isinstance(name, (ast.StringLit, ast.Ident))
    )


def _builtin_calls(node: object) -> Iterator[ast.BuiltinCall]:
    if isinstance(node, ast.BuiltinCall):
        yield node
    if isinstance(node, list):
        for item in node:
            yield from _builtin_calls(item)
    elif isinstance(node, (ast.Node, ast.File)) and dataclasses.is_dataclass(node):
        for field in dataclasses.fields(node):
            yield from _builtin_calls(getattr(node, field.name))


def _places(call: ast.BuiltinCall, program: str) -> bool:
    names = [argument.value.decode() for argument in call.args if isinstance(argument, ast.StringLit)]
    return program in names


def _param_names(call: ast.BuiltinCall, tree: ast.File) -> Iterator[str]:
    for argument in call.args:
        yield from _field_names(argument, tree)


def _field_names(argument: ast.Expr, tree: ast.File) -> Iterator[str]:
    """Names in a literal struct, one kept in a constant or returned by a function, or several joined by
    `@concat_structs`."""
    if isinstance(argument, ast.InitList):
        yield from (init.name for init in argument.inits if init.name is not None)
    elif isinstance(argument, ast.BuiltinCall) and argument.name == "concat_structs":
        for part in argument.args:
            yield from _field_names(part, tree)
    elif isinstance(argument, ast.Call) and isinstance(argument.callee, ast.Ident):
        for returned in _returned(tree, argument.callee.name):
            yield from _field_names(returned, tree)
    elif isinstance(argument, ast.Ident):
        for declaration in _declarations(tree, argument.name):
            yield from _field_names(declaration, tree)


def _returned(tree: ast.File, name: str) -> Iterator[ast.Expr]:
    """What the function of this name may return."""
    for item in tree.items:
        if isinstance(item, ast.FnDecl) and item.name == name:
            for node in walk(item.body):
                if isinstance(node, ast.Return) and node.value is not None:
                    yield node.value


def _declarations(node: object, name: str) -> Iterator[ast.Expr]:
    if isinstance(node, ast.VarDecl) and node.name == name and node.init is not None:
        yield node.init
    if isinstance(node, list):
        for item in node:
            yield from _declarations(item, name)
    elif isinstance(node, (ast.Node, ast.File)) and dataclasses.is_dataclass(node):
        for field in dataclasses.fields(node):
            yield from _declarations(getattr(node, field.name), name)


def _export(call: ast.BuiltinCall) -> Export:
    name, kind, *rest = call.args
    assert isinstance(name, ast.StringLit)
    mutable = bool(rest) and isinstance(rest[0], ast.BoolLit) and rest[0].value
    parameters = tuple(_text(param) for param in kind.params) if isinstance(kind, ast.FnTypeExpr) else None
    element = _text(kind.element) if isinstance(kind, ast.PointerType) else None
    return Export(name.value.decode(), _text(kind), parameters, element, mutable)


def _text(expression: ast.Expr) -> str:
    return expression.span.file.text[expression.span.start : expression.span.end]
