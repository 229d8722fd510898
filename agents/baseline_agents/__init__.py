"""Control agents: they check the harness rather than compete.

`reference` hands in the task's own reference kernel, so anything but a valid verdict means that the harness or the task
is broken. `null` hands in a program that compiles, runs and computes nothing, so a valid verdict means that the check
of the outputs is.
"""

from __future__ import annotations

from baseline_agents.null import NullAgent
from baseline_agents.reference import ReferenceAgent
from fabrica_bench.plugins import Agent, hookimpl

__all__ = ["NullAgent", "ReferenceAgent", "fabrica_agents"]


@hookimpl
def fabrica_agents() -> list[Agent]:
    """The two controls."""
    return [ReferenceAgent(), NullAgent()]
