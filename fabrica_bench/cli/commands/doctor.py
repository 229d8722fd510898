"""`fabrica-bench doctor`."""

from __future__ import annotations

from dataclasses import asdict

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import JsonOption, app, examples
from fabrica_bench.errors import ExitCode

_MARKS = {"ok": "ok", "absent": "--", "broken": "!!"}


@app.command(epilog=examples("fabrica-bench doctor", "fabrica-bench doctor --json"))
def doctor(json: JsonOption = False) -> None:
    """Say what this machine offers. For each gap it tells what to do about it.

    Exits with a failure only when something that every run needs is broken; an absent vendor SDK, GPU or key is fine.
    """
    from fabrica_bench.cli.doctor import State, run_checks

    checks = run_checks()
    broken = [check for check in checks if check.state is State.BROKEN]
    if json:
        console.write_json({"ok": not broken, "checks": [asdict(check) for check in checks]})
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            console.write(f"{_MARKS[check.state]}  {check.name.ljust(width)}  {check.detail}")
            if check.remedy:
                console.write(f"    {' ' * width}  -> {check.remedy}")
        console.write()
        console.write("ready to run" if not broken else "not ready: see the lines marked !!")
    raise typer.Exit(ExitCode.ENVIRONMENT if broken else ExitCode.OK)
