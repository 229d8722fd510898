"""`fabrica-bench csl profile`."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import JsonOption, examples
from fabrica_bench.cli.commands.csl import csl_app
from fabrica_bench.cli.commands.csl_process import run_plan, run_record, write_summary
from fabrica_bench.cli.commands.csl_run import (
    Arguments,
    MaxCycles,
    MaxSeconds,
    ScriptArch,
    Target,
    Timeout,
    WorkingFolder,
    budget_variables,
    positive,
    script_plan,
)
from fabrica_bench.cli.console import Column
from fabrica_bench.errors import ExitCode, FabricaError

if TYPE_CHECKING:
    from fabrica_bench.wse.profile import Profile

DEFAULT_ROWS: Final = 12


@csl_app.command(
    epilog=examples(
        "fabrica-bench csl profile my_program",
        "fabrica-bench csl profile my_program --rows 30 --out profiles",
        "fabrica-bench csl profile my_program/run.py --silicon -- --name out",
    )
)
def profile(
    target: Target,
    arguments: Arguments = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the profiles.")] = Path("profile"),
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=1, help="Rows of each list that are shown; files hold all.")
    ] = DEFAULT_ROWS,
    silicon: Annotated[
        bool,
        typer.Option("--silicon", help="Estimate also what the operations would take on hardware; scores never do."),
    ] = False,
    arch: ScriptArch = None,
    max_cycles: MaxCycles = None,
    max_seconds: MaxSeconds = None,
    timeout: Timeout = None,
    workdir: WorkingFolder = None,
    json: JsonOption = False,
) -> None:
    """Run a CSL program as `csl run` does, and show where its cycles went.

    Shows cycles by source line, task, vector operation and reason of stalls, and wavelets by color. Each simulated run
    gives NAME.profile.json with everything, and NAME.profile.svg, a heat map of the PEs and links; NAME is that of the
    compiled program's folder.
    """
    from fabrica_bench.compat.tracing import PROFILE_VARIABLE

    folder = out.absolute()
    if folder.exists() and not folder.is_dir():
        raise FabricaError("the folder for the profiles is a file", place=str(out), remedy="choose another with --out")
    plan = script_plan(target, arguments, arch, workdir)
    before = _stamps(folder)
    environment = budget_variables(max_cycles, max_seconds) | {PROFILE_VARIABLE: str(folder)}
    done = run_plan(plan, environment, positive("--timeout", timeout), capture=json)
    files = [path for path, stamp in _stamps(folder).items() if before.get(path) != stamp]
    profiles = {path: _load(path) for path in files}
    if json:
        records = [_record(path, found, silicon) for path, found in profiles.items()]
        console.write_json({**run_record(plan, done), "profiles": records})
    else:
        write_summary(plan, done)
        for path, found in profiles.items():
            _write_profile(path, found, rows, silicon)
        if not profiles:
            console.write("no profile was written: the script started no program")
    raise typer.Exit(ExitCode.OK if done.ok and profiles else ExitCode.FAILURE)


def _stamps(folder: Path) -> dict[Path, int]:
    from fabrica_bench.compat.profiling import PROFILE_SUFFIX

    found = sorted(folder.glob(f"*{PROFILE_SUFFIX}")) if folder.is_dir() else []
    return {path: path.stat().st_mtime_ns for path in found}


def _load(path: Path) -> Profile:
    from fabrica_bench.wse.profile import profile_from_record

    try:
        return profile_from_record(json_module.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FabricaError(f"the profile can't be read: {error}", place=str(path), remedy="run again") from error


def _record(path: Path, found: Profile, silicon: bool) -> dict[str, Any]:
    record = {"file": str(path), **found.to_record()}
    if silicon:
        from fabrica_bench.wse.silicon import estimate

        record["silicon_estimate"] = estimate(found)._asdict()
    return record


# ------------------------------------------------------------------------------------------------------- text


def _write_profile(path: Path, found: Profile, rows: int, silicon: bool) -> None:
    from fabrica_bench.compat.profiling import PICTURE_SUFFIX, PROFILE_SUFFIX

    picture = path.with_name(path.name.removesuffix(PROFILE_SUFFIX) + PICTURE_SUFFIX)
    pes = found.width * found.height
    busy = sum(pe.busy for pe in found.pes)
    share = busy / max(found.cycles * pes, 1)
    console.write("")
    console.write(f"{path.name}: {found.cycles:,} cycles on {pes} PE(s) of {found.arch}; {share:.0%} of them busy")
    _write_lines(found, rows, busy)
    _write_tasks(found, rows)
    _write_operations(found, rows)
    _write_stalls(found, rows)
    _write_colors(found)
    if silicon:
        _write_estimate(found)
    console.write(f"all of it: {path}" + (f", picture: {picture}" if picture.is_file() else ""))


def _write_lines(found: Profile, rows: int, busy: int) -> None:
    columns = [Column("line"), Column("cycles", True), Column("share", True), Column("scalar", True)]
    columns.append(Column("operations", True))
    table = [
        [
            f"{line.file}:{line.line}",
            f"{line.cycles:,}",
            f"{line.cycles / max(busy, 1):.1%}",
            f"{line.scalar:,}",
            f"{line.operations:,}",
        ]
        for line in found.lines[:rows]
    ]
    _write_table("main-thread cycles by source line, over all PEs", columns, table)


def _write_tasks(found: Profile, rows: int) -> None:
    columns = [Column("task"), Column("kind"), Column("runs", True), Column("cycles", True)]
    table = [[task.name, task.kind, f"{task.runs:,}", f"{task.cycles:,}"] for task in found.tasks[:rows]]
    _write_table("tasks", columns, table)


def _write_operations(found: Profile, rows: int) -> None:
    columns = [Column("operation"), Column("line"), Column("thread"), Column("count", True)]
    columns += [Column("elements", True), Column("cycles", True)]
    table = [
        [
            f"@{op.op}",
            f"{op.file}:{op.line}",
            "micro" if op.microthread else "main",
            f"{op.count:,}",
            f"{op.elements:,}" if 0 <= op.elements < 1 << 31 else "unlimited",
            f"{op.cycles:,}",
        ]
        for op in found.operations[:rows]
    ]
    _write_table("DSD operations", columns, table)


def _write_stalls(found: Profile, rows: int) -> None:
    columns = [Column("reason"), Column("what"), Column("line"), Column("thread"), Column("cycles", True)]
    table = [
        [
            stall.reason,
            stall.what,
            f"{stall.file}:{stall.line}",
            "micro" if stall.microthread else "main",
            f"{stall.cycles:,}",
        ]
        for stall in found.stalls[:rows]
    ]
    _write_table("stalls of DSD operations", columns, table)


def _write_colors(found: Profile) -> None:
    columns = [Column("color"), Column("wavelets over links", True), Column("busiest link", True)]
    table = [[str(color), f"{count:,}", f"{most:.1%}"] for color, (count, most) in found.color_totals().items()]
    _write_table("links", columns, table)


def _write_table(title: str, columns: list[Column], rows: list[list[str]]) -> None:
    if rows:
        console.write("")
        console.write_table(columns, rows, title=title)


def _write_estimate(found: Profile) -> None:
    from fabrica_bench.wse.silicon import estimate

    result = estimate(found)
    console.write("")
    console.write(
        f"hardware, ESTIMATE: DSD operations of memory vectors would take {result.operations:,} instead of "
        f"{result.simulated:,} cycles (factor {result.factor:.2f}); never part of a score"
    )
