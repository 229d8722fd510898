"""Where PEs are in their programs, read from the frames of their main threads, for a run that is cut short."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from fabrica_bench.csl import ir
from fabrica_bench.wse.deadlock import grouped, in_task
from fabrica_bench.wse.faults import PePosition, SourceLocation
from fabrica_bench.wse.native.codegen import FunctionCode
from fabrica_bench.wse.native.loading import LoadedImage, LoadedProgram
from fabrica_bench.wse.native.program_code import ImageContext
from fabrica_bench.wse.pe import State

_HEADER = ctypes.c_int64 * 3  # of a frame: function, resume, previous; see `kernel/state.py`


def busy(state: LoadedProgram) -> list[str]:
    """What PEs are doing that still run; as `wse.deadlock.busy`."""
    return grouped(_activities(state))


def _activities(state: LoadedProgram) -> Iterator[tuple[PePosition, str]]:
    readers = {loaded.number: _FrameReader(state, loaded) for loaded in state.images}
    width = state.program.width
    for index in (state.pes["state"] != State.IDLE).nonzero()[0].tolist():
        position = PePosition(index % width, index // width)
        reader = readers[int(state.tiles[index])]
        yield position, reader.activity(int(state.pes["began"][index]), int(state.pes["frame"][index]))


class _FrameReader:
    """Finds source places for suspended functions of one image."""

    def __init__(self, state: LoadedProgram, loaded: LoadedImage) -> None:
        self._lines = state.program.source_lines
        self._image = loaded.image
        self._context: ImageContext = state.contexts[loaded.number]
        self._by_address: dict[int, str] = {}
        for name, number in loaded.functions.items():
            self._by_address.setdefault(int(loaded.table["address"][number]), name)
        self._stops: dict[str, list[ir.Instr]] = {}
        self._known: dict[tuple[int, ...], str] = {}

    def activity(self, began: int, frame: int) -> str:
        """Words for what a main thread does. `began`: number of the function that it began with; `frame`: address of
        its innermost frame."""
        chain: list[tuple[int, int]] = []
        while frame:
            function, resume, frame = _HEADER.from_address(frame)
            chain.append((function, resume))
        key = (began, *(word for pair in chain for word in pair))
        if key not in self._known:
            name = self._context.names[began]
            location = self._location(name, chain[::-1])
            text = self._lines.get(location.file, {}).get(location.line, "")
            self._known[key] = in_task(name, location, text)
        return self._known[key]

    def _location(self, name: str, chain: list[tuple[int, int]]) -> SourceLocation:
        """The innermost place that is not in a library. `chain`: address and resume number of each function, the
        outermost first, whose name is given; the name of a callee is in the call."""
        found = SourceLocation(self._image.file)
        callee: str | None = name
        for address, resume in chain:
            # A function that is called through a pointer may share its code with others.
            fn = self._image.functions[callee if callee is not None else self._by_address[address]]
            instr = self._stop(fn, resume)
            callee = instr.fn if isinstance(instr, ir.Call | ir.MapOp) else None
            if 0 < instr.loc < len(self._image.locations):
                place = SourceLocation(*self._image.locations[instr.loc])
                if not found.line or not place.file.startswith("<"):
                    found = place
        return found

    def _stop(self, fn: ir.Function, resume: int) -> ir.Instr:
        """The instruction at which a function gave control back, or its first one."""
        if fn.name not in self._stops:
            code = FunctionCode(self._context, fn)
            code.generate()
            self._stops[fn.name] = [fn.blocks[block][at] for block, at in code.stops]
        stops = self._stops[fn.name]
        return stops[resume - 1] if 0 < resume <= len(stops) else fn.blocks[0][0]
