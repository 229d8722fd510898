"""Edits of a source text by place, so that everything that isn't changed keeps its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabrica_bench.csl import ast
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.sema.walk import walk
from fabrica_bench.csl.source import virtual_source


@dataclass(frozen=True)
class Edit:
    """Replace the characters `[start, end)` by `text`."""

    start: int
    end: int
    text: str


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text with all edits; of edits at one place, the first given comes first.

    Raises:
        ValueError: Two edits overlap.
    """
    out: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < at:
            raise ValueError(f"edits overlap at character {edit.start}")
        out += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*out, text[at:]])


def parse(text: str, name: str = "pe.csl") -> ast.File:
    """The syntax tree of a text."""
    return parse_file(virtual_source(name, text))


def identifiers(tree: ast.File) -> set[str]:
    """Every name that a file mentions."""
    found: set[str] = set()
    for n in walk(tree):
        match n:
            case ast.Ident(name=name) | ast.VarDecl(name=name) | ast.FnDecl(name=name) | ast.FieldAccess(name=name):
                found.add(name)
            case ast.ParamDecl(name=str() as name) | ast.FieldInit(name=str() as name):
                found.add(name)
            case ast.For(item=item, index=index):
                found |= {item} | ({index} if index else set())
            case ast.TensorAccess(variables=variables):
                found |= set(variables)
    return found


REFUSAL = "this program was made for other sizes"


def pinned(text: str, sizes: Mapping[str, int]) -> str:
    """A text that is refused at compile time for other values of its size parameters than these."""
    tree = parse(text)
    params = [d.name for d in tree.items if isinstance(d, ast.VarDecl) and d.kind is ast.VarKind.PARAM]
    known = [f"{n} == {sizes[n]}" for n in params if n in sizes]
    if REFUSAL in text or not known:
        return text
    return f'{text.rstrip()}\n\ncomptime {{\n  @comptime_assert({" and ".join(known)}, "{REFUSAL}");\n}}\n'


def lines_of(node: ast.Node) -> range:
    """The lines that a node is on, from 1 on."""
    span = node.span
    return range(span.file.position(span.start)[0], span.file.position(span.end)[0] + 1)


def line_start(text: str, offset: int) -> int:
    """Offset of the start of the line that an offset is in."""
    return text.rfind("\n", 0, offset) + 1


def indentation(text: str, offset: int) -> str:
    """White space at the start of the line that an offset is in."""
    start = line_start(text, offset)
    end = start
    while end < len(text) and text[end] in " \t":
        end += 1
    return text[start:end]


def before_comments(text: str, offset: int) -> int:
    """Start of the comment lines that stand directly above an offset's line."""
    start = line_start(text, offset)
    while start > 0:
        above = line_start(text, start - 1)
        if not text[above:start].lstrip().startswith("//"):
            break
        start = above
    return start
