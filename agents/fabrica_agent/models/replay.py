"""Answers from a recording, exactly as they were given."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import ValidationError

from fabrica_agent.models.protocol import ModelError, ModelProvider, ModelReply, ModelRequest


class Replay:
    """Plays back a JSON Lines file of {"key", "reply"} objects.

    Args:
        path: The recording.

    Raises:
        ModelError: It can't be read.
    """

    name = "replay"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._replies: dict[str, list[ModelReply]] = {}
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"{path}: the recording can't be read ({error}); name another with replay:FILE") from error
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                reply = ModelReply.model_validate(entry["reply"])
                self._replies.setdefault(str(entry["key"]), []).append(reply)
            except (ValueError, KeyError, TypeError, ValidationError) as error:
                raise ModelError(f"{path}:{number}: not a recorded reply; record the run again") from error

    def complete(self, request: ModelRequest) -> ModelReply:
        """The next recorded reply to this very request."""
        waiting = self._replies.get(request.key())
        if not waiting:
            raise ModelError(f"{self._path} holds no (further) reply to this request of stage {request.stage}")
        return waiting.pop(0)


class Recorder:
    """Passes requests on to another provider and appends its replies to a file that `Replay` can play back."""

    def __init__(self, inner: ModelProvider, path: Path) -> None:
        self._inner = inner
        self._path = path

    @property
    def name(self) -> str:
        """The recorded provider's name: a recording doesn't change who answered."""
        return self._inner.name

    def complete(self, request: ModelRequest) -> ModelReply:
        """Answer and record."""
        reply = self._inner.complete(request)
        entry = json.dumps({"key": request.key(), "stage": request.stage, "reply": reply.model_dump()})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(entry + "\n")
            file.flush()
            os.fsync(file.fileno())
        return reply
