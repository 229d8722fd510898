"""Mutations of a kernel itself: one change each at a place of its syntax tree.

A loop that stops one element early, a vector that is one element short, an access shifted by one, a statement left out
(an operation, a message, the count of an awaited halo), an operator changed, an accumulation rounded to half precision.
Of the places of each kind a fixed few are taken, spread over the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from fabrica_bench.csl import ast
from fabrica_bench.integrity.syntax import declarations, parse_text, walk

HALF: Final = "fn spoil_half(value: f32) f32 { return @as(f32, @as(f16, value)); }\n"

_WORK: Final = frozenset(
    (
        *("fadds", "fsubs", "fmuls", "fmacs", "fmovs", "faddh", "fsubh", "fmulh", "fmach", "fmovh", "fmaxs", "fmaxh"),
        *("fnegs", "fabss", "mov16", "mov32", "add16", "sub16", "xor16", "or16", "and16", "map", "activate"),
    )
)
"""Builtins that do part of the work: leaving one out makes another program."""


@dataclass(frozen=True)
class Mutation:
    """A changed program.

    Attributes:
        kind: What was done.
        place: Line of the source and the text that was changed.
        text: The program.
    """

    kind: str
    place: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.kind} at {self.place}"


Edit = tuple[ast.Node, str]
"""A node and what takes its place."""


def mutations(text: str, per_kind: int) -> list[Mutation]:
    """The mutations of a kernel, in the order of `KINDS`."""
    tree = parse_text("pe.csl", text)
    found: list[Mutation] = []
    for kind, find in KINDS.items():
        edits = sorted(find(tree, text), key=lambda edit: edit[0].span.start)
        for node, replacement in _spread(edits, per_kind):
            span = node.span
            # A statement's span ends before its semicolon, which goes with it.
            end = span.end if replacement else text.index(";", span.end) + 1
            changed = text[: span.start] + replacement + text[end:]
            if "spoil_half" in replacement:
                changed += "\n" + HALF
            words = " ".join(text[span.start : span.end].split())
            line = span.file.position(span.start)[0]
            found.append(Mutation(kind, f"line {line}: {words if len(words) <= 60 else words[:57] + '...'}", changed))
    return found


def _spread(edits: list[Edit], count: int) -> list[Edit]:
    """The edits at equal distances, neither end preferred."""
    if len(edits) <= count:
        return edits
    return [edits[(2 * number + 1) * len(edits) // (2 * count)] for number in range(count)]


def _source(node: ast.Node, text: str) -> str:
    return text[node.span.start : node.span.end]


def _bodies(tree: ast.File) -> Iterator[ast.Node]:
    """Everything inside functions and tasks."""
    for item in tree.items:
        if isinstance(item, ast.FnDecl) and item.body is not None:
            yield from walk(item.body)


def _short_loops(tree: ast.File, text: str) -> Iterator[Edit]:
    for node in _bodies(tree):
        if isinstance(node, ast.For) and isinstance(node.iterable, ast.BuiltinCall) and node.iterable.name == "range":
            arguments = node.iterable.args
            end = arguments[1] if len(arguments) == 2 else arguments[2] if len(arguments) == 4 else None
            if end is not None:
                yield end, f"({_source(end, text)}) - 1"
        elif isinstance(node, ast.While) and isinstance(node.cond, ast.Binary) and node.cond.op == "<":
            left = node.cond.lhs
            yield left, f"({_source(left, text)}) + 1"


def _short_vectors(tree: ast.File, text: str) -> Iterator[Edit]:
    for node in walk(tree):
        if isinstance(node, ast.TensorAccess):
            extent = node.extents[-1]
            yield extent, f"({_source(extent, text)}) - 1"


def _shifted_accesses(tree: ast.File, text: str) -> Iterator[Edit]:
    for node in _bodies(tree):
        value = node.value if isinstance(node, ast.Assign) else node.init if isinstance(node, ast.VarDecl) else None
        for found in walk(value) if value is not None else ():
            if isinstance(found, ast.Index) and not isinstance(found.indices[-1], ast.IntLit):
                index = found.indices[-1]
                yield index, f"({_source(index, text)}) + 1"


def _dropped_statements(tree: ast.File, text: str) -> Iterator[Edit]:
    for node in _bodies(tree):
        if not isinstance(node, ast.Block):
            continue
        for statement in node.stmts:
            call = statement.expr if isinstance(statement, ast.ExprStmt) else None
            is_work = isinstance(call, ast.BuiltinCall) and call.name in _WORK
            if is_work or (isinstance(statement, ast.Assign) and statement.op != "="):
                yield statement, ""


def _changed_operators(tree: ast.File, text: str) -> Iterator[Edit]:
    swaps = {"+": "-", "-": "+", "*": "+", "<": "<=", ">": ">="}
    for node in _bodies(tree):
        value = node.value if isinstance(node, ast.Assign) else node.cond if isinstance(node, ast.If) else None
        for found in walk(value) if value is not None else ():
            if isinstance(found, ast.Index):
                continue
            if isinstance(found, ast.Binary) and found.op in swaps:
                left, right = _source(found.lhs, text), _source(found.rhs, text)
                yield found, f"{left} {swaps[found.op]} {right}"
    for node in _bodies(tree):
        if isinstance(node, ast.BuiltinCall) and node.name in ("fadds", "fmuls", "fsubs"):
            other = {"fadds": "fsubs", "fsubs": "fadds", "fmuls": "fadds"}[node.name]
            yield node, "@" + other + _source(node, text)[1 + len(node.name) :]


def _half_accumulation(tree: ast.File, text: str) -> Iterator[Edit]:
    singles = {item.name for item in declarations(tree) if _is_single(item)}
    for node in _bodies(tree):
        if isinstance(node, ast.VarDecl) and _is_single(node):
            singles.add(node.name)
    for node in _bodies(tree):
        if not isinstance(node, ast.Assign) or isinstance(node.value, ast.FloatLit):
            continue
        base = node.target.base if isinstance(node.target, ast.Index) else node.target
        if isinstance(base, ast.Ident) and base.name in singles:
            target, value = _source(node.target, text), _source(node.value, text)
            value = value if node.op == "=" else f"{target} {node.op[:-1]} ({value})"
            yield node, f"{target} = spoil_half({value})"


def _is_single(item: ast.VarDecl) -> bool:
    """Whether a declaration says that it holds f32, by its type or by what it is filled with."""
    kind = item.type_expr
    if kind is None and isinstance(item.init, ast.BuiltinCall) and item.init.name in ("zeros", "constants"):
        kind = item.init.args[0]
    kind = kind.element if isinstance(kind, ast.ArrayType) else kind
    return isinstance(kind, ast.Ident) and kind.name == "f32"


KINDS: Final[dict[str, Callable[[ast.File, str], Iterator[Edit]]]] = {
    "loop one short": _short_loops,
    "vector one short": _short_vectors,
    "access shifted": _shifted_accesses,
    "statement left out": _dropped_statements,
    "operator changed": _changed_operators,
    "accumulation in half": _half_accumulation,
}
"""Kinds of mutation, with what finds their places."""
