"""What the layout block builds: the rectangle, the code and color configurations of its PEs, the exported names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.values import Const


class TileCode(NamedTuple):
    """Code of one PE. `span`: where it was given, None if by the host."""

    path: Path
    params: Mapping[str, Const]
    span: ast.Span | None


class AdvertisedName(NamedTuple):
    """`@export_name`."""

    entry: ir.ExportName
    type: t.Type
    span: ast.Span


@dataclass(slots=True)
class LayoutState:
    """State of layout evaluation; `width` is 0 before `@set_rectangle`."""

    width: int = 0
    height: int = 0
    tiles: dict[tuple[int, int], TileCode] = field(default_factory=dict)
    colors: dict[tuple[int, int], dict[int, ir.ColorConfig]] = field(default_factory=dict)
    color_spans: dict[tuple[int, int], dict[int, ast.Span]] = field(default_factory=dict)
    names: dict[str, AdvertisedName] = field(default_factory=dict)

    def check_inside(self, x: int, y: int, span: ast.Span) -> None:
        """Refuse coordinates outside of the rectangle."""
        if not self.width:
            fail(span, "the rectangle is not set yet", "call @set_rectangle(width, height) first")
        if not (0 <= x < self.width and 0 <= y < self.height):
            fail(span, f"PE ({x}, {y}) is outside of the {self.width}x{self.height} rectangle")

    def check_complete(self, span: ast.Span) -> None:
        """Every PE of the rectangle has code."""
        if not self.width:
            fail(span, "the layout block does not call @set_rectangle")
        missing = self.width * self.height - len(self.tiles)
        if missing:
            x, y = next((x, y) for y in range(self.height) for x in range(self.width) if (x, y) not in self.tiles)
            fail(span, f"{missing} PE(s) have no code, the first is ({x}, {y})", "call @set_tile_code for every PE")
