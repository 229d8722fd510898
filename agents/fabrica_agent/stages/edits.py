"""The optimizer's catalogue for models: what each edit does, when it applies, what it gains, and their ranking.

The rewrites of the deterministic optimizer come first, with what they expect to gain on the program at hand; the edits
after them are those that only a model can make. The scan works on the syntax tree; where there is a profile, what it
finds counts the more, the more cycles are spent there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from fabrica_agent.extraction.layout import parse
from fabrica_agent.rewrite.catalogue import CATALOGUE as REWRITES
from fabrica_agent.rewrite.catalogue import Rewrite, Source
from fabrica_agent.rewrite.measured import promise, share
from fabrica_agent.rewrite.text import lines_of
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk
from fabrica_bench.plugins import AgentGaveUp


@dataclass(frozen=True)
class Program:
    """A compute file's tree, and what the scan asks of it; `met` are the nodes that it was told of."""

    tree: ast.File
    met: list[ast.Node] = field(default_factory=list)

    def calls(self, *names: str) -> list[ast.BuiltinCall]:
        """Calls of these builtins."""
        found = [n for n in walk(self.tree) if isinstance(n, ast.BuiltinCall) and n.name in names]
        self.met.extend(found)
        return found

    def loops(self) -> list[ast.Node]:
        """Loops of either kind."""
        found = self._loops()
        self.met.extend(found)
        return found

    def in_loops(self, *names: str) -> int:
        """Calls of these builtins inside loops."""
        return self._inside(lambda n: isinstance(n, ast.BuiltinCall) and n.name in names)

    def indexed_writes(self) -> int:
        """Writes of single array elements inside loops."""
        return self._inside(lambda n: isinstance(n, ast.Assign) and isinstance(n.target, ast.Index))

    def _loops(self) -> list[ast.Node]:
        return [n for n in walk(self.tree) if isinstance(n, (ast.For, ast.While))]

    def _inside(self, wanted: Callable[[ast.Node], bool]) -> int:
        found = [n for loop in self._loops() for n in walk(loop) if wanted(n)]
        self.met.extend(found)
        return len(found)


@dataclass(frozen=True)
class Edit:
    """An entry of the catalogue.

    Attributes:
        name: What answers and records call it.
        text: Precondition, change and expected gain.
        score: How strongly a program asks for it; 0 for not at all.
    """

    name: str
    text: str
    score: Callable[[Program], int]


_FLOAT: Final = ("fadds", "fmuls", "fsubs", "fmacs", "faddh", "fmulh", "fsubh", "fmach")

CATALOGUE: Final = (
    Edit(
        "bulk operations",
        "A loop that writes one element per turn from elements at affine indices becomes one DSD operation (@fadds, "
        "@fmuls, @fmacs, @fmovs, ...): several elements per cycle instead of several cycles per element.",
        lambda p: 3 * p.indexed_writes(),
    ),
    Edit(
        "fused multiply-add",
        "A multiplication by a scalar whose product is added next becomes one @fmacs: one pass over memory instead of "
        "two, and no temporary.",
        lambda p: 2 * min(len(p.calls("fmuls", "fmulh")), len(p.calls("fadds", "faddh"))),
    ),
    Edit(
        "descriptor chaining",
        "A descriptor that is built anew in every turn is built once and moved with @increment_dsd_offset.",
        lambda p: 2 * p.in_loops("get_dsd"),
    ),
    Edit(
        "unroll over rows",
        "A loop over few rows with a bulk operation inside becomes an inline for with comptime descriptors: no set-up "
        "of descriptors at run time.",
        lambda p: p.in_loops(*_FLOAT),
    ),
    Edit(
        "flatten to one operation",
        "Bulk operations on adjacent rows become one over the whole extent, or one mem4d_dsd: the start-up cost of "
        "some fifteen cycles is paid once.",
        lambda p: p.in_loops(*_FLOAT),
    ),
    Edit(
        "fold to the middle",
        "A sum of many elements into a scalar, which adds one at a time, first adds the upper half onto the lower half "
        "with wide operations until little is left.",
        lambda p: len([c for c in p.calls("fadds", "fmaxs") if c.args and isinstance(c.args[0], ast.Unary)]),
    ),
    Edit(
        "comptime values",
        "Values that depend on params only become consts, and tables of them are filled at comptime.",
        lambda p: (
            len(
                [
                    n
                    for n in p.tree.items
                    if isinstance(n, ast.VarDecl) and n.kind == ast.VarKind.VAR and n.init is not None
                ]
            )
            // 4
        ),
    ),
    Edit(
        "buffer removal",
        "A temporary array that is written once and read once is computed straight into its target.",
        lambda p: len(p.calls("fmovs", "fmovh", "mov32", "mov16")),
    ),
    Edit(
        "memory banks",
        "Arrays that one operation reads together start in different memory banks: align(16), and a few spare elements "
        "between them.",
        lambda p: len(p.calls(*_FLOAT)) // 2,
    ),
    Edit(
        "task fusion",
        "A task that only activates another one, or does little, is merged with it: each start costs some cycles.",
        lambda p: len([n for n in p.tree.items if isinstance(n, ast.FnDecl) and n.kind == "task"]),
    ),
    Edit(
        "asynchronous overlap",
        "A transfer whose data aren't needed at once gets .async = true and ends by activating a task, while the main "
        "thread goes on computing.",
        lambda p: 2 * len(p.calls("get_dsd")) if _synchronous(p) else 0,
    ),
    Edit(
        "early receive",
        "Receives start before the work whose results they don't need, so that words don't wait in the queue.",
        lambda p: len([c for c in p.calls("get_dsd") if _kind(c) == "fabin_dsd"]),
    ),
    Edit(
        "pack two halves into a word",
        "Half-precision data travel two to a word.",
        lambda p: len(p.calls("fmovh", "mov16")),
    ),
    Edit(
        "stream instead of store",
        "What arrives is added or multiplied as it comes in (a fabin_dsd as source), instead of being stored first.",
        lambda p: len([c for c in p.calls("get_dsd") if _kind(c) == "fabin_dsd"]),
    ),
    Edit(
        "map",
        "A loop that calls one function on every element becomes @map.",
        lambda p: p.indexed_writes() if p.loops() else 0,
    ),
    Edit(
        "shorter loops",
        "What doesn't change moves out of a loop; a while loop with a counter becomes a for over @range; divisions and "
        "remainders by counters become counters.",
        lambda p: len(p.loops()),
    ),
)


def _kind(call: ast.BuiltinCall) -> str:
    return call.args[0].name if call.args and isinstance(call.args[0], ast.Ident) else getattr(call.args[0], "text", "")


def _synchronous(program: Program) -> bool:
    fabric = any(_kind(c) in ("fabin_dsd", "fabout_dsd") for c in program.calls("get_dsd"))
    return fabric and not any(name == "async" for name in _field_names(program))


def _field_names(program: Program) -> Iterator[str]:
    for node in walk(program.tree):
        if isinstance(node, ast.InitList):
            yield from (init.name for init in node.inits if init.name is not None)


def parses(text: str) -> bool:
    """Whether a text is a program; other toolchains may accept what our parser doesn't know."""
    try:
        parse("pe.csl", text)
    except AgentGaveUp:
        return False
    return True


EMPHASIS = 4.0
"""How much more an edit counts if all cycles are spent where it applies."""


def rewrites(text: str, sizes: Mapping[str, int], hot: Mapping[int, float] | None = None) -> list[str]:
    """The deterministic optimizer's rewrites as lines of the catalogue, those that apply and promise most first.

    Args:
        text: The compute file.
        sizes: Its size parameters.
        hot: Shares of cycles by line, see `hot_lines`.
    """
    source = Source(text, sizes)
    if not parses(text):
        return [f"{rewrite.name}: {rewrite.effect}; holds when {rewrite.precondition}" for rewrite in REWRITES]
    proposals = {rewrite.name: rewrite.propose(source) for rewrite in REWRITES}
    gains = {name: max((p.gain for p in found), default=None) for name, found in proposals.items()}

    def rank(rewrite: Rewrite) -> float:
        return max((promise(rewrite, p, text, hot or {}) for p in proposals[rewrite.name]), default=0.0)

    lines = []
    for rewrite in sorted(REWRITES, key=lambda rewrite: -rank(rewrite)):
        gain = gains[rewrite.name]
        note = "does not apply as it stands" if gain is None else f"expected to save about {gain:.0f} cycles"
        lines.append(f"{rewrite.name}: {rewrite.effect}; holds when {rewrite.precondition} ({note})")
    return lines


def ranked(files: dict[str, str], compute: str, hot: Mapping[int, float] | None = None) -> list[Edit]:
    """The catalogue, the edits that a program asks for most first."""
    try:
        tree = parse(compute, files.get(compute, ""))
    except AgentGaveUp:
        return list(CATALOGUE)

    def rank(edit: Edit) -> float:
        program = Program(tree)
        score = edit.score(program)
        lines = (line for node in program.met for line in lines_of(node))
        return score * (1 + EMPHASIS * share(lines, hot or {}))

    return sorted(CATALOGUE, key=lambda edit: -rank(edit))
