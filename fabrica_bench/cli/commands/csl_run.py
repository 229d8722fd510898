"""`fabrica-bench csl run` and `trace`."""

from __future__ import annotations

import json as json_module
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import JsonOption, checked_choice, examples
from fabrica_bench.cli.commands.csl import ARCHITECTURES, csl_app
from fabrica_bench.cli.commands.csl_process import Plan, copy_to, make_plan, run_plan, run_record, write_summary
from fabrica_bench.errors import ExitCode, FabricaError

Target = Annotated[
    Path,
    typer.Argument(
        metavar="DIR|SCRIPT",
        help="Folder with commands_<arch>.sh, or a shell script, or a host script such as run.py.",
        show_default=False,
    ),
]
Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGUMENTS]...", help="Arguments of the script; write -- before options.")
]
ScriptArch = Annotated[
    str | None, typer.Option("--arch", metavar="ARCH", help="Which commands_<arch>.sh of a folder. [default: wse3]")
]
MaxCycles = Annotated[
    int | None, typer.Option("--max-cycles", metavar="N", min=1, help="Budget of simulated cycles of each run.")
]
MaxSeconds = Annotated[
    float | None, typer.Option("--max-seconds", metavar="S", help="Budget of wall-clock seconds of each simulated run.")
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="S", help="Kill the script after this many seconds.")
]
ExecutorChoice = Annotated[
    str | None,
    typer.Option("--executor", metavar="NAME", help="Who executes the program: native or reference. Same results."),
]
WorkingFolder = Annotated[
    Path | None, typer.Option("--workdir", metavar="DIR", help="Copy the script's folder here and run it there.")
]


@csl_app.command(
    epilog=examples(
        "fabrica-bench csl run csl-examples/tutorials/gemv-01-complete-program",
        "fabrica-bench csl run my_program --arch wse2 --workdir /tmp/my_program",
        "fabrica-bench csl run my_program/run.py --max-cycles 1000000 -- --name out",
    )
)
def run(
    target: Target,
    arguments: Arguments = None,
    arch: ScriptArch = None,
    max_cycles: MaxCycles = None,
    max_seconds: MaxSeconds = None,
    timeout: Timeout = None,
    workdir: WorkingFolder = None,
    executor: ExecutorChoice = None,
    json: JsonOption = False,
) -> None:
    """Build and run a CSL program with the embedded toolchain: its own scripts, unmodified, from anywhere.

    The script runs in its own folder with our cslc and cs_python on PATH. Shows the cycles of each launch, and the
    simulator's report when the program faults or deadlocks. Exits with 0 when the script does, else with 1.
    """
    plan = script_plan(target, arguments, arch, workdir)
    variables = {**budget_variables(max_cycles, max_seconds), **executor_variable(executor)}
    done = run_plan(plan, variables, positive("--timeout", timeout), capture=json)
    if json:
        console.write_json(run_record(plan, done))
    else:
        write_summary(plan, done)
    raise typer.Exit(ExitCode.OK if done.ok else ExitCode.FAILURE)


@csl_app.command(
    epilog=examples(
        "fabrica-bench csl trace my_program",
        "fabrica-bench csl trace my_program --out traces --format perfetto --cycles 1000-5000",
        "fabrica-bench csl trace my_program/run.py --pes 0-3,0 -- --name out",
    )
)
def trace(
    target: Target,
    arguments: Arguments = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the traces.")] = Path("trace"),
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="F", help="perfetto or wse-viz; repeatable. [default: both]"),
    ] = None,
    cycles: Annotated[
        str | None, typer.Option("--cycles", metavar="FIRST-LAST", help="Only events of these cycles.")
    ] = None,
    pes: Annotated[
        str | None, typer.Option("--pes", metavar="X0-X1,Y0-Y1", help="Only these columns and rows of the program.")
    ] = None,
    max_events: Annotated[
        int | None, typer.Option("--max-events", metavar="N", min=1, help="Most events kept. [default: 500000]")
    ] = None,
    arch: ScriptArch = None,
    max_cycles: MaxCycles = None,
    max_seconds: MaxSeconds = None,
    timeout: Timeout = None,
    workdir: WorkingFolder = None,
    json: JsonOption = False,
) -> None:
    """Run a CSL program as `csl run` does, and write down what every PE did in every cycle.

    Each simulated run gives NAME.perfetto.json, for ui.perfetto.dev, and NAME.wse-viz.log, for the wse-viz viewer;
    NAME is that of the compiled program's folder. A run that faults or deadlocks is traced up to there.
    """
    plan = script_plan(target, arguments, arch, workdir)
    folder = out.absolute()
    environment = _trace_variables(folder, formats, cycles, pes, max_events)
    before = _summaries(folder)
    done = run_plan(
        plan, budget_variables(max_cycles, max_seconds) | environment, positive("--timeout", timeout), capture=json
    )
    traces = [record for path, record in _summaries(folder).items() if before.get(path) != record]
    if json:
        console.write_json({**run_record(plan, done), "traces": [record for record, _ in traces]})
    else:
        write_summary(plan, done)
        _write_traces(folder, [record for record, _ in traces])
    raise typer.Exit(ExitCode.OK if done.ok and traces else ExitCode.FAILURE)


def script_plan(target: Path, arguments: list[str] | None, arch: str | None, workdir: Path | None) -> Plan:
    """What to run, on a copy of its folder if one is wanted."""
    if arch is not None:
        arch = checked_choice("--arch", arch, ARCHITECTURES)
    plan = make_plan(target, arch, arguments or [])
    return copy_to(plan, workdir) if workdir is not None else plan


def executor_variable(name: str | None) -> dict[str, str]:
    """Environment of a run on the executor called `name`; None leaves the choice to the environment."""
    from fabrica_bench.wse.selection import EXECUTORS, VARIABLE

    return {VARIABLE: checked_choice("--executor", name, EXECUTORS)} if name is not None else {}


def budget_variables(max_cycles: int | None, max_seconds: float | None) -> dict[str, str]:
    """Settings of the host module for the simulator's budgets."""
    from fabrica_bench.compat.runtime import CYCLES_VARIABLE, SECONDS_VARIABLE

    variables = {}
    if max_cycles is not None:
        variables[CYCLES_VARIABLE] = str(max_cycles)
    if max_seconds is not None:
        variables[SECONDS_VARIABLE] = str(positive("--max-seconds", max_seconds))
    return variables


def positive(option: str, value: float | None) -> float | None:
    """The value of an option that must be positive, if it was given."""
    if value is not None and not 0 < value < float("inf"):
        raise FabricaError(f"{value:g} is no positive number", place=option, remedy="give seconds", code=ExitCode.USAGE)
    return value


def _trace_variables(
    folder: Path, formats: list[str] | None, cycles: str | None, pes: str | None, max_events: int | None
) -> dict[str, str]:
    """Settings for the host module; checked here, so that a slip costs no run."""
    from fabrica_bench.compat import tracing

    if folder.exists() and not folder.is_dir():
        raise FabricaError("the folder for the traces is a file", place=str(folder), remedy="choose another with --out")
    for option, text, example in (("--cycles", cycles, "1000-5000"), ("--pes", pes, "0-3,0-3")):
        parts = text.split(",") if text is not None else []
        wanted = 2 if option == "--pes" else 1
        if text is not None and (len(parts) != wanted or any(tracing.parse_range(part) is None for part in parts)):
            raise FabricaError(
                f"{text!r} makes no sense", place=option, remedy=f"write e.g. {option} {example}", code=ExitCode.USAGE
            )
    names = [checked_choice("--format", name, tuple(tracing.FORMATS)) for name in formats or tracing.FORMATS]
    return {
        tracing.DIRECTORY_VARIABLE: str(folder),
        tracing.FORMATS_VARIABLE: ",".join(names),
        tracing.CYCLES_VARIABLE: cycles or "",
        tracing.PES_VARIABLE: pes or "",
        tracing.EVENTS_VARIABLE: str(max_events) if max_events is not None else "",
    }


def _summaries(folder: Path) -> dict[str, tuple[dict[str, Any], int]]:
    """The traces of a folder: what their summaries say, and when these were written."""
    from fabrica_bench.compat.tracing import SUMMARY_SUFFIX

    found = {}
    for path in sorted(folder.glob(f"*{SUMMARY_SUFFIX}")) if folder.is_dir() else ():
        try:
            record = json_module.loads(path.read_text(encoding="utf-8"))
            files = {name: os.path.join(folder, file) for name, file in record["files"].items()}
            found[str(path)] = ({**record, "files": files}, path.stat().st_mtime_ns)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def _write_traces(folder: Path, records: list[dict[str, Any]]) -> None:
    if not records:
        console.write("no trace was written: the script started no program")
        return
    for record in records:
        for name, file in record["files"].items():
            console.write(f"{name}: {file}")
        if record.get("truncated_at_cycle") is not None:
            console.write(
                f"warning: the trace ends at cycle {record['truncated_at_cycle']} after {record['events']} events; "
                "narrow it with --cycles and --pes, or raise --max-events"
            )
    console.write("open perfetto.json files at https://ui.perfetto.dev, wse-viz.log files in wse-viz")
