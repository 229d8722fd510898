"""Compile a CSL program: from a layout file and options to an `ir.Program`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from fabrica_bench.csl import ir
from fabrica_bench.csl.diagnostics import Diagnostic
from fabrica_bench.csl.sema import limits

DEFAULT_MAX_INLINED_ITERATIONS = 10_000
DEFAULT_COMPTIME_DEPTH = 200
DEFAULT_COMPTIME_STEPS = limits.COMPTIME_STEPS
DEFAULT_COMPTIME_MEGABYTES = limits.COMPTIME_MEGABYTES


@dataclass(frozen=True)
class CompileOptions:
    """What `cslc` is told on its command line.

    `file` is the layout file. `fabric_dims` defaults to the smallest fabric that holds the program. `params` and
    `colors` bind top-level `param`s and legacy `color` declarations of the layout file. `import_paths` are searched for
    `<name>` imports before the system libraries. `section_addresses`: byte address from which the variables of a
    `linksection` are placed, in every PE. `confine_imports`: files lie in the folder of the layout file, or below a
    search path, links followed; for programs that are not trusted. `check_routes`: refuse routes that can't work; tools
    that show routes do without.
    """

    file: Path
    arch: Literal["wse2", "wse3"] = "wse2"
    fabric_dims: tuple[int, int] | None = None
    fabric_offsets: tuple[int, int] = (0, 0)
    params: Mapping[str, int] = field(default_factory=dict)
    colors: Mapping[str, int] = field(default_factory=dict)
    memcpy: bool = False
    channels: int = 1
    import_paths: tuple[Path, ...] = ()
    fp16: Literal["f16", "bf16", "cb16"] = "f16"
    max_inlined_iterations: int = DEFAULT_MAX_INLINED_ITERATIONS
    comptime_func_depth_limit: int = DEFAULT_COMPTIME_DEPTH
    width_west_buf: int = 0
    width_east_buf: int = 0
    max_comptime_steps: int = DEFAULT_COMPTIME_STEPS
    max_comptime_memory: int = DEFAULT_COMPTIME_MEGABYTES
    confine_imports: bool = False
    check_routes: bool = True
    section_addresses: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CompileOutput:
    """The program, and what the compiler has to say about it: warnings, and the notes of `@comptime_print`."""

    program: ir.Program
    warnings: list[Diagnostic]


def compile_program(options: CompileOptions) -> CompileOutput:
    """Compile the program of `options.file`.

    Raises:
        CslError: The program or the options are wrong; the diagnostics say where and why. Warnings and notes from
            before the error are among them.
    """
    from fabrica_bench.csl.sema.program import analyse_program

    return analyse_program(options)


class ColorNumber(NamedTuple):
    """Value of a `color` param."""

    number: int


ParamValue = bool | int | float | str | ColorNumber


class Tile(NamedTuple):
    """One PE of a program without a layout block. `file` is None for a PE that only routes."""

    file: Path | None
    params: Mapping[str, ParamValue]
    colors: Mapping[int, ir.ColorConfig]


def compile_tiles(
    options: CompileOptions, width: int, height: int, tiles: Mapping[tuple[int, int], Tile]
) -> CompileOutput:
    """Compile a program of `width` by `height` PEs given PE by PE (column, row). Places without a tile do nothing.

    `options.file`, `.params` and `.colors` have no meaning here.

    Raises:
        CslError: A PE's program is wrong; the diagnostics say where and why.
    """
    from fabrica_bench.csl.sema.program import analyse_tiles

    return analyse_tiles(options, width, height, tiles)
