"""`fabrica-bench csl memmap` and `routes`: what the compiler made of a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import JsonOption, examples
from fabrica_bench.cli.commands.csl import COMPILER_FLAGS, ProgramWords, csl_app, load_program, parse_numbers
from fabrica_bench.cli.console import Column
from fabrica_bench.errors import ExitCode, FabricaError, from_os_error

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import Program
    from fabrica_bench.wse.memory_map import MemoryMap
    from fabrica_bench.wse.routes import Region

MAX_COLOR = 23


@csl_app.command(
    context_settings=COMPILER_FLAGS,
    epilog=examples(
        "fabrica-bench csl memmap out",
        "fabrica-bench csl memmap layout.csl --arch=wse3 --params=M:4,N:6 --memcpy",
        "fabrica-bench csl memmap out --json",
    ),
)
def memmap(words: ProgramWords, json: JsonOption = False) -> None:
    """Show what lies where in the 48 KiB of each distinct PE program: code (an estimate), variables, free space,
    stack."""
    from fabrica_bench.wse.memory_map import memory_maps

    maps = memory_maps(load_program(words))
    if json:
        console.write_json([_map_record(one) for one in maps])
        return
    alike: dict[tuple[Any, ...], list[MemoryMap]] = {}
    for one in maps:
        alike.setdefault((one.file, one.areas), []).append(one)
    for number, same in enumerate(alike.values()):
        if number:
            console.write()
        _write_map(same)


def _write_map(same: list[MemoryMap]) -> None:
    """One table for all programs with this map."""
    one = same[0]
    names = one.name if len(same) == 1 else f"{one.name} and {len(same) - 1} more with the same map,"
    console.write(f"{names} on PEs {_regions_text(tuple(region for item in same for region in item.regions))}")
    columns = [
        Column("address", True),
        Column("bytes", True),
        Column("what"),
        Column("name"),
        Column("type"),
        Column("at"),
    ]
    rows = [
        [f"{area.address:#06x}", str(area.size), area.kind, area.name, area.type_name, area.place] for area in one.areas
    ]
    console.write_table(columns, rows)
    stack = f"{one.stack} B" if one.stack >= 0 else "unknown (recursion)"
    console.write(f"code {one.code} B (estimate), data {one.data} B, stack {stack}, free {one.free} B of 49152 B")


def _map_record(one: MemoryMap) -> dict[str, Any]:
    return {
        "program": one.name,
        "file": one.file,
        "pes": [list(region) for region in one.regions],
        "code_bytes_estimate": one.code,
        "data_bytes": one.data,
        "stack_bytes": one.stack if one.stack >= 0 else None,
        "free_bytes": one.free,
        "areas": [area._asdict() for area in one.areas],
    }


def _regions_text(regions: tuple[Region, ...]) -> str:
    shown = " ".join(str(region) for region in regions[:8])
    return shown + (f" and {len(regions) - 8} more rectangles" if len(regions) > 8 else "")


@csl_app.command(
    context_settings=COMPILER_FLAGS,
    epilog=examples(
        "fabrica-bench csl routes out",
        "fabrica-bench csl routes out --svg routes.svg",
        "fabrica-bench csl routes layout.csl --arch=wse3 --params=w:100 --color 2,5 --pes 0-15,0-15 --svg r.svg",
    ),
)
def routes(
    words: ProgramWords,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the picture into this file.")] = None,
    colors: Annotated[
        str | None, typer.Option("--color", metavar="N,...", help="Only these colors, e.g. 2,5-7.")
    ] = None,
    pes: Annotated[
        str | None, typer.Option("--pes", metavar="X0-X1,Y0-Y1", help="Only these columns and rows, e.g. 0-3,2.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show the routes of each color: as a table, and with --svg as a picture.

    PEs with the same route stand together, as columns and rows of the program rectangle. Links that lead nowhere are
    listed after the table; routes that the program changes while it runs are not considered.
    """
    from fabrica_bench.wse.routes import dead_ends, groups

    program = load_program(words)
    region = parse_region(program, pes) if pes is not None else None
    chosen = frozenset(parse_numbers("--color", colors, "2,5-7", MAX_COLOR)) if colors is not None else None
    if svg is not None:
        _write_picture(program, svg, words, region, chosen)
    if json:
        console.write_json(_routes_record(program, region, chosen))
        return
    rows = [
        [str(group.color), _regions_text(group.regions), str(group.pes), group.text]
        for group in groups(program, region, chosen)
    ]
    if not rows:
        console.write("no routes")
        return
    console.write_table([Column("color", True), Column("PEs"), Column("count", True), Column("route")], rows)
    for end in dead_ends(program, region, chosen):
        console.write(
            f"warning: color {end.color} of PE({end.x},{end.y}) to the {_direction(end.direction)}: {end.reason}"
        )


def _direction(bit: int) -> str:
    from fabrica_bench.wse.router import DIRECTION_NAMES

    return DIRECTION_NAMES[bit]


def _routes_record(program: Program, region: Region | None, colors: frozenset[int] | None) -> dict[str, Any]:
    from fabrica_bench.wse.router import DIRECTION_NAMES
    from fabrica_bench.wse.routes import dead_ends, describe, positions
    from fabrica_bench.wse.routes import routes as all_routes

    def names(mask: int) -> list[str]:
        return [name for bit, name in DIRECTION_NAMES.items() if mask & bit]

    return {
        "width": program.width,
        "height": program.height,
        "routes": [
            {
                "x": route.x,
                "y": route.y,
                "color": route.color,
                "positions": [
                    {"position": p.number, "rx": names(p.rx), "tx": names(p.tx)} for p in positions(route.config)
                ],
                "text": describe(route.config),
            }
            for route in all_routes(program, region, colors)
        ],
        "dead_ends": [
            {"x": end.x, "y": end.y, "color": end.color, "direction": _direction(end.direction), "reason": end.reason}
            for end in dead_ends(program, region, colors)
        ],
    }


def _write_picture(
    program: Program, path: Path, words: list[str], region: Region | None, colors: frozenset[int] | None
) -> None:
    from fabrica_bench.wse.route_picture import MAX_PES, routes_svg

    title = f"{words[0]}: {program.width} by {program.height} PEs, {program.arch}"
    try:
        text = routes_svg(program, title=title, region=region, colors=colors)
    except ValueError as problem:
        raise FabricaError(
            f"the picture would have {problem}",
            place="--svg",
            remedy=f"choose at most {MAX_PES} with --pes, e.g. --pes 0-31,0-31",
            code=ExitCode.USAGE,
        ) from problem
    try:
        path.write_text(text, encoding="utf-8", errors="replace")  # the name of a folder may be no UTF-8
    except OSError as error:
        raise from_os_error(error) from error
    console.note(f"wrote {path}")


def parse_region(program: Program, text: str) -> Region:
    """`X0-X1,Y0-Y1` (or single numbers) inside the program rectangle.

    Raises:
        FabricaError: It isn't that.
    """
    from fabrica_bench.compat.tracing import parse_range
    from fabrica_bench.wse.routes import Region

    columns, _, rows = text.partition(",")
    xs, ys = parse_range(columns), parse_range(rows)
    if xs is None or ys is None or xs[1] >= program.width or ys[1] >= program.height:
        raise FabricaError(
            f"{text!r} names no PEs of this program",
            place="--pes",
            remedy=f"write columns and rows, at most --pes 0-{program.width - 1},0-{program.height - 1}",
            code=ExitCode.USAGE,
        )
    return Region(*xs, *ys)
