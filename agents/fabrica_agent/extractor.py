"""Stage 0: facts that need no judgement, from the visible files only."""

from __future__ import annotations

from fabrica_agent.extraction.commands import sizes
from fabrica_agent.extraction.host import observe
from fabrica_agent.extraction.layout import layout_facts, tile_values, window_facts
from fabrica_agent.mesh.channels import read_mesh
from fabrica_agent.records import FunctionFact, LayoutFacts, ParamFact, TaskFacts, WindowFact
from fabrica_bench.plugins import AgentGaveUp, TaskView


def compute_file(view: TaskView) -> str:
    """Name of the file that PEs run.

    Raises:
        AgentGaveUp: The layout doesn't tell.
    """
    return layout_facts(_layout(view), view.size, "layout.csl").compute_file


def compute_sizes(view: TaskView) -> dict[str, int]:
    """Values of the compute file's integer parameters, where they are the same on all PEs."""
    return tile_values(_layout(view), view.size)


def _layout(view: TaskView) -> str:
    if "layout.csl" not in view.files:
        raise AgentGaveUp(["the visible bundle has no layout.csl"])
    return view.files["layout.csl"]


def extract(view: TaskView) -> TaskFacts:
    """Collect the facts of a task.

    Raises:
        AgentGaveUp: The visible files don't say what the compute file has to offer.
    """
    layout = _completed(layout_facts(_layout(view), view.size, "layout.csl"), view)
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


def _completed(layout: LayoutFacts, view: TaskView) -> LayoutFacts:
    """With what the text alone doesn't show: parameters from several structs, a mesh that a function gives."""
    if layout.params and layout.width is not None and layout.height is not None:
        return layout
    mesh = read_mesh(view.files, view.size, view.arch)
    if mesh is None:
        return layout
    params = layout.params or tuple(ParamFact(name=n, type=mesh.types.get(n)) for n in mesh.params)
    return layout.model_copy(update={"params": params, "width": mesh.width, "height": mesh.height})


def _entry(layout: LayoutFacts, window: WindowFact, launches: tuple[str, ...]) -> FunctionFact:
    """The function that does the work: launched by the host, and not the timing module's."""
    own = [f for f in layout.functions if f.name not in window.exports]
    launched = [f for f in own if f.name in launches]
    candidates = launched or own
    if len(candidates) != 1:
        names = ", ".join(f.name for f in candidates) or "none"
        raise AgentGaveUp([f"one entry function is expected, the layout exports: {names}"])
    return candidates[0]
