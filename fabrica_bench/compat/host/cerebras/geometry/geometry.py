"""Integer geometry of the layout API under the vendor's module name."""

from fabrica_bench.compat.geometry import IntRectangle, IntVector

__all__ = ["IntRectangle", "IntVector"]
