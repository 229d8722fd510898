"""Cycles of DSD operations, from the cost table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabrica_bench.wse.costs import CostTable

if TYPE_CHECKING:
    from fabrica_bench.wse.dsd import Operand

# A result of one that the next element needs is there a cycle later than that of a move.
_FLOAT_OPS = {name + suffix for name in ("fadd", "fsub", "fmul", "fmac", "fmax") for suffix in ("h", "s")}
_FLOAT_OPS |= {"faddhs", "fmachs"}


class DsdCosts:
    """Costs of one kind of DSD operation."""

    def __init__(self, costs: CostTable, op: str) -> None:
        self.width = costs[f"dsd_width.{op}"]
        self.dsr_load = costs["dsd.dsr_load"]
        self.dsr_gap = costs["dsd.dsr_gap"]
        self.scalar_operand = costs["dsd.scalar_operand"]
        self.launch = costs["dsd.launch"]
        self.conflict = costs["dsd.bank_conflict"]
        self.period = costs["dsd.bank_period"]
        self.read_bytes = costs["dsd.read_bytes"]
        self.read_shared = costs["dsd.read_shared"]
        self.write_bytes = costs["dsd.write_bytes"]
        self.scalar_dest = costs.number("dsd.scalar_dest_float" if op in _FLOAT_OPS else "dsd.scalar_dest")
        self.stride_span = costs["dsd.stride_span"]
        self.stride_8 = costs["dsd.stride_slow_width"]
        self.stride_4 = costs["dsd.stride_4_width"]
        self.stride_7 = costs["dsd.stride_7_width"]

    def setup(self, dest: Operand | None, sources: list[Operand]) -> int:
        """Cycles before the first element: DSR loads, their gap, scalar operands."""
        loads = 0
        scalars = 0
        for operand in sources:
            if operand.kind == "scalar":
                scalars += 1
            elif operand.dsr is None:
                loads += 1
        if dest is not None and dest.dsr is None:
            same = bool(sources) and sources[0].dsd is not None and sources[0].dsd == dest.dsd
            loads += 0 if same else 1
        return loads * self.dsr_load + (self.dsr_gap if loads else 0) + scalars * self.scalar_operand

    def memory(self, dest: Operand, sources: list[Operand], count: int) -> int:
        """Cycles of a memory-only operation of `count` elements."""
        setup = self.setup(dest, sources)
        if dest.kind == "pointer" or (dest.linear and dest.step == 0 and count > 1):
            return setup + int(-(-count * self.scalar_dest // 1))
        cycles = self.issue_cycles(dest, sources, count)
        if self.conflicts(sources):
            cycles *= self.conflict
        return setup + cycles

    def conflict_cycles(self, dest: Operand, sources: list[Operand], count: int) -> int:
        """Cycles of `memory` that a bank conflict adds."""
        if dest.kind == "pointer" or not self.conflicts(sources):
            return 0
        return self.issue_cycles(dest, sources, count) * (self.conflict - 1)

    def issue_cycles(self, dest: Operand, sources: list[Operand], count: int) -> int:
        """Cycles of `count` elements without bank conflicts.

        They go through the pipe in groups; one takes as long as reading a full one, however many elements it holds.
        """
        width = self.group_size(dest, sources)
        return -(-count // width) * self._group_cycles(dest, sources, width)

    def _group_cycles(self, dest: Operand, sources: list[Operand], width: int) -> int:
        """Cycles of moving a group through the memory ports; at worst its elements go one by one."""
        if not self.read_shared:
            return 1
        read = -(-width * sum(self._span(source) for source in _moving(sources)) // self.read_bytes)
        written = -(-width * self._span(dest) // self.write_bytes) if dest.kind == "memory" else 1
        slowest = max(width, -(-width * sum(source.size for source in _moving(sources)) // self.read_bytes))
        return max(min(max(read, written), slowest), 1)

    def _span(self, operand: Operand) -> int:
        """Bytes that an element takes of a port's width: with `stride_span`, those up to the next one."""
        return max(abs(_step(operand)), operand.size) if self.stride_span else operand.size

    def group_size(self, dest: Operand, sources: list[Operand]) -> int:
        """Elements that go through the pipe together: bound by operation, memory ports and strides."""
        width = min(self.width, max(self.write_bytes // dest.size, 1))
        moving = _moving(sources)
        if not self.read_shared:
            for source in moving:
                width = min(width, max(self.read_bytes // source.size, 1))
        for operand in (dest, *sources):
            if operand.kind == "memory":
                width = min(width, self._stride_width(operand, width))
        return max(width, 1)

    def _stride_width(self, operand: Operand, width: int) -> int:
        step = _step(operand) // 2
        if self.stride_span or step in (0, operand.size // 2):
            return width
        rest = step % 8
        if rest == 0:
            return self.stride_8
        if rest == 4:
            return self.stride_4
        return self.stride_7 if rest == 7 else width

    def conflicts(self, sources: list[Operand]) -> bool:
        """True if two memory sources of unit stride start in the same bank class."""
        memory = [s for s in sources if s.kind == "memory" and s.linear and s.step]
        if len(memory) < 2:
            return False
        first, second = memory[:2]
        return first.step == second.step and first.base % self.period == second.base % self.period


def _step(operand: Operand) -> int:
    """Bytes from an element to the next one of its row."""
    if operand.linear:
        return operand.step
    return operand.dsd.strides[0] * operand.size if operand.dsd else operand.size


def _moving(sources: list[Operand]) -> list[Operand]:
    """Sources that read memory anew for each element."""
    return [source for source in sources if source.kind == "memory" and not (source.linear and source.step == 0)]
