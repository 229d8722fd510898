"""Builds the control-flow graph of one IR function."""

from __future__ import annotations

from fabrica_bench.csl import ir
from fabrica_bench.csl.types import align_up

_TERMINATORS = (ir.Jump, ir.Branch, ir.SwitchInt, ir.Ret, ir.Unreachable)


class FnBuilder:
    """Blocks, registers and frame of a function under construction.

    `loc` is attached to every instruction emitted. A block that nothing jumps to is dead: what would be emitted there
    is dropped, and `is_live` tells the analyser that it need not look at the code. `size`: instructions
    and blocks.
    """

    def __init__(self) -> None:
        self.registers: list[ir.ScalarType] = []
        self.blocks: list[list[ir.Instr]] = [[]]
        self.current = 0
        self.frame_size = 0
        self.loc = 0
        self.size = 0
        self.variables: set[int] = set()
        self._preds: list[int] = [1]

    @property
    def is_live(self) -> bool:
        """Whether control can reach the point where the next instruction would go."""
        block = self.blocks[self.current]
        return self._preds[self.current] > 0 and not (block and isinstance(block[-1], _TERMINATORS))

    def register(self, type_: ir.ScalarType, is_variable: bool = False) -> ir.Reg:
        """A fresh register; `is_variable` marks one that the program may assign again."""
        self.registers.append(type_)
        index = len(self.registers) - 1
        if is_variable:
            self.variables.add(index)
        return ir.Reg(index)

    def new_block(self) -> int:
        self.size += 1
        self.blocks.append([])
        self._preds.append(0)
        return len(self.blocks) - 1

    def enter(self, block: int) -> None:
        """Continue emitting in `block`."""
        self.current = block

    def revive(self) -> None:
        """Make what follows live, to look at the rest of a function that has an error already."""
        if not self.is_live:
            self.enter(self.new_block())
            self._preds[self.current] = 1

    def emit(self, instr: ir.Instr) -> None:
        """Append an instruction that is not a terminator."""
        if self.is_live:
            instr.loc = self.loc
            self.size += 1
            self.blocks[self.current].append(instr)

    def terminate(self, instr: ir.Instr) -> None:
        """Append a terminator, counting the edges it makes."""
        if not self.is_live:
            return
        instr.loc = self.loc
        self.blocks[self.current].append(instr)
        for target in _targets(instr):
            self._preds[target] += 1

    def jump(self, target: int) -> None:
        self.terminate(ir.Jump(0, target))

    def insert_before_jump(self, block: int) -> ir.Instr:
        """Reopen a block that ends in a jump: enter it without its terminator, which is returned for `close`."""
        self.enter(block)
        return self.blocks[block].pop()

    def close(self, terminator: ir.Instr) -> None:
        """Put back the terminator that `insert_before_jump` took."""
        self.blocks[self.current].append(terminator)

    def has_predecessor(self, block: int) -> bool:
        return self._preds[block] > 0

    def frame_slot(self, size: int, alignment: int) -> int:
        """Reserve memory in the frame; returns its offset."""
        offset = align_up(self.frame_size, max(alignment, 2))
        self.frame_size = offset + size
        return offset

    def finish(self) -> list[list[ir.Instr]]:
        """The reachable blocks, renumbered, in order of creation."""
        reachable = self._reachable()
        numbers = {old: new for new, old in enumerate(sorted(reachable))}
        for old in numbers:
            _renumber(self.blocks[old][-1], numbers)
        return [self.blocks[old] for old in sorted(reachable)]

    def _reachable(self) -> set[int]:
        seen, work = set(), [0]
        while work:
            block = work.pop()
            if block in seen:
                continue
            seen.add(block)
            if not self.blocks[block] or not isinstance(self.blocks[block][-1], _TERMINATORS):
                self.blocks[block].append(ir.Unreachable(self.loc, "end of function reached without a return"))
            work.extend(_targets(self.blocks[block][-1]))
        return seen


def _targets(instr: ir.Instr) -> list[int]:
    match instr:
        case ir.Jump():
            return [instr.target]
        case ir.Branch():
            return [instr.then, instr.otherwise]
        case ir.SwitchInt():
            return [*(target for _, target in instr.cases), instr.default]
    return []


def _renumber(instr: ir.Instr, numbers: dict[int, int]) -> None:
    match instr:
        case ir.Jump():
            instr.target = numbers[instr.target]
        case ir.Branch():
            instr.then, instr.otherwise = numbers[instr.then], numbers[instr.otherwise]
        case ir.SwitchInt():
            instr.cases = tuple((value, numbers[target]) for value, target in instr.cases)
            instr.default = numbers[instr.default]
