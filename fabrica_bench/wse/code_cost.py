"""Static cost of IR instructions: what one costs wherever it stands, from the architecture's table.

The real compiler's instruction selection is not public. The entries are calibrated so that simple loops come out as
published (see the cost table's sources); the notes here say how an IR instruction maps to an entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabrica_bench.csl import ir
from fabrica_bench.wse.costs import CostTable

_PREDICABLE = (ir.Move, ir.Bin, ir.Cmp, ir.Neg, ir.Not, ir.Cast, ir.Bitcast)
_MAX_PREDICATED = 2


def instruction_cost(instr: ir.Instr, costs: CostTable) -> int:
    """Cycles of a non-terminator that takes a fixed time. Calls, DSD operations, intrinsics: elsewhere."""
    match instr:
        case ir.Move():
            return costs["scalar.move"]
        case ir.Bin(op=op, type=type_):
            return _binary_cost(op, type_, costs)
        case ir.Cmp(type=type_):
            if type_.kind == "float":
                return costs["scalar.compare"]
            return costs["scalar.compare" if type_.bits <= 16 else "scalar.compare_wide"]
        case ir.Neg(type=type_):
            return costs["scalar.float_negate"] if type_.kind == "float" else _integer_cost(type_, costs)
        case ir.Not(type=type_):
            return _integer_cost(type_, costs)
        case ir.Cast(to=to, from_=from_):
            free = to.kind == from_.kind == "int" and to.bits <= max(from_.bits, 16)
            return costs["scalar.cast_free" if free else "scalar.cast"]
        case ir.Bitcast():
            return costs["scalar.cast_free"]
        case ir.Load(type=type_):
            return _access_cost("scalar.load", type_, costs)
        case ir.Store(type=type_):
            return _access_cost("scalar.store", type_, costs)
        case ir.CopyMem(size=size):
            return costs["scalar.copy_word"] * ((size + 1) // 2)
        case ir.FrameAddr():
            return costs["scalar.frame_address"]
        case ir.MakeDsd(fields=fields):
            return costs["dsd.make_field"] * len(fields)
        case ir.SetDsd(field=field):
            return costs["dsd.advance" if field == "advance" else f"dsd.set_{field}"]
    return 0


def _binary_cost(op: str, type_: ir.ScalarType, costs: CostTable) -> int:
    if type_.kind == "float":
        if op in ("div", "rem"):
            return costs["scalar.float_divide" if type_.bits == 32 else "scalar.float_divide_half"]
        return costs["scalar.float_multiply" if op == "mul" else "scalar.float_add"]
    if op in ("div", "rem"):
        return costs["scalar.divide_integer" if type_.bits <= 16 else "scalar.divide_integer_wide"]
    if op == "mul":
        suffix = "" if type_.bits <= 16 else "_wide" if type_.bits <= 32 else "_quad"
        return costs["scalar.multiply" + suffix]
    return _integer_cost(type_, costs)


def _integer_cost(type_: ir.ScalarType, costs: CostTable) -> int:
    suffix = "" if type_.bits <= 16 else "_wide" if type_.bits <= 32 else "_quad"
    return costs["scalar.integer" + suffix]


def _access_cost(name: str, type_: ir.ScalarType, costs: CostTable) -> int:
    if type_.kind == "dsd":
        return costs["dsd.variable_access"]
    return costs["scalar.load_quad"] if type_.size > 4 else costs[name]


def predicated_arms(
    blocks: list[list[ir.Instr]], branch: ir.Branch, predecessors: Sequence[int], rank: Sequence[int]
) -> tuple[int, ...]:
    """Blocks that a compiler would turn into predicated moves: the arms of a small if/else without memory accesses that
    meet again. Empty if the branch is a real one."""
    arms = []
    for target, other in ((branch.then, branch.otherwise), (branch.otherwise, branch.then)):
        block = blocks[target]
        jump = block[-1]
        small = len(block) <= _MAX_PREDICATED + 1 and all(_is_predicable(instr) for instr in block[:-1])
        if small and predecessors[target] == 1 and isinstance(jump, ir.Jump) and rank[jump.target] > rank[target]:
            arms.append((target, jump.target, other))
    if len(arms) == 2 and arms[0][1] == arms[1][1]:
        return (arms[0][0], arms[1][0])
    for target, join, other in arms:
        if join == other:
            return (target,)
    return ()


def edge_cost(source: int, target: int, costs: CostTable) -> int:
    """Cycles of an unconditional jump between blocks of these ranks."""
    if target <= source:
        return costs["branch.loop_back"]
    return costs["branch.fallthrough" if target == source + 1 else "branch.jump"]


def branch_costs(source: int, then: int, otherwise: int, costs: CostTable) -> tuple[int, int]:
    """Cycles of a conditional branch between blocks of these ranks, (to `then`, to `otherwise`). The block laid
    out next is reached without a jump."""
    straight, taken = costs["branch.conditional"], costs["branch.taken"]
    return (taken, straight) if otherwise == source + 1 else (straight, taken)


def _is_predicable(instr: ir.Instr) -> bool:
    if isinstance(instr, ir.Bin):
        return instr.op not in ("div", "rem")
    return isinstance(instr, _PREDICABLE)
