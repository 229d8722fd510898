"""What the translations of one image share: constants, who calls whom, and which functions are simple."""

from __future__ import annotations

from typing import Any

from fabrica_bench.csl import ir
from fabrica_bench.wse.code_cost import inlined_functions
from fabrica_bench.wse.costs import CostTable
from fabrica_bench.wse.intrinsics import INTRINSIC_TABLE, IntrinsicEntry, Unsupported
from fabrica_bench.wse.regions import find_regions


class UnsupportedIr(Exception):
    """The IR holds something this executor does not know. Carries the reason."""


class Unit:
    """What the translations of one image share: constants, call sites, and who calls whom."""

    def __init__(self, image: ir.Image, costs: CostTable, half: str, by_line: bool = False) -> None:
        self.by_line = by_line  # count cycles by location in `pe.line_cycles`
        self.image = image
        self.costs = costs
        self.half = half
        self.names = list(image.functions)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.constants: list[Any] = []
        self.regions = {name: find_regions(fn.blocks) for name, fn in image.functions.items()}
        self.inlined = inlined_functions(image, costs)
        self.simple: set[str] = set()
        self._find_simple()

    def constant(self, value: Any) -> str:
        """Name of a constant in the generated code."""
        self.constants.append(value)
        return f"K{len(self.constants) - 1}"

    def _find_simple(self) -> None:
        candidates = {name for name, fn in self.image.functions.items() if self._looks_simple(name, fn)}
        changed = True
        while changed:
            changed = False
            for name in sorted(candidates - self.simple):
                if all(callee in self.simple for callee in _callees(self.image.functions[name])):
                    self.simple.add(name)
                    changed = True

    def _looks_simple(self, name: str, fn: ir.Function) -> bool:
        if self.regions[name].has_loop:
            return False
        for block in fn.blocks:
            for instr in block:
                if isinstance(instr, ir.DsdOp | ir.MapOp | ir.CallIndirect):
                    return False
                if isinstance(instr, ir.Intrinsic) and intrinsic_entry(instr.name).synchronizes:
                    return False
        return True


def _callees(fn: ir.Function) -> list[str]:
    return [instr.fn for block in fn.blocks for instr in block if isinstance(instr, ir.Call)]


def intrinsic_entry(name: str) -> IntrinsicEntry:
    return INTRINSIC_TABLE.get(name) or IntrinsicEntry(_unknown, takes_text=True)


def _unknown(pe: Any, *args: Any) -> None:
    raise Unsupported("an intrinsic that this simulator does not know")


def registers_read(instr: ir.Instr) -> list[int]:
    """Registers an instruction reads, with repeats."""
    found: list[int] = []
    for name in instr.__dataclass_fields__:
        if name in ("dst", "result"):
            continue
        _collect(getattr(instr, name), found)
    return found


def _collect(value: Any, found: list[int]) -> None:
    if isinstance(value, ir.Reg):
        found.append(value.index)
    elif isinstance(value, tuple) and not isinstance(value, ir.Dsd | ir.ScalarType | ir.DsrRef | ir.Sym):
        for item in value:
            _collect(item, found)
