"""`cslc`: compile a CSL program for the embedded fabric simulator, with the vendor compiler's command line."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fabrica_bench.compat.cslc_options import CslcOptions, parse_options
from fabrica_bench.csl.exhaustion import hit_own_limit
from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.version import __version__

if TYPE_CHECKING:
    from fabrica_bench.csl.diagnostics import Diagnostic
    from fabrica_bench.csl.driver import CompileOptions
    from fabrica_bench.csl.ir import Program

WEST_COLUMNS = 4
"""Columns west of a program that the host I/O layer takes: 3 of support PEs and 1 of halo (SDK documentation)."""
EAST_COLUMNS = 3
"""2 of support PEs and 1 of halo."""
HALO_ROWS = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns its exit code: 0, 1 (the program has errors), 2 (usage), 3 or 4 (files, machine), 5 (a bug here). Who calls
    it goes by that alone: a program can have any text printed while it is compiled.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "--version" in arguments:
        sys.stdout.write(f"fabrica-bench cslc {__version__}\n")
        return ExitCode.OK
    as_json = "--diagnostics=json" in arguments
    try:
        return compile_command(parse_options(arguments))
    except FabricaError as error:
        _write_failure(error, as_json)
        return error.code
    except OSError as problem:
        failure = from_os_error(problem)
        _write_failure(failure, as_json)
        return ExitCode.FAILURE if hit_own_limit(problem) else failure.code
    except KeyboardInterrupt:
        sys.stderr.write("cslc: interrupted\n")
        return ExitCode.INTERRUPTED
    except MemoryError as problem:
        own = hit_own_limit(problem)
        where = "this process may use no more memory" if own else "the machine is out of memory"
        _write_failure(FabricaError(where), as_json)
        return ExitCode.FAILURE if own else ExitCode.ENVIRONMENT
    except Exception:  # a fault of the compiler: shown whole, and its exit status blames the harness, not the program
        traceback.print_exc()
        return ExitCode.HARNESS


def compile_command(options: CslcOptions) -> int:
    """Compile, check the placement, write the artefact; messages go to standard error.

    Raises:
        FabricaError: The options don't fit the program.
        OSError: The artefact can't be written.
    """
    from fabrica_bench.csl.diagnostics import CslError, Severity
    from fabrica_bench.csl.driver import compile_program

    begin = time.perf_counter()
    try:
        output = compile_program(compile_options(options))
    except CslError as error:
        _write_diagnostics(error.diagnostics, options, sys.stderr)
        return ExitCode.FAILURE
    warnings: list[Diagnostic] = output.warnings
    if options.warnings_as_errors:
        warnings = [
            replace(item, severity=Severity.ERROR) if item.severity is Severity.WARNING else item for item in warnings
        ]
    _write_diagnostics(warnings, options, sys.stderr)
    if any(item.severity is Severity.ERROR for item in warnings):
        return ExitCode.FAILURE
    check_placement(output.program, options)
    _write_outputs(output.program, options)
    if options.out_routes:
        write_routes(output.program, sys.stdout)
    if options.verbose:
        _write_summary(output.program, options, time.perf_counter() - begin, sys.stdout)
    return ExitCode.OK


def compile_options(options: CslcOptions) -> CompileOptions:
    """The compiler's options for a command line."""
    from fabrica_bench.csl.driver import CompileOptions

    limits: dict[str, Any] = {}
    if options.max_inlined_iterations is not None:
        limits["max_inlined_iterations"] = options.max_inlined_iterations
    if options.comptime_func_depth_limit is not None:
        limits["comptime_func_depth_limit"] = options.comptime_func_depth_limit
    if options.max_comptime_steps is not None:
        limits["max_comptime_steps"] = options.max_comptime_steps
    if options.max_comptime_memory is not None:
        limits["max_comptime_memory"] = options.max_comptime_memory
    return CompileOptions(
        file=options.file,
        arch=options.arch,
        fabric_dims=options.fabric_dims,
        fabric_offsets=options.fabric_offsets,
        params=options.params,
        colors=options.colors,
        memcpy=options.memcpy,
        channels=options.channels,
        import_paths=options.import_paths,
        fp16=options.fp16_format,
        width_west_buf=options.width_west_buf,
        width_east_buf=options.width_east_buf,
        section_addresses=options.section_addresses,
        confine_imports=options.confine_imports,
        **limits,
    )


def check_placement(program: Program, options: CslcOptions) -> None:
    """Does the program, with the host I/O layer around it, fit the fabric where it is placed?

    Raises:
        FabricaError: naming the smallest values that work.
    """
    west, east, rows = (
        (WEST_COLUMNS + options.width_west_buf, EAST_COLUMNS + options.width_east_buf, HALO_ROWS)
        if options.memcpy
        else (0, 0, 0)
    )
    x, y = options.fabric_offsets
    reason = " with --memcpy" if options.memcpy else ""
    if x < west or y < rows:
        raise FabricaError(
            f"the program can't start at {x},{y}{reason}: the offset must be at least {west},{rows}",
            place="--fabric-offsets",
            remedy=f"write --fabric-offsets={max(x, west)},{max(y, rows)}",
            code=ExitCode.USAGE,
        )
    need = (x + program.width + east, y + program.height + rows)
    if options.fabric_dims is None:
        if options.memcpy:
            raise FabricaError(
                "--memcpy needs the size of the fabric",
                place="--fabric-dims",
                remedy=f"write --fabric-dims={need[0]},{need[1]}",
                code=ExitCode.USAGE,
            )
        return
    if options.fabric_dims[0] < need[0] or options.fabric_dims[1] < need[1]:
        raise FabricaError(
            f"a fabric of {options.fabric_dims[0]} by {options.fabric_dims[1]} is too small for a program of "
            f"{program.width} by {program.height} PEs at {x},{y}{reason}: at least {need[0]} by {need[1]}",
            place="--fabric-dims",
            remedy=f"write --fabric-dims={max(need[0], options.fabric_dims[0])},{max(need[1], options.fabric_dims[1])}",
            code=ExitCode.USAGE,
        )


def _write_outputs(program: Program, options: CslcOptions) -> None:
    from fabrica_bench.compat.artifacts import write_artifact, write_json

    if options.output.exists() and not options.output.is_dir():
        raise FabricaError(
            "the output directory is a file", place=str(options.output), remedy="choose another with -o DIR"
        )
    write_artifact(program, options.output, options.colors)
    if options.output_json is not None:
        write_json(options.output_json, {"params": dict(program.params)})


def write_routes(program: Program, stream: TextIO) -> None:
    """One line per PE and color: `x,y color: {rx} -> {tx}`."""
    for y, row in enumerate(program.colors):
        for x, configurations in enumerate(row):
            for color, config in sorted(configurations.items()):
                stream.write(f"{x},{y} color {color}: {{{_ports(config.rx)}}} -> {{{_ports(config.tx)}}}\n")


def _ports(mask: int) -> str:
    names = ("NORTH", "SOUTH", "EAST", "WEST", "RAMP")
    return ",".join(name for bit, name in enumerate(names) if mask >> bit & 1)


def _write_summary(program: Program, options: CslcOptions, seconds: float, stream: TextIO) -> None:
    stream.write(
        f"{options.file}: {program.width} by {program.height} PEs on {program.arch}, "
        f"{len(program.images)} distinct PE programs, {seconds:.2f} s\n"
    )
    for image in program.images:
        stream.write(f"  {Path(image.file).name}: {image.code_bytes} B code, data up to {image.data_end} B\n")
    stream.write(f"wrote {options.output}\n")


def _write_diagnostics(diagnostics: Sequence[Diagnostic], options: CslcOptions, stream: TextIO) -> None:
    from fabrica_bench.csl.diagnostics import render, to_json

    for item in diagnostics:
        text = json.dumps(to_json(item)) if options.diagnostics == "json" else render(item, color=_color(stream))
        stream.write(text + "\n")


def _color(stream: TextIO) -> bool:
    import os

    return stream.isatty() and "NO_COLOR" not in os.environ


def _write_failure(error: FabricaError, as_json: bool) -> None:
    if as_json:
        sys.stderr.write(_failure_json("error", error.message, error.place, error.remedy) + "\n")
        return
    place = f"{error.place}: " if error.place else ""
    sys.stderr.write(f"{place}error: {error.message}\n")
    if error.remedy:
        sys.stderr.write(f"  hint: {error.remedy}\n")


def _failure_json(severity: str, message: str, place: str | None, hint: str | None) -> str:
    where = dict.fromkeys(("line", "column", "end_line", "end_column"))
    return json.dumps({"severity": severity, "message": message, "file": place, **where, "hint": hint, "notes": []})


if __name__ == "__main__":
    sys.exit(main())
