"""Attempts as a pandas table and as Parquet (extra `data`)."""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.report.data import RunReport
from fabrica_bench.runs.summary import RunRow
from fabrica_bench.scoring.verdict import Invalid, Valid

if TYPE_CHECKING:
    import pandas as pd


def attempts_frame(reports: Sequence[RunReport]) -> pd.DataFrame:
    """One row per attempt, of one run or several.

    Columns: run_id, agent, model, control, study, toolchain, arch, size, workflow, seed, task, level, attempt, verdict,
    predicate (that failed), reason, cycles, reference_cycles (device cycles), speedup (ratio reference/candidate),
    first_pass (evaluation, from 1), evaluations, input_tokens, output_tokens, cost_usd, seconds. What an attempt
    doesn't have is missing, never zero.

    Raises:
        FabricaError: pandas isn't installed.
    """
    pandas = _library("pandas")
    rows = [
        _row(report, attempt.row, attempt.first_pass, attempt.usage.model_dump())
        for report in reports
        for attempt in report.attempts
    ]
    frame = pandas.DataFrame(rows, columns=list(COLUMNS))
    for name, kind in COLUMNS.items():
        frame[name] = frame[name].astype(kind)
    return frame


COLUMNS = {
    "run_id": "string",
    "agent": "string",
    "model": "string",
    "control": "boolean",
    "study": "string",
    "toolchain": "string",
    "arch": "string",
    "size": "string",
    "workflow": "string",
    "seed": "Int64",
    "task": "string",
    "level": "Int64",
    "attempt": "Int64",
    "verdict": "string",
    "predicate": "string",
    "reason": "string",
    "cycles": "Int64",
    "reference_cycles": "Int64",
    "speedup": "Float64",
    "first_pass": "Int64",
    "evaluations": "Int64",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cost_usd": "Float64",
    "seconds": "Float64",
}
"""Columns and their pandas types; all of them know missing values."""


def parquet_bytes(report: RunReport) -> bytes:
    """The table as a Parquet file; the same records give the same bytes with the same library versions.

    Raises:
        FabricaError: pandas or pyarrow isn't installed.
    """
    _library("pyarrow")
    stream = io.BytesIO()
    attempts_frame([report]).to_parquet(stream, engine="pyarrow", index=False)
    return stream.getvalue()


def _row(report: RunReport, row: RunRow, first_pass: int | None, usage: dict[str, Any]) -> dict[str, Any]:
    config, verdict = report.manifest.config, row.verdict
    reported = usage["calls"] > 0
    return {
        "run_id": report.summary.run_id,
        "agent": report.summary.agent,
        "model": row.model,
        "control": report.summary.control,
        "study": config.get("study", ""),
        "toolchain": report.summary.toolchain.get("toolchain"),
        "arch": config["arch"],
        "size": config["size"],
        "workflow": config["workflow"],
        "seed": config.get("seed", 0),
        "task": row.task,
        "level": row.level,
        "attempt": row.attempt,
        "verdict": verdict.kind,
        "predicate": str(verdict.predicate) if isinstance(verdict, Invalid) else None,
        "reason": row.reason,
        "cycles": verdict.cycles if isinstance(verdict, Valid) else None,
        "reference_cycles": verdict.reference_cycles if isinstance(verdict, Valid) else None,
        "speedup": verdict.speedup if isinstance(verdict, Valid) else None,
        "first_pass": first_pass,
        "evaluations": row.evaluations,
        "input_tokens": usage["input_tokens"] if reported else None,
        "output_tokens": usage["output_tokens"] if reported else None,
        "cost_usd": usage["cost_usd"],
        "seconds": row.seconds,
    }


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise FabricaError(
            f"{name} is not installed", remedy="pip install 'fabrica-bench[data]'", code=ExitCode.ENVIRONMENT
        ) from error
