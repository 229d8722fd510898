"""Honest variants of a kernel: other text, the same results. A check that rejects one would reject honest work.

Names of its own, functions in another order, another format, a task that nothing activates, loops of another form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fabrica_bench.csl import ast
from fabrica_bench.csl.lexer import tokenize
from fabrica_bench.csl.source import virtual_source
from fabrica_bench.integrity.frozen import MEMCPY_LIBRARY
from fabrica_bench.integrity.syntax import bound_names, builtin_calls, declarations, import_path, parse_text, walk

IDLE_TASK: Final = 20
"""Local task id that no reference kernel and no library uses."""


def renamed(text: str, window: str) -> str:
    """Every name changed that the interface leaves free."""
    tree = parse_text("pe.csl", text)
    kept = {item.name for item in declarations(tree) if import_path(item.init) in (window, MEMCPY_LIBRARY)}
    kept |= {item.name for item in declarations(tree) if item.kind is ast.VarKind.PARAM}
    for call in builtin_calls(tree, "export_symbol"):
        kept |= {item.name for item in call.args if isinstance(item, ast.Ident) and len(call.args) == 1}
    names = {name for name, _ in bound_names(tree)} - kept
    parts, last, before = [], 0, ""
    for token in tokenize(virtual_source("pe.csl", text)).tokens:
        if token.kind == "ident" and token.text in names and before != ".":
            parts += [text[last : token.start], f"my_{token.text}"]
            last = token.end
        before = token.text
    return "".join(parts) + text[last:]


def reordered(text: str, window: str) -> str:
    """Functions and tasks from the last to the first."""
    items = [item for item in parse_text("pe.csl", text).items if isinstance(item, ast.FnDecl)]
    places = sorted((item.span.start, item.span.end) for item in items)
    bodies = [text[start:end] for start, end in places]
    for (start, end), body in zip(reversed(places), bodies, strict=True):
        text = text[:start] + body + text[end:]
    return text


def reformatted(text: str, window: str) -> str:
    """A token a line, no comments."""
    words = [token.text for token in tokenize(virtual_source("pe.csl", text)).tokens if token.kind != "eof"]
    return "\n".join(words) + "\n"


def with_an_idle_task(text: str, window: str) -> str:
    """A task that nothing activates."""
    return (
        f"{text}\ntask idle_task() void {{}}\nconst idle_id = @get_local_task_id({IDLE_TASK});\n"
        "comptime { @bind_local_task(idle_task, idle_id); }\n"
    )


def with_other_loops(text: str, window: str) -> str:
    """Loops over ranges as `while` loops with a counter."""
    while True:
        loops = [node for node in walk(parse_text("pe.csl", text)) if _is_plain_range(node)]
        if not loops:
            return text
        # The innermost of the last: its text holds no other loop to be changed.
        loop = max(loops, key=lambda node: node.span.start)
        text = text[: loop.span.start] + _as_while(loop, text) + text[loop.span.end :]


def _is_plain_range(node: ast.Node) -> bool:
    if not isinstance(node, ast.For) or node.is_inline or node.label or node.index:
        return False
    iterable = node.iterable
    if not isinstance(iterable, ast.BuiltinCall) or iterable.name != "range" or len(iterable.args) != 2:
        return False
    continues = any(isinstance(found, ast.Continue | ast.Break) for found in walk(node.body))
    return isinstance(node.body, ast.Block) and not continues


def _as_while(node: ast.Node, text: str) -> str:
    assert isinstance(node, ast.For)
    assert isinstance(node.iterable, ast.BuiltinCall)
    kind, end = (text[item.span.start : item.span.end] for item in node.iterable.args)
    body = text[node.body.span.start : node.body.span.end]
    name = node.item
    return f"{{ var {name}: {kind} = 0; while ({name} < ({end})) : ({name} += 1) {body} }}"


VARIANTS: Final[dict[str, Callable[[str, str], str]]] = {
    "renamed": renamed,
    "reordered": reordered,
    "reformatted": reformatted,
    "with an idle task": with_an_idle_task,
    "with other loops": with_other_loops,
}
"""The variants by name; each takes the text and the file name of the timing window."""


def all_at_once(text: str, window: str) -> str:
    """Every variant on top of the others."""
    for variant in VARIANTS.values():
        text = variant(text, window)
    return text
