"""Stage 2: design D. Mesh, placement of data, and what each launcher parameter corresponds to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fabrica_agent.records import (
    Binding,
    BindingKind,
    Decomposition,
    Design,
    LaunchParameter,
    Placement,
    SourceAnalysis,
    TaskFacts,
)  # fmt: skip
from fabrica_bench.plugins import AgentGaveUp

_BYTES = {"f32": 4, "i32": 4, "u32": 4, "f16": 2, "i16": 2, "u16": 2, "i8": 1, "u8": 1}
_DECORATIONS = ("d_", "dev_", "h_", "g_", "in_", "out_", "p_")
_SUFFIXES = ("_d", "_dev", "_device", "_ptr", "_gpu", "_in", "_out")


def design(analysis: SourceAnalysis, facts: TaskFacts, sizes: dict[str, int]) -> Design:
    """Decide how the program goes onto the mesh.

    Raises:
        AgentGaveUp: A launcher parameter has no counterpart, the mesh is unknown, or the data don't fit.
    """
    layout = facts.layout
    if layout.width is None or layout.height is None:
        raise AgentGaveUp(["the size of the PE rectangle isn't constant for the given sizes"])
    placements = _placements(facts)
    bindings, result = bind(analysis, facts, sizes, placements)
    mesh = layout.width * layout.height
    decomposition = Decomposition.SINGLE_PE if mesh == 1 else Decomposition.BLOCK_PER_PE
    if mesh > 1 and all(p.x is None and p.y is None for p in placements):
        decomposition = Decomposition.REPLICATED
    data = sum(p.length * _BYTES.get(_element(facts, p.symbol), 4) for p in _by_symbol(placements).values())
    result_design = Design(
        width=layout.width,
        height=layout.height,
        decomposition=decomposition,
        bindings=bindings,
        result=result,
        placements=placements,
        data_bytes=data,
        notes=("the layout routes colors; this design doesn't communicate",) if layout.routed else (),
    )
    if data > result_design.limit_bytes:
        raise AgentGaveUp([f"the exported arrays take {data} bytes on a PE, which has {result_design.limit_bytes}"])
    return result_design


def alternatives(chosen: Design) -> tuple[Design, ...]:
    """Designs in the order in which to try them: without communication where that is enough, else with it."""
    if chosen.decomposition is not Decomposition.BLOCK_PER_PE:
        return (chosen,)
    return chosen, chosen.model_copy(update={"decomposition": Decomposition.GATHERED, "notes": ()})


def _by_symbol(placements: Sequence[Placement]) -> dict[str, Placement]:
    return {p.symbol: p for p in placements}


def _element(facts: TaskFacts, symbol: str) -> str:
    return next((t.element for t in facts.layout.tensors if t.name == symbol), "f32")


def _placements(facts: TaskFacts) -> tuple[Placement, ...]:
    """Observed placements; a tensor without one counts as the array of the same name, element by element."""
    known = {p.array: p for p in facts.host.placements}
    arrays = {a.name: a for a in (*facts.host.inputs, *facts.host.outputs)}
    for tensor in facts.layout.tensors:
        if tensor.name in facts.window.exports or tensor.name in {p.symbol for p in known.values()}:
            continue
        array = arrays.get(tensor.name)
        if array is None or tensor.name in known:
            continue
        raise AgentGaveUp([f"the host script spreads {tensor.name} over the PEs in a way that isn't regular"])
    return tuple(known.values())


def bind(
    analysis: SourceAnalysis, facts: TaskFacts, sizes: dict[str, int], placements: Sequence[Placement]
) -> tuple[tuple[Binding, ...], str | None]:
    """Find the counterpart of each launcher parameter, by name first and by elimination for the rest.

    Raises:
        AgentGaveUp: Names what is left without a counterpart.
    """
    outputs = {a.name for a in facts.host.outputs}
    arguments = [a for a in facts.host.arguments.get(facts.entry.name, ()) if a is not None]
    pools: dict[BindingKind, list[str]] = {
        BindingKind.TENSOR: [p.array for p in placements],
        BindingKind.ARGUMENT: list(dict.fromkeys(arguments)) or [f"arg{i}" for i in range(len(facts.entry.args))],
        BindingKind.SIZE: list(sizes),
    }
    scalars = [p.array for p in placements if p.length == 1 and p.array not in outputs]
    bound: dict[str, Binding] = {}
    for normalise in (str, str.lower, _bare):
        for p in analysis.parameters:
            if p.name not in bound:
                _bind_by_name(p, normalise, pools, scalars, bound)
    _bind_rest(analysis, pools, outputs, bound)
    missing = [p.name for p in analysis.parameters if p.name not in bound]
    if missing:
        offered = ", ".join(n for names in pools.values() for n in names)
        raise AgentGaveUp(
            [f"nothing visible corresponds to launcher parameter {n} (there are: {offered})" for n in missing]
        )
    taken = {b.name for b in bound.values() if b.kind is BindingKind.TENSOR}
    result = None
    if analysis.returns_value:
        free = [n for n in pools[BindingKind.TENSOR] if n in outputs and n not in taken]
        if len(free) != 1:
            raise AgentGaveUp(["the launcher returns a value, but no single output array is left to take it"])
        result = free[0]
    return tuple(bound[p.name] for p in analysis.parameters), result


def _bare(name: str) -> str:
    name = name.lower()
    for prefix in _DECORATIONS:
        name = name.removeprefix(prefix)
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name.replace("_", "")


def _bind_by_name(
    p: LaunchParameter,
    normalise: Callable[[str], str],
    pools: dict[BindingKind, list[str]],
    scalars: Sequence[str],
    bound: dict[str, Binding],
) -> None:
    wanted = normalise(p.name)
    if _is_opaque(p):
        bound[p.name] = Binding(parameter=p.name, kind=BindingKind.IGNORED, name="")
        return
    kinds = (BindingKind.TENSOR,) if p.pointer else (BindingKind.ARGUMENT, BindingKind.SIZE)
    for kind in kinds:
        match = next((n for n in pools[kind] if normalise(n) == wanted), None)
        if match is not None:
            bound[p.name] = Binding(parameter=p.name, kind=kind, name=match)
            return
    if not p.pointer:
        match = next((n for n in scalars if normalise(n) == wanted), None)
        if match is not None:
            bound[p.name] = Binding(parameter=p.name, kind=BindingKind.ELEMENT, name=match)


def _is_opaque(p: LaunchParameter) -> bool:
    return (not p.pointer and ("cudaStream" in p.type or "cudaEvent" in p.type)) or "CUstream" in p.type


def _bind_rest(
    analysis: SourceAnalysis, pools: dict[BindingKind, list[str]], outputs: set[str], bound: dict[str, Binding]
) -> None:
    """What names don't tell: constant pointers are inputs, others outputs; a single one left on both sides matches."""
    taken = {b.name for b in bound.values()}
    free_tensors = [n for n in pools[BindingKind.TENSOR] if n not in taken]
    for constant in (True, False):
        rest = [p for p in analysis.parameters if p.name not in bound and p.pointer and p.constant is constant]
        free = [n for n in free_tensors if (n in outputs) is not constant]
        if rest and len(rest) == len(free):
            for p, name in zip(rest, free, strict=True):
                bound[p.name] = Binding(parameter=p.name, kind=BindingKind.TENSOR, name=name)
    for floating, kind in ((True, BindingKind.ARGUMENT), (False, BindingKind.SIZE), (False, BindingKind.ARGUMENT)):
        rest = [
            p for p in analysis.parameters
            if p.name not in bound and not p.pointer and ("float" in p.type or "double" in p.type) is floating
        ]  # fmt: skip
        free = [n for n in pools[kind] if n not in {b.name for b in bound.values()}]
        if len(rest) == 1 and len(free) == 1:
            bound[rest[0].name] = Binding(parameter=rest[0].name, kind=kind, name=free[0])
