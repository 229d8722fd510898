"""Where a program may lie on the fabric (Cerebras SDK docs 1.4, "memcpy": placement of support PEs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabrica_bench.csl.sema.errors import fail

if TYPE_CHECKING:
    from fabrica_bench.csl.driver import CompileOptions

#: Columns of support PEs and halo around a program that uses memcpy.
WEST_COLUMNS, EAST_COLUMNS, HALO_ROWS = 4, 3, 1
MAX_CHANNELS = 16


def check_fabric(options: CompileOptions, width: int, height: int) -> None:
    """Refuse fabric dimensions and offsets that do not hold the program."""
    x, y = options.fabric_offsets
    if x < 0 or y < 0:
        fail(None, f"--fabric-offsets={x},{y}: offsets can't be negative")
    east = south = 0
    if options.memcpy:
        if not 1 <= options.channels <= MAX_CHANNELS:
            fail(None, f"--channels={options.channels}: the number of channels must be 1 to {MAX_CHANNELS}")
        west = WEST_COLUMNS + options.width_west_buf
        if x < west or y < HALO_ROWS:
            fail(None, f"--fabric-offsets={x},{y}: with --memcpy they must be at least {west},{HALO_ROWS}")
        east, south = EAST_COLUMNS + options.width_east_buf, HALO_ROWS
    if options.fabric_dims is not None:
        needed = (x + width + east, y + height + south)
        if options.fabric_dims[0] < needed[0] or options.fabric_dims[1] < needed[1]:
            fail(None, f"--fabric-dims={options.fabric_dims[0]},{options.fabric_dims[1]}: the fabric must be at least "
                       f"{needed[0]}-by-{needed[1]} for this {width}x{height} program")
