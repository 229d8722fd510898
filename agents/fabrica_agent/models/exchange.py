"""A person or any other program as the model: requests and answers are files in a folder."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from pydantic import ValidationError

from fabrica_agent.models.protocol import ModelError, ModelReply, ModelRequest

POLL_S = 0.2


class Exchange:
    """Writes `NNNN.request.json` and waits for `NNNN.answer.json`, an object {"answer": {...}, "tokens": 0}.

    Args:
        folder: Where the files are; made if missing.
        timeout_s: How long to wait for an answer.
    """

    name = "exchange"

    def __init__(self, folder: Path, timeout_s: float = 3600.0) -> None:
        self._folder = folder
        self._timeout_s = timeout_s
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelError(f"{folder}: can't be made ({error.strerror}); name another with exchange:DIR") from error

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask, and wait for the answer file."""
        number = 1 + len(list(self._folder.glob("*.request.json")))
        question, answer = (self._folder / f"{number:04d}.{kind}.json" for kind in ("request", "answer"))
        # Renamed into place, so that nobody reads half a request.
        draft = question.with_suffix(".tmp")
        draft.write_text(json.dumps(request.model_dump(), indent=1), encoding="utf-8")
        os.replace(draft, question)
        deadline = time.monotonic() + self._timeout_s
        while not answer.exists():
            if time.monotonic() > deadline:
                raise ModelError(f"no {answer.name} within {self._timeout_s:.0f} s; write it beside {question}")
            time.sleep(POLL_S)
        try:
            return ModelReply.model_validate_json(answer.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise ModelError(f"{answer}: not an answer; it must be an object with a member `answer`") from error
