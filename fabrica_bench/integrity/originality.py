"""How alike are the programs of our bundles and those of another collection?

Both sides are cut into fingerprints (see `fabrica_bench.integrity.leakage`): runs of tokens of a CSL syntax tree, or of
a Python script, with the program's own names and all numbers made anonymous. What several programs of the other
collection have in common is an idiom of the language and its libraries, which says nothing about where a text comes
from; it isn't counted. A pair's score is the larger of two shares: of our program's remaining fingerprints, and of the
other one's. So a copy scores high whether it was padded or cut short.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.integrity.leakage import (
    LEXICAL_WINDOW,
    SMALL,
    THRESHOLD,
    Prints,
    lexical_fingerprints,
    tree_fingerprints,
)
from fabrica_bench.tasks.task import Task

SUFFIXES: Final = (".csl", ".py")

IDIOM_PROGRAMS: Final = 3
"""Programs (folders) of the other collection from which on a shared fingerprint is an idiom."""

MAX_SOURCE_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Resemblance:
    """Two programs and what they have in common.

    Attributes:
        task, ours, theirs: The task, our file within its folder, the other file within its collection.
        score: `common` over the smaller of the two totals.
        common, our_total, their_total: Fingerprints that aren't idioms.
    """

    task: str
    ours: str
    theirs: str
    score: float
    common: int
    our_total: int
    their_total: int

    @property
    def is_copy(self) -> bool:
        return self.score >= THRESHOLD


@dataclass(frozen=True)
class Collection:
    """Programs of another origin: fingerprints by file, and those that are idioms."""

    prints: Mapping[str, Prints]
    idioms: Prints


def read_collection(folder: Path) -> Collection:
    """All CSL and Python sources under a folder; those that can't be parsed as CSL are compared as plain tokens.

    Raises:
        FabricaError: There is no such folder, or no CSL program in it.
    """
    if not folder.is_dir():
        raise FabricaError("there is no such folder", place=str(folder), remedy="name a checkout", code=ExitCode.USAGE)
    prints = {
        path.relative_to(folder).as_posix(): found
        for path in sorted(folder.rglob("*"))
        if path.suffix in SUFFIXES and path.is_file() and (found := fingerprints(path))
    }
    if not any(name.endswith(".csl") for name in prints):
        raise FabricaError("holds no CSL program", place=str(folder), remedy="name a checkout with *.csl files")
    programs: dict[str, set[tuple[str, ...]]] = {}
    for name, found in prints.items():
        programs.setdefault(str(Path(name).parent), set()).update(found)
    counts = Counter(print_ for found in programs.values() for print_ in found)
    return Collection(prints, frozenset(print_ for print_, count in counts.items() if count >= IDIOM_PROGRAMS))


def fingerprints(path: Path) -> Prints:
    """Fingerprints of a source file; empty for one that is too large, not UTF-8, or no Python.

    Raises:
        FabricaError: The file can't be read.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise from_os_error(error) from error
    if len(raw) > MAX_SOURCE_BYTES:
        return frozenset()
    text = raw.decode("utf-8", errors="replace")
    if path.suffix == ".py":
        return python_fingerprints(text)
    return tree_fingerprints(text) or lexical_fingerprints(text)


def python_fingerprints(text: str) -> Prints:
    """Runs of tokens of a Python source: names but for keywords and attributes, numbers and strings are anonymous."""
    stream: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                own = not keyword.iskeyword(token.string) and (not stream or stream[-1] != ".")
                stream.append("$" if own else token.string)
            elif token.type == tokenize.NUMBER:
                stream.append("#")
            elif token.type == tokenize.STRING:
                stream.append('"')
            elif token.type == tokenize.OP:
                stream.append(token.string)
    except (tokenize.TokenError, SyntaxError):
        return frozenset()
    return frozenset(tuple(stream[start : start + LEXICAL_WINDOW]) for start in range(len(stream) - LEXICAL_WINDOW + 1))


def resemblances(tasks: Sequence[Task], collection: Collection) -> list[Resemblance]:
    """For each of our sources the program of the collection that it is most like, the most alike pairs first.

    Sources with fewer than `SMALL` fingerprints beside idioms, on either side, are mostly interface and left out.
    """
    others = {name: found - collection.idioms for name, found in collection.prints.items()}
    others = {name: found for name, found in others.items() if len(found) >= SMALL}
    best = [max(pairs, key=lambda pair: pair.score) for task in tasks for pairs in _pairs(task, others, collection)]
    return sorted(best, key=lambda pair: (-pair.score, pair.task, pair.ours))


def _pairs(task: Task, others: Mapping[str, Prints], collection: Collection) -> Iterator[list[Resemblance]]:
    """The pairs of each source of a bundle, if there are any."""
    bundle = task.spec.bundle
    for name in bundle.files:
        path = task.bundle_dir / name
        if path.suffix not in SUFFIXES or name == bundle.host:
            continue
        mine = fingerprints(path) - collection.idioms
        if len(mine) < SMALL:
            continue
        pairs = []
        for other, theirs in others.items():
            if Path(other).suffix == path.suffix:
                common = len(mine & theirs)
                score = common / min(len(mine), len(theirs))
                pairs.append(Resemblance(task.name, name, other, score, common, len(mine), len(theirs)))
        if pairs:
            yield pairs


@dataclass(frozen=True)
class Screen:
    """The comparison with one other collection: its folder, its files, and for each of our sources the most alike."""

    folder: Path
    files: int
    pairs: tuple[Resemblance, ...]

    @property
    def copies(self) -> int:
        return sum(pair.is_copy for pair in self.pairs)


def page(screens: Sequence[Screen], tasks: int, top: int) -> str:
    """The highest scores as a Markdown page; the same sources give the same bytes."""
    folders = [f"--against {screen.folder.name}" for screen in screens]
    copies = sum(screen.copies for screen in screens)
    lines = [
        "# Similarity to published programs",
        "",
        f"{copies or 'No'} source of the {tasks} bundles is a copy, which it would be from a score of {THRESHOLD} on.",
        "A score is the share of token fingerprints that both programs have, names and numbers made anonymous and",
        "idioms left out, of those of the program that has fewer. Each folder is a checkout of the repository of",
        "that name. Written by",
        "",
        "```bash",
        f"fabrica-bench tasks similarity --top {top} --out docs/similarity.md \\",
        "  " + " \\\n  ".join(folders),
        "```",
    ]
    for screen in screens:
        lines += [
            "",
            f"## {screen.folder.name}",
            "",
            f"{len(screen.pairs)} of our sources compared with {screen.files} files.",
            "",
            "| score | common fingerprints | task | file | most like |",
            "|---:|---:|---|---|---|",
            *(f"| {p.score:.2f} | {p.common} | {p.task} | {p.ours} | {p.theirs} |" for p in screen.pairs[:top]),
        ]
    return "\n".join(lines) + "\n"
