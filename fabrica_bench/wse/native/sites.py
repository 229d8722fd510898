"""Constant tables of an image for the kernel: DSD values, DSD operations, their settings, numbers of DSRs."""

from __future__ import annotations

import struct
from typing import NamedTuple

from fabrica_bench.csl import ir
from fabrica_bench.csl.descriptors import KINDS, PRIORITIES, SIMD_MODES
from fabrica_bench.wse.costs import CostTable
from fabrica_bench.wse.dsd import DsdSite
from fabrica_bench.wse.intrinsics import Unsupported
from fabrica_bench.wse.native.kernel_language import StructLayout
from fabrica_bench.wse.native.support import NativeUnsupported

DSRS_PER_FILE = 64
DSR_COUNT = 3 * DSRS_PER_FILE
_FILES = {"dest": 0, "src0": 1, "src1": 2}
_ACTIONS = {"activate": 0, "unblock": 1, "terminate": 2}
_ARGUMENTS = {"dsd": 1, "dsr": 2, "fifo": 3, "scalar": 4, "pointer": 5}
_TYPES = {"u16": 0, "i16": 1, "u32": 2, "h": 3, "s": 4}
_MOVES = ("mov16", "mov32", "fmovh", "fmovs", "dfilt")
_INTEGERS = ("add16", "sub16", "and16", "or16", "xor16", "sll16", "slr16", "sar16", "clz", "ctz", "popcnt")
_FLOATS = {"fadd": 20, "fsub": 21, "fmul": 22, "fmax": 23, "fabs": 24, "fneg": 25, "fmac": 26}
_OTHERS = {
    "faddhs": 20,
    "fmachs": 26,
    "fh2s": 27,
    "fs2h": 27,
    "xp162fh": 27,
    "xp162fs": 27,
    "fh2xp16": 28,
    "fs2xp16": 28,
    "addc16": 40,
}


def operation_code(name: str) -> int:
    """Number of an operation in the kernel (`kernel/numbers.py`)."""
    if name in _MOVES:
        return 0
    if name in _INTEGERS:
        return 1 + _INTEGERS.index(name)
    if name in _OTHERS:
        return _OTHERS[name]
    if name[:-1] in _FLOATS:
        return _FLOATS[name[:-1]]
    raise NativeUnsupported(f"@{name}")


class SiteRef(NamedTuple):
    """Name of the table of an operation; element types of its scalar sources by position (0: destination)."""

    name: str
    scalars: dict[int, str]


class SiteTable:
    """See the module's docstring."""

    def __init__(self, costs: CostTable, half: str, structs: dict[str, StructLayout]) -> None:
        self._costs = costs
        self._half = half
        self._structs = structs
        self._lines: list[str] = []
        self._names: dict[tuple[int, ...], str] = {}

    def text(self) -> str:
        """LLVM globals."""
        return "\n".join(self._lines)

    def _table(self, words: list[int]) -> str:
        key = tuple(words)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"@c{len(self._names)}"
            values = ", ".join(f"i64 {word}" for word in words)
            self._lines.append(f"{name} = internal constant [{len(words)} x i64] [{values}]")
        return name

    def data(self, content: bytes) -> str:
        """Constant bytes."""
        padded = content + bytes(-len(content) % 8)
        return self._table(list(struct.unpack(f"<{len(padded) // 8}q", padded)) or [0])

    def dsr(self, ref: ir.DsrRef) -> int:
        """Number of an explicit DSR among all files."""
        if not 0 <= ref.index < DSRS_PER_FILE:
            raise NativeUnsupported(f"DSR {ref.index}")
        return _FILES[ref.file] * DSRS_PER_FILE + int(ref.index)

    def dsd(self, dsd: ir.Dsd) -> str:
        return self._table(dsd_words(dsd))

    def config_words(self, config: ir.DsdConfig) -> list[int]:
        """The kernel's `Config`."""
        words = [int(config.is_async)]
        for wake in (config.on_done, config.on_control):
            if wake is None:
                words += [0, 0, 0]
            else:
                words += [1, _ACTIONS[wake.action], int(wake.space == "ut")]
        words.append(int(config.index is not None))
        words.append(-1 if config.ut_id is None else int(config.ut_id))
        words.append(PRIORITIES.index(config.priority))
        return words

    def config(self, config: ir.DsdConfig) -> str:
        return self._table(self.config_words(config))

    def site(self, instr: ir.DsdOp, image: ir.Image) -> SiteRef:
        """Table of a DSD operation."""
        try:
            site = DsdSite(image, self._half, self._costs, instr)
        except Unsupported as problem:
            raise NativeUnsupported(str(problem)) from None
        words = [0] * self._structs["Site"].words
        layout = self._structs["Site"]

        def put(name: str, value: int, index: int = 0) -> None:
            words[layout[name] + index] = int(value)

        put("op", operation_code(instr.op))
        put("is_filter", instr.op == "dfilt")
        put("is_move", instr.op in _MOVES)
        put("is_reduction", site.is_reduction)
        put("sequential", site.op is not None and site.op.sequential)
        put("source_count", len(instr.sources))
        put("dest_size", site.dest_size)
        put("dest_type", _TYPES[site.op.dest] if site.op is not None else 2)
        if instr.dest is not None:
            put("dest_kind", _ARGUMENTS[instr.dest.kind])
            put("dest_ref", self._ref(instr.dest, image))
        if len(instr.sources) > 3 or not instr.sources:
            raise NativeUnsupported(f"@{instr.op} with {len(instr.sources)} sources")
        scalars: dict[int, str] = {}
        for i, (arg, type_, size) in enumerate(zip(instr.sources, site.source_types, site.source_sizes, strict=True)):
            put("source_kinds", _ARGUMENTS[arg.kind], i)
            put("source_refs", self._ref(arg, image), i)
            put("source_sizes", size, i)
            put("source_types", _TYPES[type_], i)
            scalars[i + 1] = "moves" if instr.op == "fmovs" and type_ == "u32" else type_
        words[layout["config"] : layout["config"] + 10] = self.config_words(instr.config)
        costs = site.costs
        for name in ("width", "dsr_load", "dsr_gap", "scalar_operand", "launch", "conflict", "period", "read_bytes"):
            put(name, getattr(costs, name))
        for name in ("read_shared", "write_bytes", "stride_span", "stride_8", "stride_4", "stride_7"):
            put(name, getattr(costs, name))
        (words[layout["scalar_dest"]],) = struct.unpack("<q", struct.pack("<d", costs.scalar_dest))
        return SiteRef(self._table(words), scalars)

    def map_site(self, instr: ir.MapOp, function: ir.Function, image: ir.Image) -> str:
        """Table of `@map`: its streams as sources, its output as destination."""
        layout = self._structs["Site"]
        words = [0] * layout.words
        streams = [
            (arg, function.registers[i]) for i, arg in enumerate(instr.inputs) if arg.kind not in ("scalar", "pointer")
        ]
        ends = [*streams]
        if instr.output is not None and function.result is not None:
            ends.append((instr.output, function.result))
            words[layout["dest_kind"]] = _ARGUMENTS[instr.output.kind]
            words[layout["dest_ref"]] = self._ref(instr.output, image)
            words[layout["dest_size"]] = function.result.size
        elif instr.output is not None:
            raise NativeUnsupported("@map with an output and a function without a result")
        if len(streams) > 3 or any(arg.kind == "fifo" or type_.size not in (2, 4) for arg, type_ in ends):
            raise NativeUnsupported("@map with more than three streams, FIFOs, or elements of other sizes than 2 and 4")
        words[layout["source_count"]] = len(streams)
        for i, (arg, type_) in enumerate(streams):
            words[layout["source_kinds"] + i] = _ARGUMENTS[arg.kind]
            words[layout["source_refs"] + i] = self._ref(arg, image)
            words[layout["source_sizes"] + i] = type_.size
        return self._table(words)

    def _ref(self, arg: ir.DsdArg, image: ir.Image) -> int:
        if arg.kind == "dsr":
            assert isinstance(arg.value, ir.DsrRef)
            return self.dsr(arg.value)
        if arg.kind == "fifo":
            number = int(arg.value)  # type: ignore[arg-type]
            if not 0 <= number < len(image.fifos) or image.fifos[number].element_bytes not in (2, 4):
                raise NativeUnsupported("a FIFO with elements of another size than 2 or 4 bytes")
            return number
        return 0


def dsd_words(dsd: ir.Dsd) -> list[int]:
    """The kernel's `Dsd`: unused numbers are 0, so that equal descriptors have equal words."""
    if len(dsd.extents) > 4 or len(dsd.strides) > 4 or not isinstance(dsd.base, int):
        raise NativeUnsupported("a DSD with more than four dimensions or an unresolved base")
    extents = [*map(int, dsd.extents), 0, 0, 0, 0][:4]
    strides = [*map(int, dsd.strides), 0, 0, 0, 0][:4]
    return [
        KINDS.index(dsd.kind) + 1,
        len(dsd.extents),
        *extents,
        int(dsd.base),
        len(dsd.strides),
        *strides,
        int(dsd.wraparound),
        int(dsd.queue),
        int(dsd.color),
        int(dsd.control),
        int(dsd.advance_switch),
        int(dsd.control_transform),
        int(dsd.wavelet_index_offset),
        int(dsd.zero_first),
        int(dsd.zero_second),
        SIMD_MODES.index(dsd.simd_mode),
        PRIORITIES.index(dsd.priority),
    ]
