"""Host commands, executed strictly in the order of submission (SDK documentation, "memcpy" and "SdkRuntime").

Coordinates are PEs of the program rectangle: `px`, `py` the north-west corner of the region, `w` columns, `h` rows.
Data arrays have shape [h, w, l] and dtype uint32: one host word per element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Launch:
    """Call an exported function on every PE. `args` are raw bit patterns of 16 or 32 bits."""

    name: str
    args: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class CopyIn:
    """Host to device, copy mode. `symbol` is an exported pointer (the copy goes to the tensor it points to)."""

    symbol: str
    px: int
    py: int
    w: int
    h: int
    l: int  # noqa: E741 - the vendor's name for elements per PE
    data: Words
    bits: Literal[16, 32] = 32


@dataclass(frozen=True)
class CopyOut:
    """Device to host, copy mode; the result is the handle's `result`."""

    symbol: str
    px: int
    py: int
    w: int
    h: int
    l: int  # noqa: E741
    bits: Literal[16, 32] = 32


@dataclass(frozen=True, eq=False)
class StreamIn:
    """Host to device, streaming: `l` wavelets of `color` to each PE of the region, in order."""

    color: int
    px: int
    py: int
    w: int
    h: int
    data: Words


@dataclass(frozen=True)
class StreamOut:
    """Device to host, streaming: `l` wavelets of `color` from each PE of the region."""

    color: int
    px: int
    py: int
    w: int
    h: int
    l: int  # noqa: E741


Command = Launch | CopyIn | CopyOut | StreamIn | StreamOut


@dataclass(eq=False)
class Handle:
    """A submitted command. `result` is set for copies to the host once `done`."""

    command: Command
    done: bool = False
    start_cycle: int = -1
    end_cycle: int = -1
    result: Words | None = None


@dataclass(frozen=True)
class LaunchWindow:
    """First and last cycle of one launch: from the common start to the last PE's `unblock_cmd_stream`."""

    name: str
    start_cycle: int
    end_cycle: int


@dataclass(frozen=True)
class Limits:
    """Budget of a run. `max_cycles` counts simulated cycles over the machine's life, `wall_seconds` real time spent in
    `Machine.wait` and `Machine.drain`; None means unlimited. `drain_cycles`: how long PEs may go on after the last
    command. `log_lines`: printed lines kept. `max_pes`: PEs of the rectangle; None is what the
    executor can take, a whole wafer for the native one."""

    max_cycles: int = 2_000_000_000
    wall_seconds: float | None = None
    drain_cycles: int = 1_000_000
    log_lines: int = 100_000
    max_pes: int | None = None
