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
        """Ask, and wait for the answer file. One that isn't whole, or doesn't fit, may be mended until the deadline."""
        question = self._write(request)
        answer = question.with_name(question.name.replace(".request.", ".answer."))
        notice(f"waiting for {answer}")
        begin, told = time.monotonic(), ""
        while True:
            reply, problem = _read(answer, request)
            if reply is not None:
                return reply
            if problem and problem != told:
                notice(f"{problem}; waiting for it to be mended")
                told = problem
            if time.monotonic() > deadline:
                if problem:
                    raise ModelError(problem)
                late = time.monotonic() - begin < PATIENCE_S  # asked so late that nobody could have answered
                kind = ModelError if late else ProviderError
                raise kind(f"no answer in time; {answer} was to be written beside {question.name}")
            time.sleep(POLL_S)

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


def _read(answer: Path, request: ModelRequest) -> tuple[ModelReply | None, str]:
    """The answer, or what is wrong with the file; neither while there is none."""
    try:
        reply = ModelReply.model_validate_json(answer.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, ""
    except (OSError, UnicodeDecodeError, ValidationError):
        return None, f"{answer}: not an answer; it must be an object with a member `answer`"
    wrong = check_answer(reply.answer, request.answer_schema)
    return (reply, "") if wrong is None else (None, f"{answer}: {wrong}")
