"""`fabrica-bench export` and `fabrica-bench proxy`: training data from runs, and metrics of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import JsonOption, app, checked_choice, examples
from fabrica_bench.errors import FabricaError, UnknownNameError

KINDS: Final = ("sft", "preference")
TURN_LABELS: Final = (1, 0, -1)
"""See `Turn.label`."""


@app.command(
    epilog=examples(
        "fabrica-bench export sft runs/a runs/b --out data/sft.jsonl",
        "fabrica-bench export preference runs/a --out data/pairs.parquet --cap 50",
        "fabrica-bench export sft runs/a --out all.jsonl --label 1 --label 0 --with-benchmark",
    )
)
def export(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="sft or preference.")],
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A .jsonl or .parquet file.")],
    cap: Annotated[int, typer.Option("--cap", metavar="N", min=1, help="Records per kernel at most.")] = 20,
    label: Annotated[
        list[int] | None,
        typer.Option("--label", metavar="L", help="Turn labels to keep (sft): 1 passed, 0 passed later, -1 never."),
    ] = None,
    with_benchmark: Annotated[
        bool,
        typer.Option("--with-benchmark", help="Keep tasks of the test split; such data must not train a competitor."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write training data from the model calls of runs.

    Labels come from the harness's own evaluations. Duplicates, leaks, turns of a design that was given up and tasks of
    the test split are left out; what each filter took is shown.
    """
    from fabrica_bench.export.training import Dropped, Filters, preferences, supervised, write_records
    from fabrica_bench.export.turns import read_turns

    chosen = checked_choice("KIND", kind, KINDS)
    for number in label or ():
        if number not in TURN_LABELS:
            raise UnknownNameError("value of --label", str(number), map(str, TURN_LABELS))
    dropped = Dropped()
    filters = Filters(cap=cap, benchmark_disjoint=not with_benchmark, labels=frozenset(label or (1,)))
    turns = read_turns(runs)
    records = (supervised if chosen == "sft" else preferences)(turns, filters, dropped)
    write_records(out, records)
    if json:
        console.write_json(
            {"turns": len(turns), "records": len(records), "dropped": dict(dropped.counts), "out": str(out)}
        )
        return
    console.write(f"{len(records)} records of {console.counted(len(turns), 'turn')} in {out}")
    for reason, count in sorted(dropped.counts.items()):
        console.write(f"  left out, {reason}: {count}")
    if not turns:
        console.note("these runs hold no calls of a model; data comes from agents that ask one, see `--model` of `run`")


@app.command(epilog=examples("fabrica-bench proxy predictions.jsonl", "fabrica-bench proxy predictions.jsonl --json"))
def proxy(
    predictions: Annotated[
        Path, typer.Argument(metavar="FILE", help="One prediction a line; see docs/training-data.md.")
    ],
    json: JsonOption = False,
) -> None:
    """Metrics of predicted programs that need no compiler: usable, contract, chrF, vocabulary."""
    from dataclasses import asdict

    from pydantic import ValidationError

    from fabrica_bench.export.proxy import Prediction, proxy_scores

    found = []
    try:
        lines = predictions.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FabricaError(
            f"byte {error.start} is not UTF-8", place=str(predictions), remedy="write the predictions as UTF-8"
        ) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(Prediction.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise FabricaError(
                f"not a prediction: {where or 'the line'}: {first['msg']}",
                place=f"{predictions}:{number}",
                remedy="docs/training-data.md shows a line",
            ) from error
    scores = asdict(proxy_scores(found))
    if json:
        console.write_json(scores)
        return
    for name, value in scores.items():
        console.write(f"{name}: {'-' if value is None else value if isinstance(value, int) else f'{value:.4g}'}")
