"""How a profile orders rewrites: what one promises counts by the share of the measured cycles that it touches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher

from fabrica_agent.rewrite.catalogue import Proposal, Rewrite
from fabrica_agent.rewrite.text import lines_of, parse
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

_LINE = re.compile(r"^\s*([\w.-]+):(\d+): (\d+)$", re.MULTILINE)
"""A line of a profile: file, line, cycles."""


def hot_lines(profile: str, file: str) -> dict[int, float]:
    """The share of the profiled cycles that each line of a file takes; empty without a profile.

    Args:
        profile: What `AgentTools.profile` says.
        file: Name of the file.
    """
    found = [(m[1], int(m[2]), int(m[3])) for m in _LINE.finditer(profile)]
    total = sum(cycles for _, _, cycles in found)
    return {line: cycles / total for name, line, cycles in found if name == file} if total else {}


def share(lines: Iterable[int], hot: Mapping[int, float]) -> float:
    """The share of the cycles that some lines take together."""
    return sum(hot.get(line, 0.0) for line in set(lines))


def promise(rewrite: Rewrite, proposal: Proposal, text: str, hot: Mapping[int, float]) -> float:
    """What a proposal may be expected to save.

    Args:
        rewrite: What proposes it.
        proposal: The changed text, and what the static estimate expects.
        text: The compute file, of which the profile is.
        hot: Shares of the cycles by line of `text`; without any, the estimate stands.
    """
    if not hot or rewrite.between_lines:
        return proposal.gain
    return proposal.gain * share(touched(text, proposal.text), hot)


def touched(text: str, changed: str) -> set[int]:
    """Lines of a text, from 1 on, whose cost a change may alter.

    Those that it replaces, and those that mention what it declares otherwise: a declaration takes no time itself.
    """
    lines = set(_replaced(text, changed))
    tree = parse(text)
    declarations = [d for d in tree.items if isinstance(d, ast.VarDecl)]
    names = {d.name for d in declarations if lines & set(lines_of(d))}
    while True:
        # A descriptor is another one when its array is.
        more = {d.name for d in declarations if d.name not in names and names & _mentioned(d)}
        if not more:
            break
        names |= more
    functions = [f for f in tree.items if isinstance(f, ast.FnDecl)]
    mentions = (n for n in walk(functions) if isinstance(n, ast.Ident) and n.name in names)
    return lines.union(*map(lines_of, mentions))


def _replaced(text: str, changed: str) -> Iterator[int]:
    """Lines of a text that another one doesn't have in their place; comments and empty lines don't count."""
    old, new = _code(text), _code(changed)
    matcher = SequenceMatcher(None, [c for _, c in old], [c for _, c in new], autojunk=False)
    for tag, start, end, _, _ in matcher.get_opcodes():
        if tag != "equal":
            yield from (number for number, _ in old[start:end])


def _code(text: str) -> list[tuple[int, str]]:
    lines = ((number, line.partition("//")[0].strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, code) for number, code in lines if code]


def _mentioned(d: ast.VarDecl) -> set[str]:
    return {n.name for n in walk(d) if isinstance(n, ast.Ident)}
