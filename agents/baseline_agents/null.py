"""The negative control: a program that keeps every promise of a task's interface and computes nothing.

It is derived from what any agent sees: the layout says which params the program takes and which symbols it exports, the
description gives the types of the params and the imports to keep, and `window.csl` has the stamps. The program builds,
runs, takes a plausible time and returns to the host; its outputs stay as they were, so that nothing but the check of
the outputs can tell that it is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from baseline_agents.layout_facts import Export, exported_names, read_layout
from fabrica_bench.plugins import AgentGaveUp, AgentTools, Budget, Candidate, TaskView

DATA_BYTES: Final = 36 * 1024
"""Memory for all tensors together; a PE has 48 KiB, and some must be left for code and the idling."""

IDLE: Final = """\
var idle_data = @zeros([1024]f32);
const idle_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1024} -> idle_data[i] });

// Takes some thousand cycles: a program that is too fast to be true is refused before anybody looks at its outputs.
fn idle() void {
  for (@range(u16, 8)) |_| {
    @fmovs(idle_dsd, 0.0);
  }
}
"""

ELEMENT_BYTES: Final = {"f32": 4, "i32": 4, "u32": 4, "f16": 2, "i16": 2, "u16": 2}

LAYOUT_FILE: Final = "layout.csl"
WINDOW_FILE: Final = "window.csl"

_FENCED_CSL: Final = re.compile(r"^[ ]*```csl\n(.*?)^[ ]*```", re.DOTALL | re.MULTILINE)
_CODE_SPAN: Final = re.compile(r"`([^`\n]+)`")
_TYPED_NAME: Final = re.compile(r"(?:param )?(\w+): (.+)")


class NullAgent:
    """Hands in programs that compute nothing."""

    name = "null"
    model = "none"
    control = True

    def translate(self, view: TaskView, tools: AgentTools, budget: Budget) -> Candidate:
        """A program for every editable file; an editable layout is handed back unchanged."""
        files = {
            name: view.files[LAYOUT_FILE] if name == LAYOUT_FILE else null_program(view, name) for name in view.editable
        }
        return Candidate(files=files, notes=("computes nothing",), model=self.model)


def null_program(view: TaskView, name: str) -> str:
    """The text of a PE program that keeps the interface and does nothing else.

    Raises:
        AgentGaveUp: The task's visible files don't say what the interface is.
    """
    missing = [file for file in (LAYOUT_FILE, WINDOW_FILE) if file not in view.files]
    preamble = interface_preamble(view.task_md)
    if missing or not preamble:
        what = ", ".join(missing) or "block of imports to keep in the description"
        raise AgentGaveUp([f"the interface of {name} is unknown: there is no {what}"])
    facts = read_layout(view.files[LAYOUT_FILE], name)
    by_window = exported_names(view.files[WINDOW_FILE])
    exports = [export for export in facts.exports if export.name not in by_window]
    tensors = [export for export in exports if export.element is not None]
    types = param_types(view.task_md)
    params = [_param(param, types) for param in facts.params if f"param {param}:" not in preamble]
    lines = [*params, preamble, "", *IDLE.splitlines(), ""]
    for tensor in tensors:
        lines += _tensor(tensor, DATA_BYTES // len(tensors))
    for function in exports:
        if function.parameters is not None:
            lines += _function(function)
    lines += ["comptime {", *(f"  {_export(export)}" for export in exports), "}"]
    return "\n".join(lines) + "\n"


def interface_preamble(task_md: str) -> str:
    """The declarations that a description shows as the ones to keep; empty when it shows none."""
    for block in _FENCED_CSL.findall(task_md):
        if f'@import_module("{WINDOW_FILE}"' in block:
            return "\n".join(line.strip() for line in block.splitlines())
    return ""


def param_types(task_md: str) -> dict[str, str]:
    """Types of params by name: from code spans such as `n: u16`, where a name before the span shares its type."""
    types: dict[str, str] = {}
    for line in task_md.splitlines():
        current: str | None = None
        for span in reversed(_CODE_SPAN.findall(line)):
            typed = _TYPED_NAME.fullmatch(span)
            if typed is not None:
                current = typed[2]
                types.setdefault(typed[1], current)
            elif current is not None and span.isidentifier():
                types.setdefault(span, current)
    return types


def _param(name: str, types: Mapping[str, str]) -> str:
    # Without a known type the param takes that of the value which the layout gives it.
    return f"param {name}: {types[name]};" if name in types else f"param {name};"


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
    return [
        f"fn {function.name}({parameters}) void {{",
        "  window.start();",
        "  idle();",
        "  window.end();",
        "  sys_mod.unblock_cmd_stream();",
        "}",
        "",
    ]


def _export(export: Export) -> str:
    if export.parameters is not None:
        return f"@export_symbol({export.name});"
    return f'@export_symbol({export.name}_pointer, "{export.name}");'
