"""DSD operations: resolve operands, decide the length, run memory operations at once, hand the others to the fabric.

A memory-only operation is synchronous and nobody can interrupt it, so it runs in bulk with NumPy. Where an element may
depend on an earlier one (reductions, overlapping operands) it runs element by element; both ways give the result of
doing the elements in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fabrica_bench.csl import ir
from fabrica_bench.wse import cursors, elementwise, numeric
from fabrica_bench.wse.costs import CostTable
from fabrica_bench.wse.dsd_cost import DsdCosts
from fabrica_bench.wse.intrinsics import Unsupported
from fabrica_bench.wse.microthread import FabricOp

if TYPE_CHECKING:
    from fabrica_bench.wse.pe import ProcessingElement
    from fabrica_bench.wse.registers import Dsr

_BULK_THRESHOLD = 6  # below this many elements NumPy's overhead is larger than the loop's
#: Elements of one operation that are handled; four extents of 16 bits could ask for 2**64.
MAX_ELEMENTS = 1 << 20


class Operand:
    """One resolved operand. Kinds: memory | fabin | fabout | scalar (`bits`) | pointer | fifo."""

    __slots__ = ("base", "bits", "dsd", "dsr", "fifo", "kind", "length", "linear", "size", "step")

    def __init__(self, kind: str, size: int) -> None:
        self.kind = kind
        self.size = size
        self.base = 0
        self.step = 0
        self.length = 0
        self.linear = True
        self.bits = 0
        self.dsd: ir.Dsd | None = None
        self.dsr: Dsr | None = None
        self.fifo = -1

    def addresses(self, count: int) -> cursors.Addresses:
        """Byte addresses of `count` elements of a memory operand."""
        if self.linear:
            return self.base + self.step * np.arange(count, dtype=np.int64)
        assert self.dsd is not None
        return cursors.addresses(self.dsd._replace(base=self.base), count, self.size)


class DsdSite:
    """A DSD operation at one place of the program. Calling it with the values of its run-time operands executes a
    memory operation, or leaves a `FabricOp` in `pe.pending`; True means that the thread must give control back."""

    def __init__(self, image: ir.Image, half: str, costs: CostTable, instr: ir.DsdOp) -> None:
        self.instr = instr
        self.name = instr.op
        self.costs = DsdCosts(costs, instr.op)
        if instr.op in elementwise.UNDEFINED_OPS:
            raise Unsupported(f"@{instr.op}: its exact result is not documented")
        self.op = elementwise.OPS.get(instr.op)
        if self.op is None and instr.op != "dfilt":
            raise Unsupported(f"DSD operation @{instr.op}")
        self.half = half
        self.function: Callable[..., int] = _ignore
        if self.op is not None:
            self.function = elementwise.element_function(self.op, half)
        self.dest_size = elementwise.SIZES[self.op.dest] if self.op is not None else 4
        self.source_types = self._source_types()
        self.source_sizes = tuple(elementwise.SIZES[type_] for type_ in self.source_types)
        self.is_reduction = (
            instr.dest is not None
            and instr.dest.kind == "pointer"
            and len(instr.sources) == 2
            and instr.sources[0].kind == "scalar"
        )

    def _source_types(self) -> tuple[elementwise.ElementType, ...]:
        if self.op is None:
            return ("u32",)
        types = self.op.sources
        if self.name == "faddhs" and len(self.instr.sources) == 2:
            first, second = self.instr.sources
            halves = [arg.kind == "scalar" and arg.type is not None and arg.type.bits == 16 for arg in (first, second)]
            if halves[0] and not halves[1]:
                return ("h", "s")
        return types[: len(self.instr.sources)]

    def dynamic_operands(self) -> list[ir.Operand]:
        """Run-time operands in the order in which `__call__` takes their values."""
        found: list[ir.Operand] = []
        for arg in (self.instr.dest, *self.instr.sources):
            if arg is not None and arg.kind in ("dsd", "scalar", "pointer"):
                found.append(arg.value)  # type: ignore[arg-type]
        config = self.instr.config
        for wake in (config.on_done, config.on_control):
            if wake is not None:
                found.append(wake.id)
        if config.index is not None:
            found.append(config.index)
        return found

    # ------------------------------------------------------------------------------------------ resolution

    def __call__(self, pe: ProcessingElement, *values: Any) -> bool:
        pe.loc = self.instr.loc
        feed = iter(values)
        arg = self.instr.dest
        dest = self._resolve(pe, arg, self.dest_size, None, feed) if arg is not None else None
        sources = [
            self._resolve(pe, arg, size, type_, feed)
            for arg, size, type_ in zip(self.instr.sources, self.source_sizes, self.source_types, strict=True)
        ]
        config = self.instr.config
        done = next(feed) if config.on_done is not None else 0
        on_control = next(feed) if config.on_control is not None else 0
        index = int(next(feed)) if config.index is not None else 0
        count = self.iterations(dest, sources)
        if count > MAX_ELEMENTS:
            raise pe.fault(f"@{self.name} has {count} elements: more than {MAX_ELEMENTS} are not simulated", {})
        operands = sources if dest is None else [dest, *sources]
        for operand in operands:
            if operand.kind == "memory" and operand.dsd is not None and operand.dsd.wavelet_index_offset:
                operand.base += 2 * index
        if any(operand.kind in ("fabin", "fabout", "fifo") for operand in operands):
            pe.pending = FabricOp(pe, self, dest, sources, count, (config, done, on_control, index))
            return True
        assert dest is not None
        start = pe.t
        pe.t += self.costs.memory(dest, sources, count)
        if count:
            self._run_memory(pe, dest, sources, count)
        pe.result = 1
        if config.on_done is not None:
            pe.wake(config.on_done, done, pe.t)
        if pe.fabric.trace is not None:
            pe.fabric.trace.dsd_start(start, pe.x, pe.y, self.name, count, -1, self.instr.loc)
            pe.fabric.trace.dsd_end(pe.t, pe.x, pe.y, self.name, -1)
            lost = self.costs.conflict_cycles(dest, sources, count)
            if lost:
                pe.fabric.trace.stall(pe.t, pe.x, pe.y, "bank", "memory bank", -1, self.instr.loc, lost)
        return pe.t > pe.limit

    def _resolve(
        self, pe: ProcessingElement, arg: ir.DsdArg, size: int, type_: elementwise.ElementType | None, feed: Any
    ) -> Operand:
        if arg.kind == "scalar":
            operand = Operand("scalar", size)
            operand.bits = self._scalar_bits(next(feed), arg, type_)
            return operand
        if arg.kind == "pointer":
            operand = Operand("pointer", size)
            operand.base = next(feed)
            return operand
        if arg.kind == "fifo":
            operand = Operand("fifo", size)
            operand.fifo = int(arg.value)  # type: ignore[arg-type]
            fifo = pe.fifos[operand.fifo]
            operand.length = fifo.write_length if type_ is None else fifo.read_length
            return operand
        if arg.kind == "dsr":
            dsr = pe.dsr(arg.value)  # type: ignore[arg-type]
            operand = self._of_dsd(dsr.dsd, size)
            operand.dsr = dsr
            return operand
        return self._of_dsd(next(feed), size)

    def _of_dsd(self, dsd: ir.Dsd, size: int) -> Operand:
        kind = dsd.kind
        operand = Operand(kind if kind in ("fabin", "fabout") else "memory", size)
        operand.dsd = dsd
        operand.length = cursors.length(dsd)
        if operand.kind == "memory":
            operand.base = dsd.base  # type: ignore[assignment]
            if kind == "mem1d":
                operand.step = size * dsd.strides[0]
            else:
                operand.linear = False
        return operand

    def _scalar_bits(self, value: int | float, arg: ir.DsdArg, type_: elementwise.ElementType | None) -> int:
        if isinstance(value, int) and type_ not in ("h", "s") and (arg.type is None or arg.type.kind == "int"):
            return value & (0xFFFFFFFF if type_ == "u32" else 0xFFFF)
        if arg.type is not None and arg.type.kind == "float":
            return numeric.to_bits(value, arg.type)
        if type_ == "s" or (type_ == "u32" and self.name == "fmovs"):
            return numeric.f32_to_bits(float(value))
        return numeric.half_encoder(self.half)(float(value))

    def iterations(self, dest: Operand | None, sources: list[Operand]) -> int:
        """Length of source 0 if not zero, else of source 1, else of the destination; 1 if there are only scalars, or
        scalars and FIFOs without a length of their own."""
        for operand in sources:
            if operand.length:
                return operand.length
        if dest is not None and dest.length:
            return dest.length
        kinds = {operand.kind for operand in ([*sources, dest] if dest is not None else sources)}
        return 1 if kinds <= {"scalar", "pointer", "fifo"} and kinds != {"fifo"} else 0

    # ------------------------------------------------------------------------------------------ execution

    def _run_memory(self, pe: ProcessingElement, dest: Operand, sources: list[Operand], count: int) -> None:
        if self.is_reduction:
            self._reduce(pe, dest, sources, count)
        elif self.op is not None and self.op.sequential:
            self._run_carry(pe, dest, sources, count)
        elif dest.linear and all(source.linear for source in sources):
            self._run_linear(pe, dest, sources, count)
        else:
            self._run_scattered(pe, dest, sources, count)
        for operand in (dest, *sources):
            if operand.dsr is not None:
                operand.dsr.finish(count, operand.size)

    def _run_linear(self, pe: ProcessingElement, dest: Operand, sources: list[Operand], count: int) -> None:
        if count == 1:
            self._run_sequential(pe, dest, sources, count)
            return
        dependent = dest.step == 0 or any(
            source.kind == "memory" and _depends(dest, source, count) for source in sources
        )
        if dependent or count < _BULK_THRESHOLD:
            self._run_sequential(pe, dest, sources, count)
            return
        memory = pe.memory
        target = memory.elements(dest.base, dest.step, count, dest.size)
        arrays = [
            source.bits if source.kind == "scalar" else memory.elements(source.base, source.step, count, source.size)
            for source in sources
        ]
        target[:] = self._bulk(arrays)

    def _bulk(self, arrays: list[Any]) -> Any:
        op = self.op
        assert op is not None
        if op.is_move:
            return arrays[0]
        if not any(isinstance(array, np.ndarray) for array in arrays):
            return self.function(*arrays)
        decoded: list[Any] = []
        for type_, array in zip(self.source_types, arrays, strict=True):
            if isinstance(array, np.ndarray):
                aligned = array if array.flags.aligned and array.flags.c_contiguous else array.copy()
                decoded.append(elementwise.decode_array(type_, self.half, aligned))
            else:
                decode = elementwise.decoder(type_, self.half)
                value = decode(array) if decode is not None else array
                decoded.append(np.float32(value) if type_ == "s" else np.float64(value) if type_ == "h" else value)
        with np.errstate(all="ignore"):
            return elementwise.encode_array(op.dest, self.half, op.array(*decoded))

    def _run_sequential(self, pe: ProcessingElement, dest: Operand, sources: list[Operand], count: int) -> None:
        memory, function = pe.memory, self.function
        read, write = memory.read_int, memory.write_int
        at, dest_step, dest_size = dest.base, dest.step, dest.size
        if len(sources) == 1:
            (only,) = sources
            place, step, size, scalar = only.base, only.step, only.size, only.kind == "scalar"
            for _ in range(count):
                write(at, function(only.bits if scalar else read(place, size)), dest_size)
                at += dest_step
                place += step
            return
        places = [source.base for source in sources]
        for _ in range(count):
            bits = [
                source.bits if source.kind == "scalar" else read(place, source.size)
                for source, place in zip(sources, places, strict=True)
            ]
            write(at, function(*bits), dest_size)
            at += dest_step
            places = [place + source.step for source, place in zip(sources, places, strict=True)]

    def _reduce(self, pe: ProcessingElement, dest: Operand, sources: list[Operand], count: int) -> None:
        """`(p, v, s)`: running value v op s[0] op s[1] ... stored to p."""
        first, second = sources
        memory, accumulator = pe.memory, first.bits
        if second.kind == "scalar":
            values = [second.bits] * count
        else:
            values = [memory.read_int(int(place), second.size) for place in second.addresses(count)]
        if self.name in ("fadds", "fmuls"):
            accumulator = _reduce_f32(accumulator, values, multiply=self.name == "fmuls")
        else:
            for bits in values:
                accumulator = self.function(accumulator, bits)
        memory.write_int(dest.base, accumulator, dest.size)

    def _run_carry(self, pe: ProcessingElement, dest: Operand, sources: list[Operand], count: int) -> None:
        memory = pe.memory
        places = [None if s.kind == "scalar" else s.addresses(count) for s in sources]
        targets = dest.addresses(count)
        for k in range(count):
            bits = [
                s.bits if place is None else memory.read_int(int(place[k]), 2)
                for s, place in zip(sources, places, strict=True)
            ]
            memory.write_int(int(targets[k]), pe.add_with_carry(*bits), 2)

    def _run_scattered(self, pe: ProcessingElement, dest: Operand, sources: list[Operand], count: int) -> None:
        """Operands with four dimensions: runs along the innermost one in bulk where its elements are independent."""
        memory = pe.memory
        targets = dest.addresses(count)
        places = [None if s.kind in ("scalar", "pointer") else s.addresses(count) for s in sources]
        run = _inner_run([dest, *sources], count)
        for start in range(0, count, run):
            stop = min(start + run, count)
            window = targets[start:stop]
            independent = stop - start >= _BULK_THRESHOLD and len(np.unique(window)) == len(window)
            for place in places:
                if place is not None and independent:
                    part = place[start:stop]
                    independent = bool(np.array_equal(part, window)) or not bool(np.isin(part, window).any())
            if independent:
                arrays = [
                    s.bits if place is None else _gather(memory, place[start:stop], s.size)
                    for s, place in zip(sources, places, strict=True)
                ]
                _scatter(memory, window, dest.size, self._bulk(arrays))
                continue
            for k in range(start, stop):
                bits = [
                    s.bits if place is None else memory.read_int(int(place[k]), s.size)
                    for s, place in zip(sources, places, strict=True)
                ]
                memory.write_int(int(targets[k]), self.function(*bits), dest.size)


def _ignore(*bits: int) -> int:
    return bits[0]


def _reduce_f32(start: int, values: list[int], multiply: bool) -> int:
    cell = numeric.SCRATCH_F32
    floats = np.array(values, dtype=np.uint32).view(np.float32).tolist()
    total = numeric.bits_to_f32(start)
    for value in floats:
        cell[0] = total * value if multiply else total + value
        total = cell[0]
    return numeric.f32_to_bits(total)


def _depends(dest: Operand, source: Operand, count: int) -> bool:
    """True if an element of `source` may be written by an earlier element of the operation."""
    if source.base == dest.base and source.step == dest.step and source.size == dest.size:
        return False
    low_d, high_d = _span(dest, count)
    low_s, high_s = _span(source, count)
    return low_d < high_s and low_s < high_d


def _span(operand: Operand, count: int) -> tuple[int, int]:
    last = operand.base + operand.step * (count - 1)
    return min(operand.base, last), max(operand.base, last) + operand.size


def _inner_run(operands: list[Operand], count: int) -> int:
    """Elements after which some operand steps an outer dimension."""
    runs = [operand.dsd.extents[-1] for operand in operands if not operand.linear and operand.dsd is not None]
    run = min(runs, default=count)
    return run if run and all(r % run == 0 for r in runs) else 1


def _gather(memory: Any, places: cursors.Addresses, size: int) -> Any:
    low, high = int(places.min()), int(places.max())
    memory.check(low, size)
    memory.check(high, size)
    if size == 2:
        return np.frombuffer(memory.array, np.uint16)[places >> 1]
    words = np.frombuffer(memory.array, np.uint16)
    return words[places >> 1].astype(np.uint32) | words[(places >> 1) + 1].astype(np.uint32) << np.uint32(16)


def _scatter(memory: Any, places: cursors.Addresses, size: int, bits: Any) -> None:
    low, high = int(places.min()), int(places.max())
    memory.check(low, size)
    memory.check(high, size)
    words = np.frombuffer(memory.array, np.uint16)
    if size == 2:
        words[places >> 1] = bits
        return
    values = np.broadcast_to(np.asarray(bits, dtype=np.uint32), places.shape)
    words[places >> 1] = values.astype(np.uint16)
    words[(places >> 1) + 1] = (values >> np.uint32(16)).astype(np.uint16)
