"""Memory form of a DSD: what a `var` of a DSD type holds in PE memory.

The layout is this toolchain's own (the hardware's is not public): `DSD_BYTES` bytes, little endian, lossless. A zero
first byte marks memory that was never assigned.

    offset  size  content
    0       1     kind, 1-based in the order of `KINDS`
    1       1     number of extents (low nibble) and strides (high nibble)
    2       1     flags, bit i is `FLAGS[i]`
    3       1     SIMD mode (low nibble) and priority (high nibble), 0-based in `SIMD_MODES` and `PRIORITIES`
    4       2     queue, signed, -1 when absent
    6       2     color, signed, -1 when absent
    8       4     base, byte address, signed (offset arithmetic is unchecked in the language)
    12      4     wraparound, elements, signed
    16      8     extents, 4 x u16
    24      16    strides, 4 x i32, elements
"""

from __future__ import annotations

import struct
from typing import Final, get_args

from fabrica_bench.csl.ir import DSD_BYTES, Dsd, DsdKind

KINDS: Final = ("mem1d", "mem4d", "circbuf", "fabin", "fabout")
FLAGS: Final = (
    "control",
    "advance_switch",
    "control_transform",
    "wavelet_index_offset",
    "zero_first",
    "zero_second",
)
SIMD_MODES: Final = ("off", "32", "64", "32_or_64", "max")
PRIORITIES: Final = ("", "low", "medium", "high")
MAX_DIMENSIONS: Final = 4

_FORMAT = struct.Struct("<4B2h2i4H4i")
assert _FORMAT.size == DSD_BYTES
assert get_args(DsdKind) == KINDS


class DescriptorError(ValueError):
    """The value has no memory form, or the memory holds no DSD."""


def encode_dsd(dsd: Dsd) -> bytes:
    """The `DSD_BYTES` bytes of a DSD variable that holds `dsd`.

    Raises:
        DescriptorError: The base is not an absolute address, or a number is out of the range of its field.
    """
    if not isinstance(dsd.base, int):
        raise DescriptorError(f"the base of a DSD in memory must be an absolute address, not {dsd.base}")
    extents, strides = dsd.extents, dsd.strides
    if len(extents) > MAX_DIMENSIONS or len(strides) > MAX_DIMENSIONS:
        raise DescriptorError(f"a DSD has at most {MAX_DIMENSIONS} dimensions, not {max(len(extents), len(strides))}")
    flags = sum(1 << bit for bit, name in enumerate(FLAGS) if getattr(dsd, name))
    try:
        return _FORMAT.pack(
            KINDS.index(dsd.kind) + 1,
            len(extents) | len(strides) << 4,
            flags,
            SIMD_MODES.index(dsd.simd_mode) | PRIORITIES.index(dsd.priority) << 4,
            dsd.queue,
            dsd.color,
            dsd.base,
            dsd.wraparound,
            *extents,
            *(0,) * (MAX_DIMENSIONS - len(extents)),
            *strides,
            *(0,) * (MAX_DIMENSIONS - len(strides)),
        )
    except (struct.error, ValueError) as problem:
        raise DescriptorError(f"{dsd} has no memory form: {problem}") from None


def decode_dsd(data: bytes | bytearray | memoryview) -> Dsd:
    """The DSD held by a DSD variable.

    Raises:
        DescriptorError: `data` has the wrong length or was not written by `encode_dsd` (an unset variable, or memory
            overwritten through a pointer).
    """
    if len(data) != DSD_BYTES:
        raise DescriptorError(f"a DSD takes {DSD_BYTES} bytes, not {len(data)}")
    kind, counts, flags, modes, queue, color, base, wraparound, *numbers = _FORMAT.unpack(data)
    if kind == 0:
        raise DescriptorError("the DSD variable was never assigned")
    rank, stride_count = counts & 15, counts >> 4
    simd, priority = modes & 15, modes >> 4
    sound = kind <= len(KINDS) and flags < 1 << len(FLAGS) and simd < len(SIMD_MODES) and priority < len(PRIORITIES)
    if not sound or rank > MAX_DIMENSIONS or stride_count > MAX_DIMENSIONS:
        raise DescriptorError("the memory of the DSD variable was overwritten with something else")
    return Dsd(
        kind=KINDS[kind - 1],
        extents=tuple(numbers[:rank]),
        base=base,
        strides=tuple(numbers[MAX_DIMENSIONS : MAX_DIMENSIONS + stride_count]),
        wraparound=wraparound,
        queue=queue,
        color=color,
        control=bool(flags & 1),
        advance_switch=bool(flags & 2),
        control_transform=bool(flags & 4),
        wavelet_index_offset=bool(flags & 8),
        zero_first=bool(flags & 16),
        zero_second=bool(flags & 32),
        simd_mode=SIMD_MODES[simd],
        priority=PRIORITIES[priority],
    )
