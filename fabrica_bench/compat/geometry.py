"""Integer vectors and rectangles of the layout API."""

from __future__ import annotations

from typing import NamedTuple


class IntVector(NamedTuple):
    """A position or a size: x columns to the east, y rows to the south."""

    x: int
    y: int


class IntRectangle(NamedTuple):
    """A rectangle of PEs: its north-west corner and its exclusive south-east corner."""

    origin: IntVector
    end: IntVector
