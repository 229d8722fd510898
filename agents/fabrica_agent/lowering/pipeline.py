"""The whole lowering: a CUDA source and a design in, a program for the compute file out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabrica_agent.analyst import find_entry
from fabrica_agent.csl.exchange import Exchange
from fabrica_agent.csl.module import Export, ModuleShape, ParamDeclaration, Variant
from fabrica_agent.cuda.source import CudaSource
from fabrica_agent.cuda.translator import (
    Argument,
    BufferArgument,
    ConstArgument,
    ElementArgument,
    IgnoredArgument,
    ParamArgument,
    RuntimeArgument,
    Translator,
)  # fmt: skip
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.distribute import Layout, blocks_to_pes, place_arrays
from fabrica_agent.lowering.grids import grids
from fabrica_agent.lowering.ir import Program, Ty, UnsupportedError
from fabrica_agent.lowering.options import Options
from fabrica_agent.lowering.reroll import reroll
from fabrica_agent.lowering.rows import columns_for_rows
from fabrica_agent.lowering.sections import optimise_sections
from fabrica_agent.lowering.serialise import serialise
from fabrica_agent.lowering.simplify import simplify, tidy
from fabrica_agent.lowering.unroll import unroll
from fabrica_agent.lowering.vectorise import vectorise
from fabrica_agent.mesh.channels import Mesh
from fabrica_agent.mesh.lines import ways
from fabrica_agent.mesh.plan import EVERYWHERE, plan_gather
from fabrica_agent.mesh.shards import Shards, shards
from fabrica_agent.records import Binding, BindingKind, Decomposition, Design, TaskFacts

_NUMPY = {
    "float32": Ty.F32, "float16": Ty.F16, "int32": Ty.I32, "uint32": Ty.U32, "int16": Ty.I16, "uint16": Ty.U16,
    "int8": Ty.I8, "uint8": Ty.U8,
}  # fmt: skip


def lower(
    source: CudaSource,
    design: Design,
    facts: TaskFacts,
    sizes: Mapping[str, int],
    options: Options,
    mesh: Mesh | None = None,
) -> Variant:
    """Translate a CUDA source for a design and its sizes.

    Args:
        source: The parsed CUDA source.
        design: Where data and work go.
        facts: Visible facts at these sizes.
        sizes: The size parameters.
        options: How to lower.
        mesh: The evaluated layout; needed for designs that communicate.

    Raises:
        UnsupportedError: Names the construct and its line.
    """
    exchange = plan_exchange(design, facts, mesh)
    program = place(to_program(source, design, facts, sizes), design, exchange, traced=options.traced)
    if options.bulk:
        program = tidy(grids(program))
    program = simplify(program)
    if options.bulk:
        # Written-out loops may show bulk operations that a variable distance between threads had hidden.
        program = vectorise(tidy(unroll(vectorise(program))))
        program = tidy(optimise_sections(program, backwards=options.backwards))
        program = tidy(columns_for_rows(program))
    declared = {p.name for p in facts.layout.params}
    shape = module_shape(facts, design, {} if mesh is None else mesh.types)
    fixed = {n: v for n, v in sizes.items() if n in declared}
    if design.width * design.height > 1:
        # Not all of the mesh shows in the parameters.
        fixed |= {"@get_rectangle().width": design.width, "@get_rectangle().height": design.height}
    return Variant(program, shape, fixed, options, exchange)


def to_program(source: CudaSource, design: Design, facts: TaskFacts, sizes: Mapping[str, int]) -> Program:
    """The CUDA program with its launcher bound to the host's arrays."""
    arrays = arrays_of(facts)
    arguments = {b.parameter: _argument(b, facts, sizes, arrays) for b in design.bindings}
    translator = Translator(source)
    if design.result is not None:
        translator.export(design.result, *arrays[design.result])
    return translator.translate(find_entry(source), arguments, design.result)


def arrays_of(facts: TaskFacts) -> dict[str, tuple[Ty, int]]:
    """Element type and number of elements of each host array."""
    found: dict[str, tuple[Ty, int]] = {}
    for array in (*facts.host.inputs, *facts.host.outputs):
        size = 1
        for extent in array.shape:
            size *= extent
        if array.dtype in _NUMPY:
            found[array.name] = (_NUMPY[array.dtype], size)
    return found


def _argument(b: Binding, facts: TaskFacts, sizes: Mapping[str, int], arrays: Mapping[str, tuple[Ty, int]]) -> Argument:
    match b.kind:
        case BindingKind.TENSOR:
            ty, length = arrays[b.name]
            return BufferArgument(b.name, ty, fold.i32(length))
        case BindingKind.ELEMENT:
            return ElementArgument(b.name, arrays[b.name][0])
        case BindingKind.SIZE:
            if b.name not in {p.name for p in facts.layout.params}:
                return ConstArgument(sizes[b.name], Ty.I32)
            return ParamArgument(b.name, sizes[b.name])
        case BindingKind.ARGUMENT:
            return RuntimeArgument(b.name, Ty(_entry_type(b.name, facts)))
        case BindingKind.IGNORED:
            return IgnoredArgument()


def _entry_type(name: str, facts: TaskFacts) -> str:
    return dict(entry_arguments(facts))[name]


def entry_arguments(facts: TaskFacts) -> tuple[tuple[str, str], ...]:
    """Names and types of the device entry's arguments: named after the input that the host passes."""
    known = facts.host.arguments.get(facts.entry.name, ())
    names = [n if n is not None else f"arg{i}" for i, n in enumerate(known)]
    names += [f"arg{i}" for i in range(len(names), len(facts.entry.args))]
    return tuple(zip(names, facts.entry.args, strict=False))


def place(program: Program, design: Design, exchange: Exchange | None = None, *, traced: bool = False) -> Program:
    """Serialise, and put the arrays where the design says."""
    if design.decomposition is Decomposition.BLOCK_PER_PE:
        program = blocks_to_pes(program, design.width, design.height)
    program = simplify(reroll(program) if traced else serialise(program), split=False)
    layouts = {p.array: Layout(p.symbol, p.shape, p.length, p.x, p.y, p.offset) for p in design.placements}
    if exchange is not None:
        sizes = {s.array: s.size for s in (*(g.shards for g in exchange.gathers), *exchange.results)}
        for array, size in sizes.items():
            layouts[array] = Layout(exchange.private[array][0], (size,), size, None, None, (0, 0 if size == 1 else 1))
    return simplify(place_arrays(program, layouts), split=False)


def plan_exchange(design: Design, facts: TaskFacts, mesh: Mesh | None) -> Exchange | None:
    """Which data PEs bring each other; None where the design doesn't communicate.

    Raises:
        UnsupportedError: The layout can't be evaluated, or an array has no parts of a simple form.
    """
    if design.decomposition is not Decomposition.GATHERED:
        return None
    if mesh is None:
        raise UnsupportedError("the layout can't be evaluated for these sizes")
    outputs = {a.name for a in facts.host.outputs}
    inputs = {a.name for a in facts.host.inputs}
    arrays = arrays_of(facts)
    parts: dict[str, Shards] = {}
    for p in design.placements:
        if p.x is None:
            continue
        found = shards(p, (mesh.width, mesh.height))
        if found is None:
            raise UnsupportedError(
                f"the host script spreads {p.array} over the PEs in a way that isn't one part for each"
            )
        parts[p.array] = found
    results = [s for n, s in parts.items() if n in outputs]
    wanted = tuple(_owners(results, axis) for axis in (0, 1))
    means = ways(mesh)
    return Exchange(
        mesh=(mesh.width, mesh.height),
        gathers=tuple(plan_gather(s, mesh, means, (wanted[0], wanted[1])) for n, s in parts.items() if n in inputs),
        results=tuple(results),
        private={n: (f"all of {n}", arrays[n][0]) for n in parts},
        tasks=mesh.tasks,
    )


def _owners(results: Sequence[Shards], axis: int) -> int:
    """The place along an axis of the PEs that own results, or EVERYWHERE."""
    places = {EVERYWHERE if s.steps[axis] is not None else s.at[axis] for s in results}
    return places.pop() if len(places) == 1 else EVERYWHERE


def module_shape(facts: TaskFacts, design: Design, types: Mapping[str, str]) -> ModuleShape:
    """The fixed parts of the compute file; `types`: those of its parameters that an evaluation of the layout shows."""
    lengths = {p.symbol: p.length for p in design.placements}
    exports: list[Export] = []
    for tensor in facts.layout.tensors:
        if tensor.name in facts.window.exports:
            continue
        if tensor.name not in lengths:
            raise UnsupportedError(f"the length of exported tensor {tensor.name} is not known")
        exports.append(Export(tensor.name, Ty(tensor.element), tensor.mutable, lengths[tensor.name]))
    return ModuleShape(
        params=tuple(ParamDeclaration(p.name, p.type or types.get(p.name)) for p in facts.layout.params),
        memcpy_param=facts.layout.memcpy_param,
        exports=tuple(exports),
        entry=facts.entry.name,
        entry_args=entry_arguments(facts),
        window_file=facts.window.file,
        window_unblock=facts.window.unblock,
        window_start=facts.window.start,
        window_end=facts.window.end,
    )
