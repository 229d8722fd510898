"""What a layout really configures, by evaluating it: our compiler runs the layout block with an empty compute file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fabrica_bench.csl import ir
from fabrica_bench.csl.diagnostics import CslError, Severity, render
from fabrica_bench.csl.driver import CompileOptions, compile_program
from fabrica_bench.plugins import TaskView

DIRECTIONS = {1: "NORTH", 2: "SOUTH", 4: "EAST", 8: "WEST", 16: "RAMP"}
MAX_LINES = 60
"""Routes that are written out; a large rectangle repeats itself."""


class EvaluatedLayout(BaseModel):
    """A layout after evaluation.

    Attributes:
        width, height: The rectangle.
        colors: Colors that it routes on any PE.
        routes: One line per color and kind of route, with the PEs that have it.
    """

    model_config = ConfigDict(frozen=True)

    width: int
    height: int
    colors: tuple[int, ...]
    routes: tuple[str, ...]


def evaluate_layout(view: TaskView, compute: str, params: Iterable[str], own: frozenset[int]) -> EvaluatedLayout | str:
    """Evaluate the layout of a task; what went wrong when that fails.

    Args:
        view: The task.
        compute: Name of the compute file, which an empty one stands for.
        params: Names of the params that it is given.
        own: Colors of the host interface, left out.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, text in view.files.items():
            if name.endswith(".csl") and name != compute and "/" not in name:
                (place / name).write_text(text, encoding="utf-8")
        (place / compute).write_text("".join(f"param {name};\n" for name in params), encoding="utf-8")
        options = CompileOptions(
            file=place / "layout.csl",
            arch="wse2" if view.arch == "wse2" else "wse3",
            fabric_offsets=(4, 1),
            params=view.size,
            memcpy=True,
            confine_imports=True,
        )
        try:
            program = compile_program(options).program
        except CslError as error:
            worst = next((d for d in error.diagnostics if d.severity is Severity.ERROR), error.diagnostics[0])
            return render(worst).replace(f"{folder}/", "")
    return _summary(program, own)


def _summary(program: ir.Program, own: frozenset[int]) -> EvaluatedLayout:
    found: dict[tuple[int, str], list[str]] = {}
    for y, row in enumerate(program.colors):
        for x, configured in enumerate(row):
            for color, config in configured.items():
                if color not in own:
                    found.setdefault((color, f"{_names(config.rx)} -> {_names(config.tx)}"), []).append(f"({x}, {y})")
    lines = [
        f"color {color}: {route} on {', '.join(pes[:12])}{' ...' if len(pes) > 12 else ''}"
        for (color, route), pes in sorted(found.items())
    ]
    colors = tuple(sorted({color for color, _ in found}))
    return EvaluatedLayout(width=program.width, height=program.height, colors=colors, routes=tuple(lines[:MAX_LINES]))


def _names(mask: int) -> str:
    return "+".join(name for bit, name in DIRECTIONS.items() if mask & bit) or "none"
