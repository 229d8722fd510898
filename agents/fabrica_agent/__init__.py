"""Fabrica, the reference agent: translates CUDA to CSL by compilation, or with a language model."""

from __future__ import annotations

from fabrica_bench.plugins import Agent, hookimpl


@hookimpl
def fabrica_agents() -> list[Agent]:
    """The agents of this package."""
    # Imported here so that listing the agents doesn't load libclang.
    from fabrica_agent.agent import FabricaAgent

    return [FabricaAgent()]
