"""Choosing the model from one word: `lowering`, `replay:PATH`, `exchange:DIR`, `PROVIDER:MODEL[@URL]`.

`replay-in-order:PATH` is a replay that forgives prompts which have changed since the recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.models.provider import ModelProvider
from fabrica_bench.plugins import ModelError

VARIABLE: Final = "FABRICA_AGENT_MODEL"
"""What the agent's process is told: the model's public name."""

NO_MODEL: Final = "lowering"
REPLAYS: Final = ("replay", "replay-in-order")
HOSTED: Final = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "compatible": ("FABRICA_MODEL_API_KEY", "OPENAI_API_KEY"),
}
"""Providers over HTTP, and the environment variables that may hold their key, the first one that is set being used."""

FORMS: Final = "lowering, replay:PATH, exchange:DIR, or anthropic:, openai:, google: or compatible:MODEL[@URL]"


def public_name(word: str) -> str | None:
    """What records call the model; None for none.

    Raises:
        FabricaError: The word isn't understood.
    """
    kind, _, rest = word.partition(":")
    if word == NO_MODEL:
        return None
    if kind == "exchange" and rest:
        return "exchange"
    if kind in REPLAYS and rest:
        try:
            return _replay(kind, rest).name
        except ModelError as error:
            raise FabricaError(str(error), place="--model") from error
    model, _, url = rest.partition("@")
    if kind in HOSTED and model and (url or kind != "compatible"):
        return f"{kind}:{model}"
    raise FabricaError(
        f"the model {word!r} is not understood", place="--model", remedy=f"use {FORMS}", code=ExitCode.USAGE
    )


def open_model(
    word: str, environment: Mapping[str, str], *, requests_per_minute: float | None = None
) -> ModelProvider | None:
    """The provider that a word names; None for no model.

    Args:
        word: See `FORMS`.
        environment: Where the key is looked for.
        requests_per_minute: Rate limit of this process.

    Raises:
        FabricaError: The word isn't understood, there is no key, or the extra `llm` isn't installed.
    """
    if public_name(word) is None:
        return None
    kind, _, rest = word.partition(":")
    try:
        if kind in REPLAYS:
            return _replay(kind, rest)
        if kind == "exchange":
            from fabrica_bench.models.exchange import Exchange

            return Exchange(Path(rest))
    except ModelError as error:
        raise FabricaError(str(error), place="--model", code=ExitCode.ENVIRONMENT) from error
    from fabrica_bench.models.hosted import Hosted

    model, _, url = rest.partition("@")
    names = HOSTED[kind]
    key = next((environment[name] for name in names if environment.get(name)), None)
    if key is None and kind != "compatible":
        raise FabricaError(
            f"there is no key for {kind}",
            place="--model",
            remedy=f"set {' or '.join(names)}; it is never recorded nor handed to an agent",
            code=ExitCode.ENVIRONMENT,
        )
    return Hosted(kind, model, key=key, base_url=url or None, requests_per_minute=requests_per_minute)


def _replay(kind: str, path: str) -> ModelProvider:
    from fabrica_bench.models.replay import Replay

    return Replay(Path(path), in_order=kind != REPLAYS[0])
