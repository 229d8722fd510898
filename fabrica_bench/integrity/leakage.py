"""Check 1: no text of a reference kernel, however it is dressed, in what an agent sees, keeps or hands in.

A program is parsed, and its syntax tree written down as a stream of tokens, declaration by declaration: kinds of nodes,
operators, builtins, and names of libraries and fields, but no place, comment, parenthesis or attribute; every name that
the program declares itself is the same token, and so is every number. Renaming, reformatting, commenting and reordering
declarations therefore change nothing. Fingerprints are all runs of `WINDOW` tokens of a declaration. The score is the
share of the reference's distinctive fingerprints, those that public material doesn't have, that a text holds; a copy
that is padded with other code keeps it.

Text that is no CSL as a whole (a prompt, a document) is searched for code: fenced blocks are parsed one by one, and
what doesn't parse is compared as a stream of lexical tokens.

Beside that every reference kernel carries a canary, a comment with a name that occurs nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from fabrica_bench.csl import ast
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.integrity.findings import Finding, Predicate
from fabrica_bench.integrity.syntax import bound_names, field_names, parse_text
from fabrica_bench.tasks.canary import canary_of

NAME: Final = "leakage"

WINDOW: Final = 16
"""Tokens per fingerprint of a syntax tree."""

LEXICAL_WINDOW: Final = 24
"""Tokens per fingerprint of text that doesn't parse: longer than any statement that the interface forces."""

THRESHOLD: Final = 0.8
"""Share of the reference's distinctive fingerprints from which on a text counts as a copy.

`similarity` gives the shares. Plain kernels hold at most 0.47 of the expert kernel and the deterministic agent's
translations at most 0.24, a renamed and reformatted copy all of it: `python benchmarks/leakage.py` measures that, and
tests/integrity/test_leakage.py holds the outcome for every task."""

SMALL: Final = 60
"""Distinctive fingerprints below which a kernel is mostly interface, and independent programs come close to it."""

SMALL_THRESHOLD: Final = 0.98
"""The threshold for such a kernel: a whole copy in every detail. Its stream has types, attributes and numbers too,
because the obvious program may have the same tree without them."""

MIN_TEXT: Final = 120
"""Characters below which a text can't hold a copy."""

_DETAILS: Final = frozenset({"attributes", "type_expr", "storage", "kind", "label"})
_FENCE: Final = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
# Strings are bounded: unclosed quotes would be followed to the end of the line, each of many.
_TOKEN: Final = re.compile(
    r"""//[^\n]* | "(?:\\.|[^"\\\n]){0,200}"
      | '(?:\\.|[^'\\\n]){0,200}' | @?[A-Za-z_]\w* | \d[\w.]* | \.\* | [-+*/%&|^<>=!]=|<<|>>|->|=> | \S""",
    re.VERBOSE,
)
_DECLARED: Final = re.compile(
    r"\b(?:const|var|param|fn|task)\s+([A-Za-z_]\w*)|\|\s*([A-Za-z_]\w*)\s*(?:,\s*([A-Za-z_]\w*)\s*)?\|"
)

Prints = frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class Similarity:
    """How much of the reference a text holds.

    Attributes:
        share: Found distinctive fingerprints over all of them; 0 when there are none.
        found, total: The two counts.
        threshold: The share from which on this reference counts as copied.
    """

    share: float
    found: int
    total: int
    threshold: float = THRESHOLD

    @property
    def is_copy(self) -> bool:
        return self.total > 0 and self.share >= self.threshold


def check_leakage(
    text: str, kernel: str, *, task: str, file: str, public: Iterable[str] = (), place: str = ""
) -> list[Finding]:
    """Does a text hold a hidden kernel?

    Args:
        text: What is examined: a candidate, a prompt, a retrieved document, a file of an agent's folder.
        kernel: The kernel that must not leak.
        task, file: The task's name and the kernel's file name, from which its canary follows.
        public: Texts whose content anyone may use.
        place: What was examined, for the message.
    """
    if canary_of(task, file) in text:
        return [Finding(NAME, Predicate.CONTRACT, f"holds the canary of {task}'s {file}", place)]
    found = similarity(text, kernel, public)
    if not found.is_copy:
        return []
    message = (
        f"is a copy of {task}'s {file}: holds {found.found} of {found.total} distinctive fingerprints of its syntax "
        f"tree, {found.share:.2f} where independent programs stay below {found.threshold:.2f}"
    )
    return [Finding(NAME, Predicate.CONTRACT, message, place)]


def similarity(text: str, reference: str, public: Iterable[str] = ()) -> Similarity:
    """Compare a text with a reference kernel.

    Args:
        text: See `check_leakage`.
        reference: The kernel that must not leak.
        public: Texts whose content anyone may use; what they share with the reference is not distinctive.
    """
    if len(text) < MIN_TEXT:
        return Similarity(0.0, 0, 0)
    known = tuple(public)
    if tree_fingerprints(text):
        return _tree_share(text, reference, known)
    wanted = _distinctive(reference, known, lexical_fingerprints)
    shares = [_share(wanted, lexical_fingerprints(text), THRESHOLD if len(wanted) >= SMALL else SMALL_THRESHOLD)]
    shares += [_tree_share(block, reference, known) for block in _FENCE.findall(text)]
    return max(shares, key=lambda found: (found.is_copy, found.share))


def _tree_share(text: str, reference: str, public: tuple[str, ...]) -> Similarity:
    wanted = _distinctive(reference, public, tree_fingerprints)
    if len(wanted) >= SMALL:
        return _share(wanted, tree_fingerprints(text), THRESHOLD)
    return _share(_distinctive(reference, public, detailed_fingerprints), detailed_fingerprints(text), SMALL_THRESHOLD)


def _share(wanted: Prints, prints: Prints, threshold: float) -> Similarity:
    found = len(wanted & prints)
    return Similarity(found / len(wanted) if wanted else 0.0, found, len(wanted), threshold)


@lru_cache(maxsize=256)
def _distinctive(reference: str, public: tuple[str, ...], fingerprints: Callable[[str], Prints]) -> Prints:
    prints = set(fingerprints(reference))
    for known in public:
        prints -= fingerprints(known)
    return frozenset(prints)


# ---------------------------------------------------------------------------------------------- syntax trees


@lru_cache(maxsize=512)
def tree_fingerprints(text: str) -> Prints:
    """Fingerprints of a program's syntax tree; empty for what isn't a CSL program."""
    return _fingerprints(text, detailed=False)


@lru_cache(maxsize=128)
def detailed_fingerprints(text: str) -> Prints:
    """The same with types, attributes and the values of numbers."""
    return _fingerprints(text, detailed=True)


def _fingerprints(text: str, *, detailed: bool) -> Prints:
    if "@" not in text and "fn" not in text:
        return frozenset()
    try:
        tree = parse_text("pe.csl", text)
    except (CslError, RecursionError):
        return frozenset()
    names = {name for name, _ in bound_names(tree)}
    found: set[tuple[str, ...]] = set()
    for item in tree.items:
        parts: Sequence[ast.Node] = item.body.stmts if isinstance(item, ast.ComptimeBlock | ast.LayoutBlock) else [item]
        for part in parts:
            stream: list[str] = []
            _write(part, names, stream, detailed)
            found.update(_runs(stream, WINDOW))
    return frozenset(found)


def _write(value: Any, names: set[str], stream: list[str], detailed: bool) -> None:
    if isinstance(value, ast.Ident):
        stream.append("$" if value.name in names else value.name)
    elif isinstance(value, ast.IntLit | ast.FloatLit):
        stream.append(str(value.value) if detailed else "#")
    elif isinstance(value, ast.Node | ast.Attributes):
        stream.append(type(value).__name__)
        own = isinstance(value, ast.FieldAccess | ast.BuiltinCall | ast.FieldInit)
        for name in field_names(type(value)):
            if name in _DETAILS and not detailed:
                continue
            content = getattr(value, name)
            if isinstance(content, str) and not isinstance(content, Enum):
                stream.append("$" if content in names and not own else content)
            else:
                _write(content, names, stream, detailed)
        stream.append(".")
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, str):
                stream.append("$" if item in names else item)
            else:
                _write(item, names, stream, detailed)
    elif isinstance(value, bytes | bool | Enum):
        stream.append(repr(value))


def _runs(stream: list[str], window: int) -> Iterable[tuple[str, ...]]:
    if len(stream) < 6:
        return ()
    if len(stream) <= window:
        return (tuple(stream),)
    return (tuple(stream[start : start + window]) for start in range(len(stream) - window + 1))


# ----------------------------------------------------------------------------------------------------- text


def tokens(text: str) -> list[str]:
    """Token stream of CSL text (or of prose around it) with declared names and numbers made anonymous."""
    declared = {name for match in _DECLARED.finditer(text) for name in match.groups() if name}
    stream = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token.startswith("//"):
            continue
        if token in declared:
            token = "$"
        elif token[0].isdigit():
            token = "#"
        stream.append(token)
    return stream


@lru_cache(maxsize=512)
def lexical_fingerprints(text: str) -> Prints:
    """Every run of `LEXICAL_WINDOW` tokens."""
    stream = tokens(text)
    window = LEXICAL_WINDOW
    return frozenset(tuple(stream[start : start + window]) for start in range(len(stream) - window + 1))
