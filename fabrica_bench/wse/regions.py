"""Shape of a function's control flow: which blocks the translator gives a place of their own.

A block with one predecessor is translated in line after its predecessor. The others (joins and loop headers) are
reached through a small dispatch, inner loops first.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabrica_bench.csl import ir

_MAX_NESTING = 24  # branches inside branches; Python allows 100 levels of indentation
_MAX_CHAIN = 80  # blocks in line; the translator recurses along them


@dataclass(frozen=True)
class Regions:
    """`entries`: blocks with a place of their own, hottest first; block 0 only if something jumps back to it. `rank` is
    a block's place in the laid-out code (reverse postorder, `then` before `otherwise`); an edge to a rank that is not
    larger is a back edge."""

    entries: tuple[int, ...]
    predecessors: tuple[int, ...]
    rank: tuple[int, ...]
    has_loop: bool


def successors(block: list[ir.Instr]) -> list[int]:
    """Targets of the terminator, in order; a target named twice appears twice, which gives it a place of its own."""
    match block[-1]:
        case ir.Jump(target=target):
            return [target]
        case ir.Branch(then=then, otherwise=otherwise):
            return [then, otherwise]
        case ir.SwitchInt(cases=cases, default=default):
            return [*(target for _, target in cases), default]
    return []


def find_regions(blocks: list[list[ir.Instr]]) -> Regions:
    """Analyse the reachable part of a control-flow graph."""
    rank = _layout(blocks)
    reached = [block for block in range(len(blocks)) if rank[block] < len(blocks)]
    edges = [(source, target) for source in reached for target in successors(blocks[source])]
    predecessors = [0] * len(blocks)
    depth = [0] * len(blocks)
    back_targets = set()
    for source, target in edges:
        predecessors[target] += 1
        if rank[target] <= rank[source]:
            back_targets.add(target)
            for place in range(rank[target], rank[source] + 1):
                depth[place] += 1
    entries = {b for b in reached if b in back_targets or (predecessors[b] > 1 and b != 0)}
    _limit_nesting(blocks, entries)
    ordered = sorted(entries, key=lambda block: (-depth[rank[block]], rank[block]))
    return Regions(tuple(ordered), tuple(predecessors), tuple(rank), bool(back_targets))


def _layout(blocks: list[list[ir.Instr]]) -> list[int]:
    """Rank of each block; unreachable ones get `len(blocks)`."""
    finished: list[int] = []
    seen = {0}
    stack = [(0, iter(successors(blocks[0])[::-1]))]
    while stack:
        block, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(successors(blocks[target])[::-1])))
                break
        else:
            finished.append(block)
            stack.pop()
    rank = [len(blocks)] * len(blocks)
    for place, block in enumerate(reversed(finished)):
        rank[block] = place
    return rank


def _limit_nesting(blocks: list[list[ir.Instr]], entries: set[int]) -> None:
    """Turn blocks that would be nested too deeply into entries."""
    pending = [(entry, 0, 0) for entry in sorted(entries | {0})]
    seen = set()
    while pending:
        block, level, length = pending.pop()
        if block in seen:
            continue
        seen.add(block)
        for target in successors(blocks[block]):
            if target in entries:
                continue
            if level >= _MAX_NESTING or length >= _MAX_CHAIN:
                entries.add(target)
                pending.append((target, 0, 0))
            else:
                pending.append((target, level + (len(successors(blocks[block])) > 1), length + 1))
