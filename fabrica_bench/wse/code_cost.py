"""Static cost of IR instructions: what one costs wherever it stands, from the architecture's table.

The real compiler's instruction selection is not public. The entries are calibrated so that simple loops come out as
published (see the cost table's sources); the notes here say how an IR instruction maps to an entry. Three things that
any optimising compiler does are assumed, because published loops show them: an address or element that was just
computed or loaded is not computed or loaded again (`block_costs`), division by a power of two is a shift or a mask, and
small functions are expanded where they are called (`inlined_functions`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, pairwise

from fabrica_bench.csl import ir
from fabrica_bench.wse.costs import CostTable

_PREDICABLE = (ir.Move, ir.Bin, ir.Cmp, ir.Neg, ir.Not, ir.Cast, ir.Bitcast)
_MAX_PREDICATED = 2
_ELEMENT_SIZES = (1, 2, 4)  # the product is a short shift


def instruction_cost(instr: ir.Instr, costs: CostTable) -> int:
    """Cycles of a non-terminator that takes a fixed time. Calls, DSD operations, intrinsics: elsewhere."""
    match instr:
        case ir.Move():
            return costs["scalar.move"]
        case ir.Bin(op=op, type=type_, a=a, b=b):
            if op in ("div", "rem") and _is_power_of_two(b, type_):
                # A signed dividend is first made to round towards zero.
                return _integer_cost(type_, costs) + (costs["scalar.signed_shift"] if type_.signed else 0)
            if op == "mul" and type_.kind == "int" and isinstance(b, ir.Imm) and b.value in _ELEMENT_SIZES:
                return _integer_cost(type_, costs)
            cost = _binary_cost(op, type_, costs)
            if op == "div" and type_.kind == "float" and isinstance(a, ir.Imm):
                cost += costs["scalar.float_constant"]
            return cost
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
        case ir.LoadDsr():
            return costs["dsd.dsr_load_explicit"]
        case ir.SetDsd(field=field):
            return costs["dsd.advance" if field == "advance" else f"dsd.set_{field}"]
    return 0


def block_costs(block: Sequence[ir.Instr], costs: CostTable) -> list[int]:
    """Static costs of a block's instructions without its terminator.

    After the last of several loads of DSRs the gap before their use is charged.

    Repeats within the block: an address that was computed before costs `scalar.reuse` in all, and a load from where the
    block has just loaded or stored costs nothing.
    """
    result = [instruction_cost(instr, costs) for instr in block[:-1]]
    for position, (instr, following) in enumerate(pairwise(block)):
        if isinstance(instr, ir.LoadDsr) and not isinstance(following, ir.LoadDsr):
            result[position] += costs["dsd.dsr_gap"]
    known: dict[object, int | str] = {}  # what was computed -> number of the value
    numbers: dict[int, int | str] = {}  # register -> number of its value
    places: dict[int, int] = {}  # register -> position of the product that it holds
    cells: dict[object, int | str] = {}  # memory read or written and not changed since -> number of the value
    fresh = count()
    for position, instr in enumerate(block[:-1]):
        match instr:
            case ir.Bin(dst=dst, op=op, type=type_, a=a, b=b) if type_.kind == "int":
                key = (op, type_, _number(a, numbers, fresh), _number(b, numbers, fresh))
                if op == "add" and key in known:
                    result[position] = min(result[position], costs["scalar.reuse"])
                    for operand in (a, b):
                        if isinstance(operand, ir.Reg) and operand.index in places:
                            result[places[operand.index]] = 0
                numbers[dst.index] = known.setdefault(key, next(fresh))
                places.pop(dst.index, None)
                if op == "mul":
                    places[dst.index] = position
            case ir.Load(dst=dst, type=type_, addr=addr, offset=offset) if type_.kind != "dsd":
                cell = (_number(addr, numbers, fresh), offset, type_)
                if cell in cells:
                    result[position] = 0
                numbers[dst.index] = cells.setdefault(cell, next(fresh))
            case ir.Store(type=type_, addr=addr, value=value, offset=offset):
                cell = (_number(addr, numbers, fresh), offset, type_)
                cells.clear()  # another address may name the same place
                if type_.kind != "dsd":
                    cells[cell] = _number(value, numbers, fresh)
            case ir.Move(dst=dst, src=src):
                numbers[dst.index] = _number(src, numbers, fresh)
                places.pop(dst.index, None)
            case _:
                _forget(instr, numbers, cells, fresh)
    return result


def _forget(
    instr: ir.Instr, numbers: dict[int, int | str], cells: dict[object, int | str], fresh: Iterator[int]
) -> None:
    """Effects of an instruction that is none of the above: memory may change, its result is a new value."""
    if not isinstance(instr, _PREDICABLE):
        cells.clear()
    for name in ("dst", "result"):
        register = getattr(instr, name, None)
        if isinstance(register, ir.Reg):
            numbers[register.index] = next(fresh)


def _number(operand: ir.Operand, numbers: dict[int, int | str], fresh: Iterator[int]) -> int | str:
    if isinstance(operand, ir.Reg):
        if operand.index not in numbers:
            numbers[operand.index] = next(fresh)
        return numbers[operand.index]
    return str(operand)


def inlined_functions(image: ir.Image, costs: CostTable) -> frozenset[str]:
    """Functions whose calls cost nothing because the compiler expands them: called directly only, and small or called
    from one place. Entry points and functions whose address is used keep their calls."""
    sites: Counter[str] = Counter()
    kept = {binding.fn for binding in image.tasks} | {symbol.target for symbol in image.exports.values()}
    kept |= set(image.teardown_handlers.values()) | {handler for _, _, handler in image.empty_queue_handlers}
    kept |= {alternative for _, alternative, *_ in image.rotating_tasks}
    for name, function in image.functions.items():
        for block in function.blocks:
            for instr in block:
                if isinstance(instr, ir.Call):
                    sites[instr.fn] += 1
                    if instr.fn == name:
                        kept.add(name)
                elif isinstance(instr, ir.MapOp):
                    kept.add(instr.fn)
    limit = costs["branch.inline_limit"]
    return frozenset(
        name
        for name, calls in sites.items()
        if name in image.functions
        and name not in kept
        and (calls == 1 or sum(len(block) for block in image.functions[name].blocks) <= limit)
    )


def return_cost(function: ir.Function, inlined: bool, costs: CostTable) -> int:
    """Cycles of a return. That of a task is the task's end."""
    return 0 if inlined or function.kind == "task" else costs["branch.return"]


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


def _is_power_of_two(operand: ir.Operand, type_: ir.ScalarType) -> bool:
    """True for a constant of which a quotient is a shift and a remainder a mask."""
    if type_.kind != "int" or not isinstance(operand, ir.Imm) or not isinstance(operand.value, int):
        return False
    return operand.value > 0 and operand.value & (operand.value - 1) == 0


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
