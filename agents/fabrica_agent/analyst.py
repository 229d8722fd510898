"""Stage 1: source analysis G, from the syntax tree of the CUDA file."""

from __future__ import annotations

from typing import Any

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.source import CudaSource, Cursor
from fabrica_agent.cuda.translator import parameters
from fabrica_agent.cuda.types import ctype
from fabrica_agent.cuda.values import PointerType, ScalarType
from fabrica_agent.lowering.ir import UnsupportedError
from fabrica_agent.records import Idiom, KernelFact, LaunchParameter, SourceAnalysis

_ALLOCATORS = ("cudaMalloc", "cudaMallocAsync", "cudaMallocManaged")


def analyse(source: CudaSource) -> SourceAnalysis:
    """Describe a CUDA source.

    Raises:
        UnsupportedError: No host function launches a kernel.
    """
    entry = find_entry(source)
    launched = [
        c.spelling for f in source.functions for c in cu.subtree(f) if c.kind.name == "CALL_EXPR" and cu.is_launch(c)
    ]
    return SourceAnalysis(
        entry=entry.spelling,
        parameters=tuple(_parameter(p) for p in parameters(entry)),
        returns_value=_returns_float(entry),
        kernels=tuple(_kernel(source, f) for f in source.functions if cu.is_kernel(f)),
        launches=tuple(launched),
        allocations=tuple(_allocations(source)),
    )


def find_entry(source: CudaSource) -> Cursor:
    """The host function that starts the work.

    Of the host functions that launch kernels, directly or through others, the one that no other of them calls;
    `extern "C"` functions come first, `main` last.

    Raises:
        UnsupportedError: There is none.
    """
    hosts = [f for f in source.functions if not cu.is_kernel(f)]
    reached = {f.hash: _reached(f, set()) for f in hosts}
    candidates = [f for f in hosts if any(_launches(g) for g in (f, *reached[f.hash]))]
    called = {g.hash for f in candidates for g in reached[f.hash]}
    top = [f for f in candidates if f.hash not in called] or candidates
    if not top:
        raise UnsupportedError(
            'no host function launches a kernel, so grid, block and arguments are unknown; add an `extern "C"` launcher'
        )
    return min(top, key=lambda f: (f.spelling == "main", not _extern_c(f), f.location.line))


def _launches(function: Cursor) -> bool:
    return any(c.kind.name == "CALL_EXPR" and cu.is_launch(c) for c in cu.subtree(function))


def _reached(function: Cursor, seen: set[int]) -> list[Cursor]:
    """Functions and methods that a function calls, directly or not, template instances included."""
    found: list[Cursor] = []
    for c in cu.subtree(function):
        if c.kind.name != "CALL_EXPR" or c.referenced is None:
            continue
        callee = c.referenced.get_definition() or c.referenced
        if callee.hash not in seen and callee.kind.name in ("FUNCTION_DECL", "CXX_METHOD", "CONSTRUCTOR"):
            seen.add(callee.hash)
            found += [callee, *_reached(callee, seen)]
    return found


def _extern_c(function: Cursor) -> bool:
    parent = function.semantic_parent
    lexical = function.lexical_parent
    return "LINKAGE_SPEC" in (parent.kind.name, lexical.kind.name) or function.mangled_name == function.spelling


def _parameter(parameter: Cursor) -> LaunchParameter:
    t = ctype(parameter.type)
    pointee: Any = parameter.type.get_canonical().get_pointee()
    return LaunchParameter(
        name=parameter.spelling,
        type=parameter.type.spelling,
        pointer=isinstance(t, PointerType),
        constant=isinstance(t, PointerType) and bool(pointee.is_const_qualified()),
    )


def _returns_float(function: Cursor) -> bool:
    t = ctype(function.result_type)
    return isinstance(t, ScalarType) and t.ty.is_float


def _kernel(source: CudaSource, kernel: Cursor) -> KernelFact:
    return KernelFact(
        name=kernel.spelling,
        line=source.place(kernel).line,
        parameters=tuple(p.spelling for p in parameters(kernel)),
        idioms=tuple(sorted(_idioms(kernel))),
    )


def _idioms(kernel: Cursor) -> set[Idiom]:
    found: set[Idiom] = set()
    for c in cu.subtree(kernel):
        kind, name = c.kind.name, c.spelling
        if kind == "VAR_DECL" and cu.has_attribute(c, "CUDASHARED"):
            found.add(Idiom.SHARED_MEMORY)
            if c.storage_class.name == "EXTERN":
                found.add(Idiom.DYNAMIC_SHARED)
        elif kind == "CALL_EXPR":
            found |= _call_idioms(name)
        elif kind == "RETURN_STMT":
            found.add(Idiom.EARLY_EXIT)
        elif kind == "CXX_REINTERPRET_CAST_EXPR" and "4" in c.type.spelling:
            found.add(Idiom.VECTOR_LOAD)
        elif kind == "FOR_STMT" and _is_grid_stride(c):
            found.add(Idiom.GRID_STRIDE)
    return found


def _call_idioms(name: str) -> set[Idiom]:
    if name.startswith("__syncthreads"):
        return {Idiom.BARRIER}
    if name.startswith("__shfl"):
        return {Idiom.WARP_SHUFFLE}
    if name in ("__ballot_sync", "__any_sync", "__all_sync"):
        return {Idiom.WARP_VOTE}
    if name.startswith("atomic"):
        return {Idiom.ATOMIC}
    if name.rstrip("f").lstrip("_") in ("exp", "log", "sqrt", "tanh", "sin", "cos", "pow", "erf", "rsqrt"):
        return {Idiom.MATH_FUNCTION}
    return set()


def _is_grid_stride(loop: Cursor) -> bool:
    header = [k for k in cu.kids(loop)[:-1]]
    names = {c.spelling for part in header for c in cu.subtree(part)}
    return "blockIdx" in names or "gridDim" in names


def _allocations(source: CudaSource) -> list[str]:
    found = []
    for f in source.functions:
        for c in cu.subtree(f):
            if c.kind.name == "CALL_EXPR" and c.spelling in _ALLOCATORS:
                names = [
                    k.spelling
                    for k in cu.subtree(c)
                    if k.kind.name == "DECL_REF_EXPR" and k.spelling not in _ALLOCATORS
                ]
                found.extend(names[:1])
    return found
