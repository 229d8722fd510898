"""The deterministic extractor of the model-driven agent: what can be told of a task, even with unreadable parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel, ConfigDict

from fabrica_agent.extraction.commands import sizes
from fabrica_agent.extraction.host import observe
from fabrica_agent.extraction.layout import layout_facts, parse, window_facts
from fabrica_agent.records import HostFacts, LayoutFacts, ParamFact, WindowFact
from fabrica_agent.stages.routes import EvaluatedLayout, evaluate_layout
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk
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
        evaluated: Rectangle, colors and routes, from running the layout's own code.
        window: Timing hooks.
        host: Arrays, placements and launch order of the host script.
        sizes: Named sizes of the build commands.
        reserved: Numbers of the host interface.
        problems: What could not be read, and why.
    """

    model_config = ConfigDict(frozen=True)

    layout: LayoutFacts | None
    layout_tasks: tuple[int, ...]
    evaluated: EvaluatedLayout | None
    window: WindowFact | None
    host: HostFacts | None
    sizes: dict[str, dict[str, int]]
    reserved: Reserved
    problems: tuple[str, ...]

    def colors(self) -> tuple[int, ...]:
        """Colors that belong to the layout."""
        got = () if self.layout is None else self.layout.colors
        return tuple(sorted({*got, *(() if self.evaluated is None else self.evaluated.colors)}))

    def rectangle(self) -> tuple[int, int] | None:
        """PE columns and rows, None where they can't be told."""
        if self.evaluated is not None:
            return self.evaluated.width, self.evaluated.height
        layout = self.layout
        if layout is None or layout.width is None or layout.height is None:
            return None
        return layout.width, layout.height

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
        layout = layout.model_copy(update={"params": _params(text, layout)})
        tasks = _task_ids(text)
    except AgentGaveUp as error:
        problems += error.reasons
    evaluated = None
    if layout is not None:
        found = evaluate_layout(view, layout.compute_file, [p.name for p in layout.params], frozenset(MEMCPY_COLORS))
        if isinstance(found, str):
            problems.append(found)
        else:
            evaluated = found
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
        evaluated=evaluated,
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


def _params(text: str, layout: LayoutFacts) -> tuple[ParamFact, ...]:
    """Params of the compute file, also where the layout puts their struct together from parts."""
    tree = parse("layout.csl", text)
    known = {param.name: param for param in layout.params}
    for call in walk(tree):
        if isinstance(call, ast.BuiltinCall) and call.name == "set_tile_code" and len(call.args) > 3:
            for name in _field_names(tree, call.args[3], set()):
                memcpy = "comptime_struct" if name == layout.memcpy_param else None
                known.setdefault(name, ParamFact(name=name, type=memcpy))
    return tuple(known.values())


def _field_names(tree: ast.File, e: ast.Expr, seen: set[str]) -> Iterator[str]:
    """Names in a struct: a literal, several joined, one in a constant, or one that a function returns."""
    if isinstance(e, ast.InitList):
        yield from (init.name for init in e.inits if init.name is not None)
    elif isinstance(e, ast.BuiltinCall) and e.name == "concat_structs":
        for part in e.args:
            yield from _field_names(tree, part, seen)
    elif isinstance(e, ast.If):
        for branch in (e.then, e.otherwise):
            if isinstance(branch, ast.Expr):
                yield from _field_names(tree, branch, seen)
    elif isinstance(e, ast.Ident) and e.name not in seen:
        for node in walk(tree):
            if isinstance(node, ast.VarDecl) and node.name == e.name and node.init is not None:
                yield from _field_names(tree, node.init, {*seen, e.name})
    elif isinstance(e, ast.Call) and isinstance(e.callee, ast.Ident) and e.callee.name not in seen:
        for node in walk(tree):
            if isinstance(node, ast.FnDecl) and node.name == e.callee.name:
                for inner in walk(node):
                    if isinstance(inner, ast.Return) and inner.value is not None:
                        yield from _field_names(tree, inner.value, {*seen, e.callee.name})
