"""A DSD operation with a fabric or FIFO operand: runs element by element beside, or instead of, the main thread.

Each issue slot moves one wavelet's worth of elements (of a FIFO operation without fabric operand: as many as the SIMD
width). An asynchronous operation occupies a microthread; a synchronous one stalls the main thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import INFINITE_LENGTH
from fabrica_bench.wse.endpoints import (
    PACKED_MODES,
    DestEnd,
    FabricIn,
    FabricOut,
    FifoEnd,
    MemoryEnd,
    NullEnd,
    PointerEnd,
    ScalarEnd,
    SourceEnd,
)

if TYPE_CHECKING:
    from fabrica_bench.wse.dsd import DsdSite, Operand
    from fabrica_bench.wse.pe import ProcessingElement

PRIORITIES = {"": 0, "low": 0, "medium": 2, "high": 4}
_DATA_MODES = PACKED_MODES

#: (config of the operation, id woken on completion, id woken by a control wavelet, index)
Settings = tuple[ir.DsdConfig, int, int, int]


class FabricOp:
    """An operation in flight: created by `DsdSite`, `attach`ed when the clock reaches it, `issue`d until `done`."""

    def __init__(
        self,
        pe: ProcessingElement,
        site: DsdSite,
        dest: Operand | None,
        sources: list[Operand],
        count: int,
        settings: Settings,
    ) -> None:
        self.pe = pe
        self.site = site
        self.name = site.name
        self.loc = site.instr.loc
        self.task = pe.task_name
        self.dest_operand = dest
        self.source_operands = sources
        self.settings = _effective(dest, sources, settings)
        self.config = self.settings[0]
        self.is_async = self.config.is_async
        self.infinite = count == INFINITE_LENGTH
        self.count = count
        self.remaining = count
        self.setup = site.costs.setup(dest, sources)
        self.start = 0
        self.expected = 0
        self.thread = -1
        self.done = False
        self.stopped_early = False
        self.priority = PRIORITIES[self._priority()]
        self.blocked_by: str = ""
        self.sources: list[SourceEnd] = []
        self.dest: DestEnd = NullEnd()
        self.gates: list[SourceEnd | DestEnd] = []
        self.inputs: list[FabricIn] = []
        self.watches_control = self.config.on_control is not None
        self.batch = 1

    def _priority(self) -> str:
        if self.config.priority:
            return self.config.priority
        for operand in (self.dest_operand, *self.source_operands):
            if operand is not None and operand.dsd is not None and operand.dsd.priority:
                return operand.dsd.priority
        return ""

    # ------------------------------------------------------------------------------------------ beginning

    def attach(self, now: int) -> None:
        """Bind queues and the microthread; the first element may issue once the DSRs are loaded."""
        pe, site = self.pe, self.site
        self.start = self.expected = now + self.setup
        dest, sources = self.dest_operand, self.source_operands
        zero_first = any(o is not None and o.dsd is not None and o.dsd.zero_first for o in (dest,))
        zero_second = any(o is not None and o.dsd is not None and o.dsd.zero_second for o in (dest,))
        if dest is not None:
            self.dest = self._dest_end(dest)
        for position, operand in enumerate(sources):
            second = position == len(sources) - 1 if len(sources) == 1 else position == 1
            zero = (zero_second and second) or (zero_first and position == 0 and not second)
            self.sources.append(self._source_end(operand, zero))
        if site.is_reduction and isinstance(self.dest, PointerEnd):
            self.dest.bits = sources[0].bits
            self.sources[0] = self.dest
        self.gates = [end for end in (*self.sources, self.dest) if end.gate]
        self.inputs = [end for end in self.sources if isinstance(end, FabricIn)]
        for end in self.inputs:
            pe.claim_queue(end.queue, self)
        if self.is_async:
            self.thread = self._thread_id()
            pe.claim_thread(self.thread, self)
        self.batch = self._batch()
        if self.count == 0 and not self.infinite:
            self.finish(now)

    def _dest_end(self, operand: Operand) -> DestEnd:
        pe = self.pe
        if operand.kind == "memory":
            return MemoryEnd(pe, operand, self.count)
        if operand.kind == "pointer":
            return PointerEnd(pe, operand.base, operand.size)
        if operand.kind == "fifo":
            return FifoEnd(pe, pe.fifos[operand.fifo], False, self.is_async)
        assert operand.dsd is not None
        channel, color = pe.output_of(operand.dsd)
        if operand.dsd.queue >= 0:
            pe.claim_output(channel, self)
        return FabricOut(pe, channel, color, operand.dsd, operand.size, self.settings[3])

    def _source_end(self, operand: Operand, zero: bool) -> SourceEnd:
        pe = self.pe
        if operand.kind == "memory":
            return MemoryEnd(pe, operand, self.count, zero)
        if operand.kind == "scalar":
            return ScalarEnd(operand.bits)
        if operand.kind == "fifo":
            return FifoEnd(pe, pe.fifos[operand.fifo], True, self.is_async)
        assert operand.dsd is not None
        return FabricIn(pe, pe.input_of(operand.dsd), operand.dsd, operand.size)

    def _thread_id(self) -> int:
        if self.config.ut_id is not None:
            return self.config.ut_id
        for operand in (self.dest_operand, *self.source_operands):
            if operand is not None and operand.kind in ("fabin", "fabout") and operand.dsd is not None:
                return max(operand.dsd.queue, 0)
        return self.pe.free_thread()

    def _batch(self) -> int:
        if not any(isinstance(gate, FabricIn | FabricOut) for gate in self.gates):
            return self.site.costs.width
        fabric = [o for o in (self.dest_operand, *self.source_operands) if o is not None and o.kind.startswith("fab")]
        packed = all(o.size == 2 and o.dsd is not None and o.dsd.simd_mode in _DATA_MODES for o in fabric)
        return 2 if packed else 1

    # ------------------------------------------------------------------------------------------ running

    def ready(self, now: int) -> bool:
        """May issue in this cycle: every operand is there, or the operation has to end."""
        if now < self.start:
            return False
        if self.watches_control and any(end.control_waits(now) for end in self.inputs):
            return True
        for gate in self.gates:
            if not gate.ready(now):
                if isinstance(gate, FifoEnd):
                    gate.note_shortage(self.remaining if not self.infinite else 1)
                    if gate.action != "wait":
                        return True
                self.blocked_by = gate.what
                return False
        return True

    def issue(self, now: int) -> None:
        """Move the elements of one issue slot."""
        self.expected = now + 1
        if self.site.name == "dfilt":
            self._filter(now)
            return
        function = self.site.function
        sources, dest = self.sources, self.dest
        for position in range(self.batch):
            if self.watches_control and self._control_arrived(now):
                return
            if position and not all(gate.ready(now) for gate in self.gates):
                return
            for gate in self.gates:
                if isinstance(gate, FifoEnd) and not gate.ready(now):
                    self._stop_on_fifo(gate, now)
                    return
            last = self.remaining == 1 and not self.infinite
            if len(sources) == 1:
                bits = function(sources[0].get(now))
            else:
                bits = self._combine([end.get(now) for end in sources])
            dest.put(bits, now, last)
            if not self.infinite:
                self.remaining -= 1
                if last:
                    self.finish(now)
                    return

    def _combine(self, bits: list[int]) -> int:
        if self.site.op is not None and self.site.op.sequential:
            return self.pe.add_with_carry(*bits)
        return self.site.function(*bits)

    def _filter(self, now: int) -> None:
        """`@dfilt`: drop data until as many control wavelets as the extent says came by."""
        end = self.inputs[0]
        was_control = end.control_waits(now)
        end.get(now)
        if was_control and not self.infinite:
            self.remaining -= 1
            if self.remaining == 0:
                self.finish(now)

    def _control_arrived(self, now: int) -> bool:
        wake = self.config.on_control
        for end in self.inputs:
            if wake is not None and end.control_waits(now):
                end.get(now)
                if wake.action == "terminate":
                    self.finish(now)
                else:
                    self.finish(now, complete=False)
                    self.pe.wake(wake, self.settings[2], now)
                return True
        return False

    def _stop_on_fifo(self, gate: FifoEnd, now: int) -> None:
        fifo = gate.fifo
        if gate.action == "fault":
            raise self.pe.fault(f"@{self.name} found {gate.what}", {"remaining": self.remaining})
        if gate.is_source:
            fifo.read_length = self.remaining
        else:
            fifo.write_length = self.remaining
        self.stopped_early = gate.action == "test_or_suspend"
        self.finish(now)

    # ------------------------------------------------------------------------------------------ ending

    def finish(self, now: int, complete: bool = True) -> None:
        """Release what the operation holds and wake what waits for its completion."""
        pe = self.pe
        self.done = True
        moved = self.count - self.remaining if not self.infinite else 0
        for end in self.inputs:
            pe.release_queue(end.queue)
        if isinstance(self.dest, FabricOut) and self.dest.channel.op is self:
            self.dest.channel.op = None
        if self.thread >= 0:
            pe.release_thread(self.thread)
        for operand in (self.dest_operand, *self.source_operands):
            if operand is not None and operand.dsr is not None and operand.kind == "memory":
                operand.dsr.finish(moved, operand.size)
        pe.result = 0 if self.stopped_early else 1
        if complete and self.config.on_done is not None:
            pe.wake(self.config.on_done, self.settings[1], now)


def _effective(dest: Operand | None, sources: list[Operand], settings: Settings) -> Settings:
    """Async settings of the fabric operand's DSR, if it is an explicit DSR, else of the operation."""
    for operand in (dest, *sources):
        if operand is not None and operand.dsr is not None and operand.kind in ("fabin", "fabout"):
            dsr = operand.dsr
            return (dsr.config, dsr.done_id, dsr.control_id, settings[3])
    return settings
