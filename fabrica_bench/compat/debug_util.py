"""`debug_util`: variables and traces of the PEs after a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fabrica_bench.compat import sessions
from fabrica_bench.compat.artifacts import read_artifact
from fabrica_bench.compat.platforms import require_simulation
from fabrica_bench.compat.runtime import as_array
from fabrica_bench.compat.sessions import HostError
from fabrica_bench.compat.traces import decode_trace

CORE_FILES = ("corefile.cs1", "out.core")


class debug_util:
    """Reads PE memories of a program that ran in this process, or of a core file in the working directory.

    All coordinates are those of the fabric: the program's PEs start at its fabric offset (4, 1 in most programs).

    Args:
        bindir: Artefact directory of the program.
        cmaddr: Must be empty.

    Raises:
        HostError: The program didn't run.
    """

    def __init__(self, bindir: str | os.PathLike[str], cmaddr: str | None = None) -> None:
        require_simulation(cmaddr)
        directory = Path(bindir)
        session = sessions.find(directory)
        if session is not None:
            if not session.stopped:
                raise HostError("debug_util while the program is running", remedy="call SdkRuntime.stop() first")
            self._program = session.program
            self._core = None
            self._machine = session.machine
            return
        self._program = read_artifact(directory)
        found = next((Path(name) for name in CORE_FILES if Path(name).is_file()), None)
        if found is None:
            raise HostError(
                f"the program of {directory} has not run in this process, and there is no core file",
                remedy="run it first, or write a core file with SdkRuntime.dump_core",
            )
        from fabrica_bench.compat.cores import read_core

        self._core = read_core(found)

    def get_symbol(self, col: int, row: int, symbol: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A copy of a variable of the PE at fabric column `col`, row `row`.

        Raises:
            HostError: No such PE or variable.
        """
        return as_array(self._bytes(int(col), int(row), symbol), symbol, dtype)

    def get_symbol_rect(
        self, rectangle: tuple[tuple[int, int], tuple[int, int]], symbol: str, dtype: npt.DTypeLike
    ) -> npt.NDArray[Any]:
        """The variable of all PEs of ((col, row), (width, height)), as an array [width][height][n]."""
        (col, row), (width, height) = rectangle
        columns = [[self.get_symbol(col + x, row + y, symbol, dtype) for y in range(height)] for x in range(width)]
        return np.array(columns)

    def read_trace(self, px: int, py: int, key: str) -> list[Any]:
        """Values that the `<debug>` instance named `key` recorded on a PE.

        Raises:
            HostError: No such PE or instance, or a damaged buffer.
        """
        for buffer, index in (
            (f"$$csl_debug.{key}.buffer", f"$$csl_debug.{key}.buffer_index"),
            (f"{key}.tr.buffer", f"{key}.tr.buffer_index"),
        ):
            if self._has(int(px), int(py), buffer):
                used = int(self.get_symbol(px, py, index, np.uint16)[0])
                words: Sequence[int] = self.get_symbol(px, py, buffer, np.uint16)[:used].tolist()
                return decode_trace(words)
        raise HostError(
            f"PE ({px},{py}) has no trace {key!r}", remedy="check the key, and that coordinates are those of the fabric"
        )

    def _has(self, col: int, row: int, symbol: str) -> bool:
        x, y = self._position(col, row)
        return symbol in self._program.images[self._program.tiles[y][x]].globals

    def _bytes(self, col: int, row: int, symbol: str) -> bytes:
        x, y = self._position(col, row)
        if not self._has(col, row, symbol):
            raise HostError(
                f"PE ({col},{row}) has no variable {symbol!r}",
                remedy="it may be unused and removed; declare it `export var` to keep it",
            )
        if self._core is not None:
            return self._core[y][x][symbol]
        return self._machine.read_symbol(x, y, symbol)

    def _position(self, col: int, row: int) -> tuple[int, int]:
        x, y = col - self._program.offset[0], row - self._program.offset[1]
        if not (0 <= x < self._program.width and 0 <= y < self._program.height):
            left, top = self._program.offset
            raise HostError(
                f"fabric position ({col},{row}) is outside the program",
                remedy=f"its PEs are ({left},{top}) to "
                f"({left + self._program.width - 1},{top + self._program.height - 1})",
            )
        return x, y
