"""The catalogue of rewrites: each with its precondition, its change and what it is expected to gain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fabrica_agent.rewrite import banks
from fabrica_agent.rewrite.buffers import without_copies
from fabrica_agent.rewrite.forwarding import forwarded
from fabrica_agent.rewrite.fusing import fused
from fabrica_agent.rewrite.gather import gathered
from fabrica_agent.rewrite.hoisting import hoisted
from fabrica_agent.rewrite.loops import as_boxes, as_vectors, rewrite_all
from fabrica_agent.rewrite.overlap import overlapped
from fabrica_agent.rewrite.scope import scope_of
from fabrica_agent.rewrite.text import parse, pinned
from fabrica_agent.rewrite.tuning import constants, fused_tasks, larger_pieces
from fabrica_agent.rewrite.walks import walked
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk


@dataclass(frozen=True)
class Source:
    """A compute file with the sizes it is built for."""

    text: str
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Proposal:
    """A changed text, and the cycles that a static estimate expects it to save."""

    text: str
    gain: float


@dataclass(frozen=True)
class Rewrite:
    """An entry of the catalogue.

    Attributes:
        name: Short, for records.
        precondition: When it keeps what the program computes.
        effect: What changes, and why that may be faster.
        propose: The changed texts, best first; none where the precondition doesn't hold.
        between_lines: It saves time in which a PE runs no line at all, so that the cycles of lines say nothing of it.
    """

    name: str
    precondition: str
    effect: str
    propose: Callable[[Source], list[Proposal]]
    between_lines: bool = False


def _bulk(transform: Callable[..., object], *, registers: bool) -> Callable[[Source], list[Proposal]]:
    def propose(source: Source) -> list[Proposal]:
        if registers and not registers_free(source.text):
            return []
        found = rewrite_all(source.text, source.sizes, transform, registers=registers)  # type: ignore[arg-type]
        if not found:
            return []
        whole = found[-1]
        return [Proposal(pinned(whole.text, source.sizes), sum(f.gain for f in found))]

    return propose


def registers_free(text: str) -> bool:
    """Whether nothing else in a file may use data structure registers: neither itself nor a library that it imports."""
    tree = parse(text)
    own = any(
        isinstance(n.init, ast.BuiltinCall) and n.init.name == "get_dsr" and not n.name.startswith("walk_")
        for n in walk(tree) if isinstance(n, ast.VarDecl)
    )  # fmt: skip
    known = ("<memcpy/memcpy>", "<math>", "<time>", "<layout>", "<control>", "window.csl")
    return not own and all(m in known for m in scope_of(tree, {}).modules.values())


def _walk_columns(source: Source) -> list[Proposal]:
    found = walked(source.text, source.sizes) if registers_free(source.text) else None
    return [] if found is None else [Proposal(pinned(found[0], source.sizes), found[1])]


def _single(
    change: Callable[[str, Mapping[str, int]], tuple[str, float] | None], *, for_one_size: bool = False
) -> Callable[[Source], list[Proposal]]:
    def propose(source: Source) -> list[Proposal]:
        found = change(source.text, source.sizes)
        if found is None:
            return []
        text, gain = found
        return [Proposal(pinned(text, source.sizes) if for_one_size else text, gain)]

    return propose


def _pieces(source: Source) -> list[Proposal]:
    return [Proposal(pinned(text, source.sizes), gain) for text, gain in larger_pieces(source.text, source.sizes)]


def _place(source: Source) -> list[Proposal]:
    text = banks.placed(source.text, source.sizes)
    if text is None:
        return []
    scope = scope_of(parse(source.text), source.sizes)
    longest = max((a.length for a in scope.arrays.values()), default=0)
    return [Proposal(text, float(longest))]


CATALOGUE: tuple[Rewrite, ...] = (
    Rewrite(
        "loop nests to bulk operations over boxes",
        "each statement may run for all iterations before the next one: decided by comparing the order of all accesses",
        "DSD operations over whole boxes, multiply-adds of whole columns, folds instead of running sums",
        _bulk(as_boxes, registers=True),
    ),
    Rewrite(
        "loop nests to bulk operations over boxes, without registers",
        "as above; for files in which a library may use data structure registers",
        "columns are reached by moving a descriptor",
        _bulk(as_boxes, registers=False),
    ),
    Rewrite(
        "single loops to bulk operations",
        "no iteration of the loop depends on another one",
        "one-dimensional DSD operations inside loops that stay",
        _bulk(as_vectors, registers=False),
    ),
    Rewrite(
        "loop simplification",
        "it has no effect, can't fail, and nothing that it reads is written in the loop, through no pointer either",
        "what is the same in every turn is computed once before the loop",
        _single(hoisted),
    ),
    Rewrite(
        "fused multiply-add",
        "a sum follows the product at once, nothing else uses the product, and no element is read after it is written",
        "one operation instead of two, and no array between them",
        _single(fused),
    ),
    Rewrite(
        "descriptor-offset chaining by registers",
        "the column moves by its own length, nothing else uses its descriptor, and no library uses the registers",
        "a register that moves by itself instead of a descriptor that is moved and loaded again in every turn",
        _walk_columns,
    ),
    Rewrite(
        "gathered products by @map",
        "nothing writes the three arrays meanwhile, and every index in the array is valid: a run on all inputs decides",
        "one pass gathers, one operation multiplies, and the loop only adds",
        _single(gathered, for_one_size=True),
    ),
    Rewrite(
        "buffer removal",
        "one operation fills the array, one reads it, and what it was copied from is the same at both places",
        "the reader takes the elements from where they are",
        _single(without_copies, for_one_size=True),
    ),
    Rewrite(
        "direct forwarding",
        "the intermediate result is only copied on, and where to is known when the program is compiled",
        "the last operation writes to the fabric or the result itself: words leave as they are computed",
        _single(forwarded),
    ),
    Rewrite(
        "larger pieces",
        "no exported array depends on the size of a piece: how the work is cut is the program's own choice",
        "fewer exchanges, each with its tasks and the latency of the fabric",
        _pieces,
        between_lines=True,
    ),
    Rewrite(
        "task fusion",
        "a function ends by activating a local task that nothing blocks, and which doesn't lead back to it",
        "a call instead of a trip through the scheduler",
        _single(fused_tasks),
        between_lines=True,
    ),
    Rewrite(
        "asynchronous overlap",
        "a task, or a function that only the host calls, goes on with work that neither touches what a transfer moves "
        "nor uses the fabric; what follows that work uses no local variable",
        "the transfer goes on while the function computes, and activates a task for the rest",
        _single(overlapped),
    ),
    Rewrite(
        "constant folding into comptime",
        "nothing assigns the variable, takes its address or exports it",
        "its value is known when the program is compiled, and so is what depends on it",
        _single(constants),
    ),
    Rewrite(
        "bank-class placement",
        "none: only addresses change",
        "two sources of an operation don't start in the same memory bank, which would halve its speed",
        _place,
    ),
)
