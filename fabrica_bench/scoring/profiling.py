"""Where a candidate's cycles go, as text for an agent: one run on a visible input with the simulator's profiler on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import InputCase
from fabrica_bench.scoring.validity import run_request
from fabrica_bench.scoring.workshop import Workshop

ROWS: Final = 8
"""Rows of each list."""


def profile_text(conditions: Conditions, files: Mapping[str, str], case: InputCase) -> str:
    """A summary of the profile; says why there is none when there is none.

    Raises:
        FabricaError: The machine or the harness failed.
    """
    with Workshop(conditions) as workshop:
        built = workshop.build(files)
        if built.result.artifact is None:
            return "no profile: it does not compile"
        arrays = conditions.task.inputs(case.seed, conditions.parameters, case.distribution)
        request = replace(run_request(conditions, built.stage, case, arrays, False), profile=True)
        result = conditions.toolchain.run(built.result.artifact, request)
        if result.fault is not None:
            return f"no profile: {result.fault.kind}: {built.stage.scrub(result.fault.message)}"
        return _summary(request.workdir)


def _summary(folder: Path) -> str:
    for path in sorted(folder.rglob("*.profile.json")):
        return summarise_profile(json.loads(path.read_text(encoding="utf-8")))
    return "no profile: this toolchain has no profiler"


def summarise_profile(record: dict[str, Any]) -> str:
    """The heads of a profile's lists, in the order of cost."""
    pes = record["width"] * record["height"]
    busy = sum(pe["busy"] for pe in record["pes"])
    lines = [f"{record['cycles']} cycles on {pes} PE(s); busy {busy / max(1, record['cycles'] * pes):.0%} of the time"]
    lines += ["main-thread cycles by line, all PEs:"]
    lines += [
        f"  {Path(row['file']).name}:{row['line']}: {row['scalar'] + row['operations']}"
        for row in record["lines"][:ROWS]
    ]
    for title in ("operations", "stalls", "tasks"):
        if record[title]:
            lines.append(f"{title}:")
            lines += ["  " + ", ".join(map(_field, row, row.values())) for row in record[title][:ROWS]]
    return "\n".join(lines)


def _field(name: str, value: Any) -> str:
    return f"{name}={Path(value).name if name == 'file' else value}"
