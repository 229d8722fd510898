"""Router configuration of one color on one PE."""

from __future__ import annotations

from typing import Literal, NamedTuple


class SwitchPosition(NamedTuple):
    """One of pos1..pos3 as written: a replaced rx or tx mask (0: unchanged), or invalid."""

    rx: int = 0
    tx: int = 0
    invalid: bool = False


class FilterConfig(NamedTuple):
    kind: Literal["counter", "sparse_counter", "range"]
    count_data: bool = False
    count_control: bool = False
    init_counter: int = 0
    limit1: int = 0
    limit2: int = 0
    max_counter: int = 0
    filter_control: bool = False
    min_idx: int = 0
    max_idx: int = 0


class ColorConfig(NamedTuple):
    """Router configuration of one color on one PE. Masks: NORTH=1 SOUTH=2 EAST=4 WEST=8 RAMP=16."""

    rx: int = 0
    tx: int = 0
    positions: tuple[SwitchPosition | None, SwitchPosition | None, SwitchPosition | None] = (None, None, None)
    current: int = 0
    ring_mode: bool = False
    pop_mode: Literal["no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop"] = "no_pop"
    color_swap_x: bool = False
    color_swap_y: bool = False
    filter: FilterConfig | None = None
    teardown: bool = False


NORTH, SOUTH, EAST, WEST, RAMP = 1, 2, 4, 8, 16
#: run-time value of a `direction`, in declaration order of the language's documentation
DIRECTION_CODES = {"RAMP": 0, "NORTH": 1, "SOUTH": 2, "EAST": 3, "WEST": 4}
