"""Stage 0: facts that need no judgement, from the visible files only."""

from __future__ import annotations

from fabrica_agent.extraction.commands import sizes
from fabrica_agent.extraction.host import observe
from fabrica_agent.extraction.layout import layout_facts, window_facts
from fabrica_agent.records import FunctionFact, LayoutFacts, TaskFacts, WindowFact
from fabrica_bench.plugins import AgentGaveUp, TaskView


def extract(view: TaskView) -> TaskFacts:
    """Collect the facts of a task.

    Raises:
        AgentGaveUp: The visible files don't say what the compute file has to offer.
    """
    layout_name = next((n for n in view.files if n == "layout.csl"), None)
    if layout_name is None:
        raise AgentGaveUp(["the visible bundle has no layout.csl"])
    layout = layout_facts(view.files[layout_name], view.size, layout_name)
    window = window_facts({n: t for n, t in view.files.items() if n != layout.compute_file}, layout.functions)
    script = view.files.get("run.py", "")
    modules = {n.removesuffix(".py"): t for n, t in view.files.items() if n.endswith(".py") and n != "run.py"}
    host = observe(script, view.size, modules)
    return TaskFacts(
        layout=layout,
        window=window,
        host=host,
        entry=_entry(layout, window, host.launches),
        sizes=sizes(view.files) or {"given": dict(view.size)},
    )


def _entry(layout: LayoutFacts, window: WindowFact, launches: tuple[str, ...]) -> FunctionFact:
    """The function that does the work: launched by the host, and not the timing module's."""
    own = [f for f in layout.functions if f.name not in window.exports]
    launched = [f for f in own if f.name in launches]
    candidates = launched or own
    if len(candidates) != 1:
        names = ", ".join(f.name for f in candidates) or "none"
        raise AgentGaveUp([f"one entry function is expected, the layout exports: {names}"])
    return candidates[0]
