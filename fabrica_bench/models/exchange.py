"""A person or any other program as the model: requests and answers are files in a folder."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from fabrica_bench.models.provider import Notice, ProviderError, check_answer, no_notice
from fabrica_bench.plugins import ModelError, ModelReply, ModelRequest

POLL_S: Final = 0.2
PATIENCE_S: Final = 300.0
"""Who waited so long in vain was let down by who was to answer."""


class Exchange:
    """Writes `NNNN.request.json` and waits for `NNNN.answer.json`, an object {"answer": {...}}.

    Args:
        folder: Where the files are; made if missing. Several jobs may share it.

    Raises:
        ModelError: The folder can't be made.
    """

    name = "exchange"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelError(f"{folder}: can't be made ({error.strerror}); name another with exchange:DIR") from error

    def complete(self, request: ModelRequest, deadline: float, notice: Notice = no_notice) -> ModelReply:
        """Ask, and wait for the answer file."""
        question = self._write(request)
        answer = question.with_name(question.name.replace(".request.", ".answer."))
        notice(f"waiting for {answer}")
        begin = time.monotonic()
        while not answer.exists():
            if time.monotonic() > deadline:
                late = time.monotonic() - begin < PATIENCE_S  # asked so late that nobody could have answered
                kind = ModelError if late else ProviderError
                raise kind(f"no answer in time; {answer} was to be written beside {question.name}")
            time.sleep(POLL_S)
        try:
            reply = ModelReply.model_validate_json(answer.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise ModelError(f"{answer}: not an answer; it must be an object with a member `answer`") from error
        wrong = check_answer(reply.answer, request.answer_schema)
        if wrong is not None:
            raise ModelError(f"{answer}: {wrong}")
        return reply

    def _write(self, request: ModelRequest) -> Path:
        draft = self._folder / f"{os.getpid()}.tmp"
        draft.write_text(json.dumps(request.model_dump(), indent=1) + "\n", encoding="utf-8")
        number = 1 + len(list(self._folder.glob("*.request.json")))
        while True:
            question = self._folder / f"{number:04d}.request.json"
            try:
                # Linked into place, so that nobody reads half a request and two jobs never take one number.
                os.link(draft, question)
            except FileExistsError:
                number += 1
                continue
            draft.unlink()
            return question
