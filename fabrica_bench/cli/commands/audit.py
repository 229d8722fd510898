"""`fabrica-bench audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import JsonOption, app, examples
from fabrica_bench.errors import ExitCode, FabricaError


@app.command(
    epilog=examples(
        "fabrica-bench audit runs/fabrica-20260101-120000 --key my.key",
        "fabrica-bench audit RUN",
        "fabrica-bench audit verdict.json --key my.key",
    )
)
def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or a verdict as JSON; it is only read.")],
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="The revealed key. [default: the one kept for the run]")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Verify the commitments of a run, or of a single verdict, to its held-out inputs with the revealed key.

    Compares the key's fingerprint, the commitments in the manifest and those of every verdict, and looks for the key
    and the seeds in the records. Exits with 1 when something is not as it should be.
    """
    from fabrica_bench.runs.audit import audit_run, audit_verdict
    from fabrica_bench.runs.keys import find_key
    from fabrica_bench.runs.store import RunStore
    from fabrica_bench.tasks.seeds import HeldOutKey

    if run.is_file() and key is None:
        raise FabricaError(
            "a verdict's key isn't kept", remedy="give the revealed key with --key", code=ExitCode.USAGE, place=str(run)
        )
    known = HeldOutKey.from_file(key) if key is not None else find_key(RunStore.open(run).manifest.key_fingerprint)
    found = audit_verdict(run, known) if run.is_file() else audit_run(run, known)
    if json:
        console.write_json(found.to_json())
    else:
        for problem in found.problems:
            console.write(problem)
        console.write(f"{found.checked} commitments compared, {len(found.problems)} problems; key {known.fingerprint}")
    raise typer.Exit(ExitCode.OK if found.ok else ExitCode.FAILURE)
