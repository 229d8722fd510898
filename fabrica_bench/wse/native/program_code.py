"""The code of a whole program: functions that several images share are translated and compiled once.

Images of one file with other parameters differ in few functions. Two functions are the same code if their IR is the
same but for source locations, what the translation looks at in their image agrees, and they call the same code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from fabrica_bench.csl import ir
from fabrica_bench.wse.code_cost import inlined_functions
from fabrica_bench.wse.costs import CostTable
from fabrica_bench.wse.intrinsics import INTRINSIC_TABLE
from fabrica_bench.wse.native.codegen import FunctionCode
from fabrica_bench.wse.native.kernel_language import StructLayout
from fabrica_bench.wse.native.sites import SiteTable
from fabrica_bench.wse.regions import find_regions

_LOCATION = re.compile(r"loc=\d+,? ?")
_TOKEN = re.compile(r"@<([fs])(\d+)>")
#: IR whose translation depends on more of the image than the function itself and its callees
_PRIVATE = ("FnAddr", "CallIndirect", "MapOp", "symbol_value", "tensor_ptr", "fifo")


class _Summary(NamedTuple):
    """What is known of a function from its IR alone. `may_be_simple`: if all callees are simple, it is."""

    key: str
    callees: tuple[str, ...]
    may_be_simple: bool
    is_private: bool


@dataclass
class _Body:
    """Text of a function with stand-ins for the names of `callees` (the first is the function itself)."""

    text: str
    callees: list[str]
    declared: set[str]


@dataclass
class ImageContext:
    """What the translation of a function looks at in its image."""

    image: ir.Image
    program: ir.Program
    costs: CostTable
    structs: dict[str, StructLayout]
    sites: SiteTable
    names: list[str] = field(init=False)
    index: dict[str, int] = field(init=False)
    inlined: frozenset[str] = field(init=False)
    simple: set[str] = field(default_factory=set)
    frame_words: dict[str, int] = field(init=False)
    bodies: dict[str, _Body] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pe = self.structs["Pe"]
        self.names = list(self.image.functions)
        self.index = {name: number for number, name in enumerate(self.names)}
        self.inlined = inlined_functions(self.image, self.costs)
        self.frame_words = {name: FunctionCode.measure(fn) for name, fn in self.image.functions.items()}

    def symbol(self, name: str) -> str:
        """LLVM name of a function's form with a frame."""
        return f"f{self.classes[name]}"


class ProgramCode:
    """Translates all images. `images`: their contexts, in order."""

    def __init__(self, program: ir.Program, costs: CostTable, structs: dict[str, StructLayout]) -> None:
        self.sites = SiteTable(costs, program.fp16, structs)
        self._summaries: dict[str, _Summary] = {}
        self._bodies: dict[tuple[object, ...], _Body] = {}
        self.images = [ImageContext(image, program, costs, structs, self.sites) for image in program.images]
        for number, context in enumerate(self.images):
            self._translate(context, number)
        self._classify()

    def text(self) -> str:
        """LLVM module: each class of functions once."""
        parts: dict[int, str] = {}
        declared: set[str] = set()
        for context in self.images:
            for name, number in context.classes.items():
                if number not in parts:
                    body = context.bodies[name]
                    targets = [context.classes[callee] for callee in body.callees]
                    parts[number] = _TOKEN.sub(lambda m, t=targets: f"@{m[1]}{t[int(m[2])]}", body.text)  # type: ignore[misc]
                    declared |= body.declared
        weights = '!0 = !{!"branch_weights", i32 1, i32 2000}'
        return "\n".join([*sorted(declared), *parts.values(), self.sites.text(), weights])

    # ------------------------------------------------------------------------------------------ one image

    def _translate(self, context: ImageContext, number: int) -> None:
        functions = context.image.functions
        summaries = {name: self._summary(fn) for name, fn in functions.items()}
        context.simple = _simple_functions(summaries)
        for name, fn in functions.items():
            summary = summaries[name]
            surroundings = tuple(
                (callee, callee in context.simple, callee in context.inlined, _interface(functions.get(callee)))
                for callee in (name, *summary.callees)
            )
            key = (summary.key, surroundings, number if summary.is_private else -1)
            body = self._bodies.get(key)
            if body is None:
                code = FunctionCode(context, fn)
                text = code.generate()
                body = self._bodies[key] = _Body(text, code.callees, code.declared)
            context.bodies[name] = body

    def _summary(self, fn: ir.Function) -> _Summary:
        content = (fn.kind, fn.param_count, fn.result, fn.registers, fn.blocks, fn.frame_size)
        key = _LOCATION.sub("", repr(content))
        summary = self._summaries.get(key)
        if summary is None:
            calls = [instr.fn for block in fn.blocks for instr in block if isinstance(instr, ir.Call)]
            private = any(word in key for word in _PRIVATE)
            summary = _Summary(key, tuple(dict.fromkeys(calls)), _may_be_simple(fn), private)
            self._summaries[key] = summary
        return summary

    # ------------------------------------------------------------------------------------------ all images

    def _classify(self) -> None:
        """Number the functions so that equal numbers mean equal code, callees included."""
        identity: dict[int, int] = {}
        for context in self.images:
            context.classes = {
                name: identity.setdefault(id(body), len(identity)) for name, body in context.bodies.items()
            }
        count = len(identity)
        while True:
            numbers: dict[tuple[int, ...], int] = {}
            fresh = []
            for context in self.images:
                old = context.classes
                fresh.append(
                    {
                        name: numbers.setdefault(
                            (identity[id(body)], *(old[callee] for callee in body.callees)), len(numbers)
                        )
                        for name, body in context.bodies.items()
                    }
                )
            for context, classes in zip(self.images, fresh, strict=True):
                context.classes = classes
            if len(numbers) == count:
                return
            count = len(numbers)


def _interface(fn: ir.Function | None) -> object:
    """What a caller needs to know."""
    if fn is None:
        return None
    types = tuple(fn.registers[: fn.param_count])
    return types, fn.result, FunctionCode.measure(fn)


def _may_be_simple(fn: ir.Function) -> bool:
    """As `Unit._looks_simple`."""
    if find_regions(fn.blocks).has_loop:
        return False
    for block in fn.blocks:
        for instr in block:
            if isinstance(instr, ir.DsdOp | ir.MapOp | ir.CallIndirect):
                return False
            if isinstance(instr, ir.Intrinsic):
                entry = INTRINSIC_TABLE.get(instr.name)
                if entry is not None and entry.synchronizes:
                    return False
    return True


def _simple_functions(summaries: dict[str, _Summary]) -> set[str]:
    """Functions that never suspend: the least set, so that recursive ones are not in it (as `Unit._find_simple`)."""
    simple: set[str] = set()
    changed = True
    while changed:
        changed = False
        for name, summary in summaries.items():
            if name not in simple and summary.may_be_simple and all(callee in simple for callee in summary.callees):
                simple.add(name)
                changed = True
    return simple
