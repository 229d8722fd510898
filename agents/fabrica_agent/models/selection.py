"""Choosing the model from the environment variable FABRICA_AGENT_MODEL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fabrica_agent.models.exchange import Exchange
from fabrica_agent.models.protocol import ModelError, ModelProvider
from fabrica_agent.models.replay import Recorder, Replay

VARIABLE = "FABRICA_AGENT_MODEL"
RECORD_VARIABLE = "FABRICA_AGENT_RECORD"
NO_MODEL = "lowering"


def model_name(environment: Mapping[str, str]) -> str:
    """What records call the model: `deterministic` for the built-in lowering, else the provider's kind."""
    kind = environment.get(VARIABLE, NO_MODEL).partition(":")[0]
    return "deterministic" if kind == NO_MODEL else kind


def provider(environment: Mapping[str, str]) -> ModelProvider | None:
    """The configured provider; None for the deterministic lowering.

    Raises:
        ModelError: The setting isn't understood, or the provider can't start.
    """
    setting = environment.get(VARIABLE, NO_MODEL)
    kind, _, argument = setting.partition(":")
    chosen: ModelProvider
    if kind == NO_MODEL and not argument:
        return None
    if kind == "replay" and argument:
        chosen = Replay(Path(argument))
    elif kind == "exchange" and argument:
        chosen = Exchange(Path(argument))
    else:
        raise ModelError(f"{VARIABLE}={setting!r} is not understood; use lowering, replay:FILE or exchange:DIR")
    record = environment.get(RECORD_VARIABLE)
    return Recorder(chosen, Path(record)) if record else chosen
