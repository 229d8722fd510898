"""Shape of a function's control flow: which blocks the translator gives a place of their own.

A block with one predecessor is translated in line after its predecessor. The others (joins and loop headers) are reached
through a small dispatch, inner loops first.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabrica_bench.csl import ir

_MAX_NESTING = 24  # Python allows 100 levels of indentation


@dataclass(frozen=True)
class Regions:
    """`entries`: blocks with a place of their own, hottest first; block 0 only if something jumps back to it."""

    entries: tuple[int, ...]
    predecessors: tuple[int, ...]
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
    reached = {0}
    pending = [0]
    edges: list[tuple[int, int]] = []
    while pending:
        source = pending.pop()
        for target in successors(blocks[source]):
            edges.append((source, target))
            if target not in reached:
                reached.add(target)
                pending.append(target)
    predecessors = [0] * len(blocks)
    depth = [0] * len(blocks)
    back_targets = set()
    for source, target in edges:
        predecessors[target] += 1
        if target <= source:
            back_targets.add(target)
            for index in range(target, source + 1):
                depth[index] += 1
    entries = {b for b in reached if b in back_targets or (predecessors[b] > 1 and b != 0)}
    _limit_nesting(blocks, entries)
    ordered = sorted(entries, key=lambda block: (-depth[block], block))
    return Regions(tuple(ordered), tuple(predecessors), bool(back_targets))


def _limit_nesting(blocks: list[list[ir.Instr]], entries: set[int]) -> None:
    """Turn blocks that would be nested too deeply into entries."""
    pending = [(entry, 0) for entry in sorted(entries | {0})]
    seen = set()
    while pending:
        block, level = pending.pop()
        if block in seen:
            continue
        seen.add(block)
        for target in successors(blocks[block]):
            if target in entries:
                continue
            if level >= _MAX_NESTING:
                entries.add(target)
                pending.append((target, 0))
            else:
                pending.append((target, level + (len(successors(blocks[block])) > 1)))
