"""The positive control.

Agents never see the reference kernel, this one included: it hands in no file at all, and the harness, which knows a
control by its flag, completes it from the reference bundle.
"""

from __future__ import annotations

from fabrica_bench.plugins import AgentTools, Budget, Candidate, TaskView


class ReferenceAgent:
    """Stands for the reference kernel of every task."""

    name = "reference"
    model = "none"
    control = True

    def translate(self, view: TaskView, tools: AgentTools, budget: Budget) -> Candidate:
        """An empty candidate, which stands for the reference."""
        return Candidate(files={}, notes=("the task's own reference kernel",), model=self.model)
