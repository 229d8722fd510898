"""Helpers for tests of the CSL front end: short source texts to comparable trees."""

from __future__ import annotations

from enum import Enum
from typing import Any

from fabrica_bench.csl import ast
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.source import virtual_source


def parse(text: str) -> ast.File:
    return parse_file(virtual_source("t.csl", text))


def dump(value: Any) -> Any:
    """A node as nested tuples `(class, field=value, ...)`, without spans and without fields that are None or False."""
    if isinstance(value, ast.Node | ast.Attributes):
        parts: list[Any] = [type(value).__name__]
        for name in value.__dataclass_fields__:
            part = getattr(value, name)
            if name == "comments" or isinstance(part, ast.Span) or part is None or part is False:
                continue
            shown = dump(part)
            if shown != ("Attributes",):
                parts.append((name, shown))
        return tuple(parts)
    if isinstance(value, list):
        return [dump(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def brief(value: Any) -> Any:
    """An expression in a short Lisp-like form, e.g. `(+ a (* b c))`; for tests of precedence and shape."""
    match value:
        case ast.Ident():
            return value.name
        case ast.IntLit() | ast.FloatLit():
            return str(value.value)
        case ast.BoolLit():
            return str(value.value).lower()
        case ast.StringLit():
            return repr(value.value)
        case ast.VoidLit():
            return "{}"
        case ast.Unary():
            return f"({value.op} {brief(value.operand)})"
        case ast.Binary():
            return f"({value.op} {brief(value.lhs)} {brief(value.rhs)})"
        case ast.FieldAccess():
            return f"(. {brief(value.base)} {value.name})"
        case ast.Deref():
            return f"(deref {brief(value.base)})"
        case ast.Index():
            return f"(index {brief(value.base)} {_all(value.indices)})"
        case ast.Call():
            return f"(call {brief(value.callee)}{_all(value.args, ' ')})"
        case ast.BuiltinCall():
            return f"(@{value.name}{_all(value.args, ' ')})"
        case ast.ComptimeExpr():
            return f"(comptime {brief(value.operand)})"
        case ast.ArrayType():
            return f"(array [{_all(value.dims)}] {brief(value.element)})"
        case ast.PointerType():
            kind = "many" if value.is_many else "ptr"
            return f"({kind}{' const' if value.is_const else ''} {brief(value.element)})"
        case ast.FnTypeExpr():
            return f"({value.kind} [{_all(value.params)}] {brief(value.result)})"
        case ast.InitList():
            head = brief(value.type_expr) if value.type_expr else "."
            inits = "".join(f" {init.name + '=' if init.name else ''}{brief(init.value)}" for init in value.inits)
            return f"(init {head}{inits})"
        case ast.If():
            parts = [value.cond, value.then] + ([value.otherwise] if value.otherwise else [])
            return f"(if{_label(value.label)} {_all(parts)})"
        case ast.Switch():
            cases = "".join(f" [{_all(case.values)}] {brief(case.body)}" for case in value.cases)
            return f"(switch {brief(value.value)}{cases})"
        case ast.Block():
            return f"(block{_label(value.label)}{_all(value.stmts, ' ')})"
        case ast.TensorAccess():
            names = " ".join(value.variables)
            return f"(access [{names}] [{_all(value.extents)}] {brief(value.base)} [{_all(value.indices)}])"
        case ast.ExprStmt():
            return brief(value.expr)
        case ast.Assign():
            return f"({value.op} {brief(value.target)} {brief(value.value)})"
        case ast.Return():
            return f"(return{_all([value.value], ' ') if value.value else ''})"
        case ast.Break():
            return f"(break{_label(value.label)}{_all([value.value], ' ') if value.value else ''})"
        case ast.Continue():
            return f"(continue{_label(value.label)})"
        case ast.For():
            index = f" {value.index}" if value.index else ""
            inline = "inline-" if value.is_inline else ""
            return f"({inline}for{_label(value.label)} {brief(value.iterable)} {value.item}{index} {brief(value.body)})"
        case ast.While():
            step = f" {brief(value.step)}" if value.step else ""
            inline = "inline-" if value.is_inline else ""
            return f"({inline}while{_label(value.label)} {brief(value.cond)}{step} {brief(value.body)})"
        case ast.VarDecl():
            init = f" {brief(value.init)}" if value.init else ""
            type_expr = f" :{brief(value.type_expr)}" if value.type_expr else ""
            return f"({'comptime-' if value.is_comptime else ''}{value.kind} {value.name}{type_expr}{init})"
    raise AssertionError(f"no short form for {type(value).__name__}")


def _all(values: list[Any], lead: str = "") -> str:
    return "".join(lead + brief(value) for value in values) if lead else " ".join(brief(value) for value in values)


def _label(label: str | None) -> str:
    return f":{label}" if label else ""


def expression(text: str) -> str:
    """The short form of an expression."""
    (item,) = parse(f"const x = {text};").items
    assert isinstance(item, ast.VarDecl)
    return str(brief(item.init))


def statements(text: str) -> list[str]:
    """The short forms of the statements of a function body."""
    (item,) = parse(f"fn f() void {{ {text} }}").items
    assert isinstance(item, ast.FnDecl)
    assert item.body is not None
    return [str(brief(stmt)) for stmt in item.body.stmts]
