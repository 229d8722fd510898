"""The deterministic extractor of the model-driven agent: what can be told of a task, even with unreadable parts."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from fabrica_agent.extraction.commands import sizes
from fabrica_agent.extraction.host import observe
from fabrica_agent.extraction.layout import layout_facts, parse, walk, window_facts
from fabrica_agent.records import HostFacts, LayoutFacts, WindowFact
from fabrica_bench.csl import ast
from fabrica_bench.plugins import AgentGaveUp, TaskView

MEMCPY_COLORS: Final = (21, 22, 23)
MEMCPY_TASKS: Final = (27, 28, 29, 30, 31)
"""Local task ids of the host interface and of the system."""


class Reserved(BaseModel):
    """Hardware numbers that the compute file must leave alone."""

    model_config = ConfigDict(frozen=True)

    colors: tuple[int, ...]
    tasks: tuple[int, ...]
    input_queues: tuple[int, ...]
    output_queues: tuple[int, ...]


class VisibleFacts(BaseModel):
    """Facts of the visible files.

    Attributes:
        layout: Rectangle, params, exported symbols, colors that the layout gets, whether it routes.
        layout_tasks: Local task ids that the layout gets.
        window: Timing hooks.
        host: Arrays, placements and launch order of the host script.
        sizes: Named sizes of the build commands.
        reserved: Numbers of the host interface.
        problems: What could not be read, and why.
    """

    model_config = ConfigDict(frozen=True)

    layout: LayoutFacts | None
    layout_tasks: tuple[int, ...]
    window: WindowFact | None
    host: HostFacts | None
    sizes: dict[str, dict[str, int]]
    reserved: Reserved
    problems: tuple[str, ...]

    def launches(self) -> tuple[str, ...]:
        """Launched functions in order."""
        return () if self.host is None else self.host.launches


def gather(view: TaskView) -> VisibleFacts:
    """Collect the facts of a task from its visible files only."""
    problems: list[str] = []
    layout = window = host = None
    tasks: tuple[int, ...] = ()
    text = view.files.get("layout.csl", "")
    try:
        layout = layout_facts(text, view.size)
        tasks = _task_ids(text)
    except AgentGaveUp as error:
        problems += error.reasons
    if layout is not None:
        try:
            others = {name: body for name, body in view.files.items() if name != layout.compute_file}
            window = window_facts(others, layout.functions)
        except AgentGaveUp as error:
            problems += error.reasons
    modules = {n.removesuffix(".py"): t for n, t in view.files.items() if n.endswith(".py") and n != "run.py"}
    host = observe(view.files.get("run.py", ""), view.size, modules)
    if host.problem:
        problems.append(f"run.py: {host.problem}")
    return VisibleFacts(
        layout=layout,
        layout_tasks=tasks,
        window=window,
        host=host,
        sizes=sizes(view.files) or {"given": dict(view.size)},
        reserved=Reserved(
            colors=MEMCPY_COLORS,
            tasks=MEMCPY_TASKS,
            input_queues=(0, 1) if view.arch == "wse3" else (0,),
            output_queues=(0,),
        ),
        problems=tuple(problems),
    )


def _task_ids(text: str) -> tuple[int, ...]:
    calls = [n for n in walk(parse("layout.csl", text)) if isinstance(n, ast.BuiltinCall)]
    found = [
        c.args[0].value for c in calls if c.name == "get_local_task_id" and c.args and isinstance(c.args[0], ast.IntLit)
    ]
    return tuple(sorted(set(found)))
