"""Compile and run one of the validation programs in this process.

Every program stamps its window itself, as the published ones do: the 48-bit counter goes to `window_start` and
`window_end` on each PE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fabrica_bench.csl.driver import CompileOptions, compile_program
from fabrica_bench.wse.commands import CopyIn, CopyOut, Launch
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.trace import TraceSink

PROGRAMS: Final = Path(__file__).parent / "programs"
_STAMP_BYTES: Final = 6


@dataclass(frozen=True)
class Window:
    """Stamps of one PE, in cycles of the counter that all PEs share."""

    x: int
    y: int
    start: int
    end: int

    @property
    def cycles(self) -> int:
        """Length of the window."""
        return self.end - self.start


class Run:
    """A compiled program on a machine of its own. `program` names a folder of `programs`."""

    def __init__(
        self,
        program: str,
        arch: str,
        params: Mapping[str, int],
        size: tuple[int, int] = (1, 1),
        trace: TraceSink | None = None,
    ) -> None:
        options = CompileOptions(
            file=PROGRAMS / program / "layout.csl",
            arch="wse2" if arch == "wse2" else "wse3",
            fabric_dims=(size[0] + 7, size[1] + 2),
            fabric_offsets=(4, 1),
            params=params,
            memcpy=True,
        )
        self.width, self.height = size
        self.machine = Machine(compile_program(options).program, trace=trace)

    def put(self, symbol: str, data: npt.NDArray[Any]) -> None:
        """Copy the same 32-bit values to every PE, or, of an array of shape [height, width, n], a part to each."""
        if data.ndim == 1:
            data = np.broadcast_to(data, (self.height, self.width, data.size))
        words = np.ascontiguousarray(data).view(np.uint32)
        self._do(CopyIn(symbol, 0, 0, self.width, self.height, words.shape[2], words))

    def get(self, symbol: str, count: int, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
        """Values of shape [height, width, count] of a 32-bit type."""
        handle = self.machine.submit(CopyOut(symbol, 0, 0, self.width, self.height, count))
        self.machine.wait(handle)
        assert handle.result is not None
        return handle.result.view(dtype)

    def launch(self, function: str, *args: int) -> None:
        """Call an exported function on every PE and wait for it."""
        self._do(Launch(function, args))

    def windows(self) -> list[Window]:
        """The stamps of all PEs that have some, row by row."""
        return [
            Window(x, y, self._stamp(x, y, "window_start"), self._stamp(x, y, "window_end"))
            for y in range(self.height)
            for x in range(self.width)
            if self.machine.find_global(x, y, "window_start") is not None
        ]

    def longest(self) -> int:
        """Cycles of the PE with the longest window."""
        return max(window.cycles for window in self.windows())

    def whole(self) -> int:
        """Cycles from the first start to the last end."""
        windows = self.windows()
        return max(window.end for window in windows) - min(window.start for window in windows)

    def _stamp(self, x: int, y: int, name: str) -> int:
        return int.from_bytes(self.machine.read_symbol(x, y, name)[:_STAMP_BYTES], "little")

    def _do(self, command: CopyIn | Launch) -> None:
        self.machine.wait(self.machine.submit(command))
