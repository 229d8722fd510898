"""`@map`: call a function per element (Cerebras SDK docs, "Builtins for DSD operations").

For each element the inputs are read in order, then the function runs, then its result is written. The loop ends when an
operand has no elements left; values already read for that element are dropped.
"""

from __future__ import annotations

from collections.abc import Generator
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ir
from fabrica_bench.wse import cursors, numeric
from fabrica_bench.wse.code_cost import return_cost
from fabrica_bench.wse.costs import CostTable
from fabrica_bench.wse.dsd import Operand
from fabrica_bench.wse.endpoints import FabricIn, FabricOut, MemoryEnd

if TYPE_CHECKING:
    from fabrica_bench.wse.pe import ProcessingElement

_End = tuple[Any, int, ir.ScalarType]  # end, length, element type


class MapSite:
    """An `@map` at one place of the program."""

    def __init__(self, image: ir.Image, half: str, costs: CostTable, instr: ir.MapOp) -> None:
        self.instr = instr
        self.function = image.functions[instr.fn]
        self.element_cost = costs["dsd.map_element"]
        self.setup_cost = costs["dsd.map_setup"]
        self.return_cost = return_cost(self.function, False, costs)

    def dynamic_operands(self) -> list[ir.Operand]:
        """Run-time operands in the order in which `run` takes their values."""
        args = [*self.instr.inputs, *([self.instr.output] if self.instr.output is not None else [])]
        return [arg.value for arg in args if arg.kind in ("dsd", "scalar", "pointer")]  # type: ignore[misc]

    def run(self, pe: ProcessingElement, *values: Any) -> Generator[None, None, None]:
        """The whole loop; `pe.t` advances."""
        pe.loc = self.instr.loc
        feed = iter(values)
        pe.t += self.setup_cost
        inputs = [self._input(pe, arg, i, feed) for i, arg in enumerate(self.instr.inputs)]
        output = self._output(pe, self.instr.output, feed)
        streams = [part for part in inputs if isinstance(part, list)]
        left = [part[1] for part in streams]
        room = output[1] if output is not None and output[1] >= 0 else -1
        function = pe.code.function(self.instr.fn)
        moved = 0
        while all(left) and room != 0:
            args: list[int | float] = []
            for part in inputs:
                if not isinstance(part, list):
                    args.append(part)
                    continue
                yield from _await(pe, part[0])
                args.append(numeric.from_bits(part[0].get(pe.fabric.now), part[2]))
            left = [count - 1 for count in left]
            result = function(pe, *args)
            if isinstance(result, GeneratorType):
                result = yield from result
            # The body is inlined by the compiler: no call and return around it.
            pe.t += self.element_cost - self.return_cost
            if output is not None:
                yield from _await(pe, output[0])
                room -= 1
                output[0].put(numeric.to_bits(result, output[2]), pe.fabric.now, room == 0)
            moved += 1
            if pe.t > pe.limit:
                yield
        self._finish(pe, moved)

    def _finish(self, pe: ProcessingElement, moved: int) -> None:
        for arg in (*self.instr.inputs, self.instr.output):
            if arg is not None and arg.kind == "dsr":
                dsr = pe.dsr(arg.value)  # type: ignore[arg-type]
                if dsr.dsd.kind in cursors.MEMORY_KINDS:
                    dsr.finish(moved, 2)

    def _input(self, pe: ProcessingElement, arg: ir.DsdArg, position: int, feed: Any) -> Any:
        if arg.kind in ("scalar", "pointer"):
            return next(feed)
        type_ = self.function.registers[position]
        dsd = pe.dsr(arg.value).dsd if arg.kind == "dsr" else next(feed)  # type: ignore[arg-type]
        if dsd.kind == "fabin":
            return [FabricIn(pe, pe.input_of(dsd), dsd, type_.size), dsd.extents[0], type_]
        operand = _operand(dsd, type_.size)
        return [MemoryEnd(pe, operand, operand.length), operand.length, type_]

    def _output(self, pe: ProcessingElement, arg: ir.DsdArg | None, feed: Any) -> Any:
        if arg is None or self.function.result is None:
            return None
        type_ = self.function.result
        if arg.kind == "pointer":
            operand = Operand("memory", type_.size)
            operand.base = next(feed)
            return [MemoryEnd(pe, operand, 1), -1, type_]
        dsd = pe.dsr(arg.value).dsd if arg.kind == "dsr" else next(feed)  # type: ignore[arg-type]
        if dsd.kind == "fabout":
            channel, color = pe.output_of(dsd)
            return [FabricOut(pe, channel, color, dsd, type_.size, 0), dsd.extents[0], type_]
        operand = _operand(dsd, type_.size)
        return [MemoryEnd(pe, operand, operand.length), operand.length, type_]


def _operand(dsd: ir.Dsd, size: int) -> Operand:
    operand = Operand("memory", size)
    operand.dsd = dsd
    operand.length = cursors.length(dsd)
    operand.base = dsd.base  # type: ignore[assignment]
    operand.linear = dsd.kind == "mem1d"
    operand.step = size * dsd.strides[0]
    return operand


def _await(pe: ProcessingElement, end: Any) -> Generator[None, None, None]:
    """Give control back until a fabric end is ready; memory always is."""
    if not end.gate:
        return
    if pe.t > pe.fabric.now:
        yield
    if not end.ready(pe.fabric.now):
        pe.poll(end)
        yield
