"""What the layout API adds to an artefact: host streams, and initial contents of variables PE by PE.

`bin/layout.json`   {"fabrica_layout": 1, "streams": [{"name", "id", "direction": "h2d" | "d2h", "x", "y", "color",
                    "size"}], "memory": [{"x", "y", "symbol", "data": base64}]}
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Base64Bytes, BaseModel, ConfigDict, ValidationError

from fabrica_bench.compat.artifacts import LAYOUT_FILE, RECOMPILE
from fabrica_bench.errors import FabricaError


class StreamInfo(BaseModel):
    """A stream between the host and the PE in column `x`, row `y`. `size`: wavelets of its port, 0 if unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    id: int
    direction: Literal["h2d", "d2h"]
    x: int
    y: int
    color: int
    size: int

    def __str__(self) -> str:
        way = "host to device" if self.direction == "h2d" else "device to host"
        return f"{self.id}: {self.name}, {way} at PE ({self.x}, {self.y}), {self.size or '?'} wavelets"


class MemoryImage(BaseModel):
    """Initial bytes of a variable of one PE."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    x: int
    y: int
    symbol: str
    data: Base64Bytes


class LayoutFile(BaseModel):
    """See the module's docstring."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fabrica_layout: Literal[1] = 1
    streams: tuple[StreamInfo, ...] = ()
    memory: tuple[MemoryImage, ...] = ()


def read_layout(directory: Path) -> LayoutFile:
    """The layout file of an artefact.

    Raises:
        FabricaError: There is none, or it is damaged.
    """
    path = directory / LAYOUT_FILE
    try:
        return LayoutFile.model_validate_json(path.read_bytes())
    except (ValidationError, OSError) as error:
        raise FabricaError(f"damaged layout file: {error}", place=str(path), remedy=RECOMPILE) from None
