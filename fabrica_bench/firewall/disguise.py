"""A reference kernel in disguise: other names, other layout, no comments. The same program still.

What the control agent `copycat` hands in. It keeps what the interface freezes, so that nothing but the search for
copies can tell that the program is one.
"""

from __future__ import annotations

from typing import Final

from fabrica_bench.csl import ast
from fabrica_bench.csl.lexer import tokenize
from fabrica_bench.csl.source import virtual_source
from fabrica_bench.integrity.frozen import MEMCPY_LIBRARY
from fabrica_bench.integrity.syntax import bound_names, builtin_calls, declarations, import_path, parse_text

_BREAKS: Final = frozenset({";", "{", "}"})


def disguised(text: str, window: str) -> str:
    """The program with every name changed that may be, on other lines, without its comments.

    Args:
        text: A program that parses.
        window: File name of the timing window, whose import must keep its name.

    Raises:
        CslError: It doesn't parse.
    """
    tree = parse_text("pe.csl", text)
    imports = {item.name for item in declarations(tree) if import_path(item.init) in (window, MEMCPY_LIBRARY)}
    params = {item.name for item in declarations(tree) if item.kind is ast.VarKind.PARAM}
    exported = {name for call in builtin_calls(tree, "export_symbol") for name in _own_name(call)}
    names = sorted({name for name, _ in bound_names(tree)} - imports - params - exported)
    new = {name: f"v{number}_{len(name)}" for number, name in enumerate(names)}
    words: list[str] = []
    before = ""
    for token in tokenize(virtual_source("pe.csl", text)).tokens:
        if token.kind == "eof":
            break
        word = token.text
        is_field = before == "."
        words.append(new.get(word, word) if not is_field else word)
        words.append("\n" if word in _BREAKS else " ")
        before = word
    return "// my own work\n" + "".join(words) + "\n"


def _own_name(call: ast.BuiltinCall) -> list[str]:
    """In `@export_symbol(compute)` the host sees the name of the declaration."""
    return [item.name for item in call.args if isinstance(item, ast.Ident)] if len(call.args) == 1 else []
