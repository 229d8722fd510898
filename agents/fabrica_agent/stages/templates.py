"""Starter templates: the frame of a compute file for three kinds of layout, with marked places for own code."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from fabrica_agent.stages.facts import VisibleFacts

STARTERS: Final = Path(__file__).parent / "starters"
SINGLE_PE: Final = "single_pe.csl"
HALO_EXCHANGE: Final = "halo_exchange.csl"
COLLECTIVE_2D: Final = "collective_2d.csl"


def choose_template(facts: VisibleFacts, layout_text: str) -> str | None:
    """The template that a layout calls for, None when none does."""
    if "collectives_2d" in layout_text:
        return COLLECTIVE_2D
    if facts.layout is None:
        return None
    if not facts.layout.routed:
        return SINGLE_PE
    # Both directions of an axis are routed when neighbours exchange; a one-way route is a pipeline or a tree.
    both = all(word in layout_text for word in ("EAST", "WEST", "NORTH", "SOUTH"))
    return HALO_EXCHANGE if both else None


@cache
def template_source(name: str) -> str:
    """Text of a template."""
    return (STARTERS / name).read_text(encoding="utf-8")
