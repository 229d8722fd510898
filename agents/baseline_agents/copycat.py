"""The control for the search for copies.

No agent can reach the reference kernel, so this one hands in no file; the harness, which knows a control by its flag,
supplies the reference with every name changed, on other lines and without its comments. That program is right and as
fast as the reference: nothing but the check for leakage can tell that it must not count.
"""

from __future__ import annotations

from fabrica_bench.plugins import AgentTools, Budget, Candidate, TaskView


class CopycatAgent:
    """Stands for the reference kernel of every task, in disguise."""

    name = "copycat"
    model = "none"
    control = True

    def translate(self, view: TaskView, tools: AgentTools, budget: Budget) -> Candidate:
        """An empty candidate, which stands for the disguised reference."""
        return Candidate(files={}, notes=("the task's own reference kernel in disguise",), model=self.model)
