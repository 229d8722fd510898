"""The fixture task Double-It and candidates for it; see tests/fixtures/tasks/double-it."""

from __future__ import annotations

from pathlib import Path

from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import InputCase, held_out_cases, held_out_seeds, visible_cases
from fabrica_bench.scoring.scorer import Scorer
from fabrica_bench.tasks import Task, load_task
from fabrica_bench.tasks.canary import without_canary
from fabrica_bench.tasks.seeds import HeldOutKey
from fabrica_bench.toolchains.doubles import ScriptedToolchain

FIXTURE_TASKS = Path(__file__).parents[1] / "fixtures" / "tasks"
KEY = HeldOutKey(bytes(range(32)))


def double_it() -> Task:
    """The fixture task."""
    return load_task("Double-It", root=FIXTURE_TASKS)


def expert() -> str:
    """Text of its reference kernel."""
    return (FIXTURE_TASKS / "double-it" / "csl" / "pe.csl").read_text(encoding="utf-8")


def plain() -> str:
    """Text of its plain kernel without the canary: a candidate that owes nothing to the expert's."""
    return without_canary((FIXTURE_TASKS / "double-it" / "csl" / "plain.csl").read_text(encoding="utf-8"))


def candidate(**orders: str | int) -> dict[str, str]:
    """The plain kernel with directives for the scripted toolchain."""
    lines = "".join(f"//! {name}={value}\n" for name, value in orders.items())
    return {"pe.csl": lines + plain()}


def scripted_scorer() -> tuple[Scorer, ScriptedToolchain]:
    """A scorer of Double-It on the scripted toolchain."""
    toolchain = ScriptedToolchain()
    return Scorer(Conditions(double_it(), toolchain)), toolchain


def all_cases() -> tuple[InputCase, ...]:
    """Three visible and five held-out inputs."""
    task = double_it()
    return (*visible_cases(task), *held_out_cases(task, held_out_seeds(task, KEY)))
