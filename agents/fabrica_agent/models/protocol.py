"""What a model-driven stage needs of a model: one call with a structured answer."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict


class ModelRequest(BaseModel):
    """A chat completion with a structured answer.

    Attributes:
        stage: Name of the stage that asks.
        system: System prompt.
        user: User prompt.
        answer_schema: JSON Schema that the answer must satisfy.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: str
    system: str
    user: str
    answer_schema: dict[str, Any]

    def key(self) -> str:
        """Digest that identifies the request in recordings."""
        text = json.dumps(self.model_dump(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


class ModelReply(BaseModel):
    """A model's answer: the structured value, and the tokens it took."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: dict[str, Any]
    tokens: int = 0


class ModelError(Exception):
    """The model gave no usable answer; the message says why and what to do."""


class ModelProvider(Protocol):
    """A source of answers."""

    @property
    def name(self) -> str:
        """What records say about who answered, e.g. `exchange` or `replay`."""
        ...

    def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request; raises `ModelError`."""
        ...
