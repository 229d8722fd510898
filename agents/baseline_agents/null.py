"""The negative control: a program that keeps every promise of the layout and computes nothing.

It is derived from the visible files alone: the layout says which params the program takes and which symbols it exports.
It builds, runs, stamps its time and returns to the host; its outputs stay as they were.
"""

from __future__ import annotations

from typing import Final

from baseline_agents.layout_facts import Export, LayoutFacts, read_layout
from fabrica_bench.plugins import AgentGaveUp, AgentTools, Budget, Candidate, TaskView

DATA_BYTES: Final = 40 * 1024
"""Memory for all tensors together; a PE has 48 KiB, and some must be left for code."""

ELEMENT_BYTES: Final = {"f32": 4, "i32": 4, "u32": 4, "f16": 2, "i16": 2, "u16": 2}

WINDOW_FILE: Final = "window.csl"


class NullAgent:
    """Hands in a program that computes nothing."""

    name = "null"
    model = "none"
    control = True

    def translate(self, view: TaskView, tools: AgentTools, budget: Budget) -> Candidate:
        """A program for every editable PE file; an editable layout is handed back unchanged."""
        files = {name: self._file(view, name) for name in view.editable}
        return Candidate(files=files, notes=("computes nothing",), model=self.model)

    def _file(self, view: TaskView, name: str) -> str:
        if name in view.files:
            return view.files[name]
        layout = view.files.get("layout.csl")
        if layout is None:
            raise AgentGaveUp(["the task shows no layout.csl, so its interface is unknown"])
        return null_program(read_layout(layout, name))


def null_program(facts: LayoutFacts) -> str:
    """The text of a program that keeps the promises and does nothing else."""
    tensors = [export for export in facts.exports if export.element is not None]
    functions = [export for export in facts.exports if export.parameters is not None]
    lines = [f"param {name};" for name in facts.params]
    lines += ["", 'const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);', ""]
    for tensor in tensors:
        lines += _tensor(tensor, DATA_BYTES // len(tensors))
    for function in functions:
        lines += _function(function)
    lines += ["comptime {", *(f"  {_export(export)}" for export in facts.exports), "}"]
    return "\n".join(lines) + "\n"


def _tensor(tensor: Export, room: int) -> list[str]:
    element = str(tensor.element).removeprefix("const ")
    count = room // ELEMENT_BYTES.get(element, 4)
    keyword = "var" if tensor.mutable else "const"
    return [
        f"var {tensor.name}_data = @zeros([{count}]{element});",
        f"{keyword} {tensor.name}_pointer: {tensor.type_text} = &{tensor.name}_data;",
        "",
    ]


def _function(function: Export) -> list[str]:
    parameters = ", ".join(f"unused_{index}: {kind}" for index, kind in enumerate(function.parameters or ()))
    return [f"fn {function.name}({parameters}) void {{", "  sys_mod.unblock_cmd_stream();", "}", ""]


def _export(export: Export) -> str:
    if export.parameters is not None:
        return f"@export_symbol({export.name});"
    return f'@export_symbol({export.name}_pointer, "{export.name}");'
