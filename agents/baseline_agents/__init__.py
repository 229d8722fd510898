"""Control agents, which check the harness rather than compete, and the single-attempt baseline.

`reference` hands in the task's own reference kernel, so anything but a valid verdict means that the harness or the
task is broken. Of the others none may ever be valid: `null` hands in a program that compiles, runs and computes
nothing, and checks the comparison of outputs; `copycat` stands for the reference in disguise, and checks the search for
copies; `cheat` tries to steal, to forge and to trick the timing window. `single-shot` is no control:
it hands in a model's first answer.
"""

from __future__ import annotations

from baseline_agents.cheat import CheatAgent
from baseline_agents.copycat import CopycatAgent
from baseline_agents.null import NullAgent
from baseline_agents.reference import ReferenceAgent
from baseline_agents.single_shot import SingleShotAgent
from fabrica_bench.plugins import Agent, hookimpl

__all__ = ["CheatAgent", "CopycatAgent", "NullAgent", "ReferenceAgent", "SingleShotAgent", "fabrica_agents"]


@hookimpl
def fabrica_agents() -> list[Agent]:
    """The controls, and the baseline."""
    return [ReferenceAgent(), NullAgent(), CopycatAgent(), CheatAgent(), SingleShotAgent()]
