"""What the harness needs of a model: one call with a structured answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from fabrica_bench.plugins import ModelError, ModelReply, ModelRequest

Notice = Callable[[str], None]
"""Takes one line for the user: why a call waits, and until when."""


def no_notice(text: str) -> None:
    """Say nothing."""


class ProviderError(ModelError):
    """The provider failed whatever it was asked: it can't be reached, refuses everybody, or has lost its recording.

    Any other `ModelError` may be due to the request, which an agent writes: one that no model can answer, or one sent
    when the time for it is over.
    """


class ModelProvider(Protocol):
    """A source of answers."""

    @property
    def name(self) -> str:
        """What records say about who answered, e.g. `anthropic:claude-x`, `exchange`."""
        ...

    def complete(self, request: ModelRequest, deadline: float, notice: Notice = no_notice) -> ModelReply:
        """Answer one request.

        Args:
            request: What is asked.
            deadline: When an answer is of no use any more (`time.monotonic`).
            notice: Told about waits and retries.

        Raises:
            ProviderError: There is no answer, and that has nothing to do with the request.
            ModelError: There is no usable answer.
        """
        ...


def check_answer(answer: Any, schema: dict[str, Any]) -> str | None:
    """What is wrong with an answer, None when it fits.

    Covers what our schemas use: types, required members, properties, items, enumerations.
    """
    return _check(answer, schema, "the answer")


_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def _check(value: Any, schema: dict[str, Any], place: str) -> str | None:
    kind = schema.get("type")
    if isinstance(kind, str):
        is_bool = isinstance(value, bool)
        if not isinstance(value, _TYPES[kind]) or (is_bool and kind in ("integer", "number")):
            return f"{place} must be of type {kind}, not {type(value).__name__}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{place} is {value!r}; allowed are {', '.join(map(str, schema['enum']))}"
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                return f"{place} lacks the member {name!r}"
        for name, part in schema.get("properties", {}).items():
            if name in value and (problem := _check(value[name], part, f"{place}.{name}")):
                return problem
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            if problem := _check(item, schema["items"], f"{place}[{index}]"):
                return problem
    return None


def parse_answer(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON object in a model's text, which may stand in a fence or among words.

    Raises:
        ModelError: There is none, or it doesn't fit the schema.
    """
    decoder = json.JSONDecoder()
    problem = "there is no JSON object in it"
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            wrong = check_answer(value, schema)
            if wrong is None:
                return value
            problem = wrong
        start = text.find("{", start + 1) if value is None else -1
    raise ModelError(f"the model's answer can't be used: {problem}")


__all__ = ["ModelError", "ModelProvider", "Notice", "check_answer", "no_notice", "parse_answer"]
