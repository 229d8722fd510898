"""Streams of `SdkLayout` programs at run time: which there are, and the commands that move words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from fabrica_bench.compat.artifacts import LAYOUT_FILE
from fabrica_bench.compat.sessions import HostError
from fabrica_bench.compat.transfers import check_array
from fabrica_bench.errors import FabricaError
from fabrica_bench.wse.commands import StreamIn, StreamOut

if TYPE_CHECKING:
    from fabrica_bench.compat.layout_file import MemoryImage, StreamInfo
    from fabrica_bench.csl.ir import Program
    from fabrica_bench.wse.machine import Machine


class DirectLinks:
    """Streams and initial data that the layout API put into an artefact; none for other programs."""

    def __init__(self, directory: Path) -> None:
        self._place = directory / LAYOUT_FILE
        self.streams: tuple[StreamInfo, ...] = ()
        """All streams, in the order of their ids."""
        self._memory: tuple[MemoryImage, ...] = ()
        if self._place.is_file():
            from fabrica_bench.compat.layout_file import read_layout

            layout = read_layout(directory)
            self.streams, self._memory = layout.streams, layout.memory

    def find(self, call: str, port: str | int, way: Literal["h2d", "d2h"] | None = None) -> StreamInfo:
        """A stream by name or id.

        Raises:
            HostError: There is none, or it has the other direction.
        """
        for stream in self.streams:
            if port in (stream.name, stream.id):
                if way is None or stream.direction == way:
                    return stream
                right = "receive" if way == "h2d" else "send"
                raise HostError(f"{call}: {stream.name!r} is a {stream.direction} stream", remedy=f"use {right}")
        known = ", ".join(repr(stream.name) for stream in self.streams) or "none"
        raise HostError(f"{call}: the program has no stream {port!r}", remedy=f"its streams: {known}")

    def write_memory(self, program: Program, machine: Machine) -> None:
        """Give variables the contents that `set_symbol_all` asked for.

        Raises:
            FabricaError: The artefact's files don't fit each other.
        """
        for image in self._memory:
            inside = 0 <= image.x < program.width and 0 <= image.y < program.height
            variable = program.images[program.tiles[image.y][image.x]].globals.get(image.symbol) if inside else None
            if variable is None or len(image.data) != variable.size:
                raise FabricaError(f"no variable {image.symbol!r} of this size", place=str(self._place))
            machine.pe(image.x, image.y).memory.write(variable.address, image.data)


def send_command(call: str, stream: StreamInfo, source: npt.NDArray[Any], count: int | None) -> StreamIn:
    """Send the first `count` words of an array of a 4-byte dtype (default: all)."""
    array = np.asarray(source)
    words = np.ascontiguousarray(_words(call, array, count)).view(np.uint32)
    return StreamIn(stream.color, stream.x, stream.y, 1, 1, words.reshape(1, 1, -1).copy())


def receive_command(call: str, stream: StreamInfo, destination: npt.NDArray[Any], count: int | None) -> StreamOut:
    """Receive `count` words (default: as many as the array holds)."""
    words = _words(call, destination, count, writable=True)
    return StreamOut(stream.color, stream.x, stream.y, 1, 1, words.size)


def store(destination: npt.NDArray[Any], words: npt.NDArray[np.uint32]) -> None:
    """Put received words at the start of an array that `receive_command` accepted."""
    flat = words.reshape(-1).view(destination.dtype)
    destination.flat[: flat.size] = flat


def _words(call: str, array: Any, count: int | None, *, writable: bool = False) -> npt.NDArray[Any]:
    if isinstance(array, np.ndarray):
        size = array.size if count is None else int(count)
        if not 1 <= size <= array.size:
            raise HostError(f"{call}: {size} words with an array of {array.size} elements", remedy="make them fit")
        check_array(call, array, array.size, writable=writable)
        return array.reshape(-1)[:size]
    check_array(call, array, 0)
    raise AssertionError("check_array refuses what is no array")
