"""Choices of the lowering that don't change what the program computes, only how fast."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """How to lower.

    Attributes:
        bulk: DSD operations instead of scalar loops, where they fit.
        stagger: Start arrays in different memory banks, so that two operands of one operation don't collide.
        traced: Write loops anew from what the program computes, instead of keeping those of its threads.
        backwards: Run operations on overlapping parts of an array from the end rather than copy a part first.
    """

    bulk: bool = True
    stagger: bool = False
    backwards: bool = True
    traced: bool = False

    def describe(self) -> str:
        """One phrase for records."""
        parts = ["DSD operations" if self.bulk else "scalar loops"]
        if self.stagger:
            parts.append("staggered arrays")
        if self.bulk and not self.backwards:
            parts.append("copies instead of backward operations")
        if self.traced:
            parts.append("loops from a trace")
        return ", ".join(parts)
