"""The single-attempt baseline: one answer of the model, handed in as it is.

No retrieval, no compiler, no review, no repair, no optimization: what a model can do alone.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final

from fabrica_bench.plugins import AgentGaveUp, AgentTools, Budget, Candidate, ModelRequest, TaskView

SYSTEM: Final = (
    "You translate CUDA programs to CSL, the language of the Cerebras wafer-scale engine. "
    "Hand in the complete text of the files to write."
)


class SingleShotAgent:
    """Asks the model once."""

    name = "single-shot"
    control = False

    @property
    def model(self) -> str:
        """The model in use."""
        return os.environ.get("FABRICA_AGENT_MODEL", "none")

    def translate(self, view: TaskView, tools: AgentTools, budget: Budget) -> Candidate:
        """The model's first answer.

        Raises:
            AgentGaveUp: No model is configured.
            ModelError: It gave no answer.
        """
        if tools.model is None:
            raise AgentGaveUp(["it needs a model; choose one with --model"])
        texts = {name: {"type": "string"} for name in view.editable}
        schema: dict[str, Any] = {"type": "object", "properties": texts, "required": list(view.editable)}
        request = ModelRequest(stage="single-shot", system=SYSTEM, user=prompt(view), answer_schema=schema)
        reply = tools.complete(request)
        files = {name: str(reply.answer[name]) for name in view.editable}
        return Candidate(files=files, notes=("one attempt",), model=tools.model)


def prompt(view: TaskView) -> str:
    """Everything that the task shows."""
    shown = {name: text for name, text in view.files.items() if name not in view.editable or view.workflow != "W1"}
    parts = [
        f"Task {view.name}, workflow {view.workflow}, target {view.arch}, sizes {json.dumps(view.size)}",
        f"Files to write: {', '.join(view.editable)}",
        view.task_md,
        f"=== kernel.cu ===\n{view.cuda}",
        *(f"=== {name} ===\n{text}" for name, text in sorted(shown.items())),
    ]
    return "\n\n".join(parts)
