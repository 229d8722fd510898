"""Answers from a recording, exactly as they were given.

A recording is the records of a run: every model call is an `agent_event` named `model_call` there, so that every run
can be replayed. A file with nothing but such lines will do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from fabrica_bench.json_text import parse_json
from fabrica_bench.models.provider import Notice, ProviderError, no_notice
from fabrica_bench.plugins import ModelError, ModelReply, ModelRequest

MODEL_CALL: Final = "model_call"
"""Event of a model call: `model`, `key`, `request`, `reply`, `seconds`."""

RECORDS_NAME: Final = "records.jsonl"


class _Entry:
    """A recorded answer; each is given once."""

    def __init__(self, key: str, stage: str, reply: ModelReply) -> None:
        self.key = key
        self.stage = stage
        self.reply = reply
        self.used = False


class Replay:
    """Plays back a recording; the same request asked again gets the next of its recorded answers.

    Args:
        path: A run folder or a JSON Lines file.
        in_order: Give a request that isn't in the recording the next answer of its stage. For recordings that outlive
            the prompts they were made with; the answers are then judged afresh, as any others.

    Raises:
        ModelError: It can't be read.
    """

    def __init__(self, path: Path, *, in_order: bool = False) -> None:
        self._path = path / RECORDS_NAME if path.is_dir() else path
        self._in_order = in_order
        self._entries: list[_Entry] = []
        self._models: dict[str, None] = {}
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(
                f"{self._path}: the recording can't be read ({error}); name another with replay:PATH"
            ) from error
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._read(line, number)
        if not self._models:
            raise ModelError(f"{self._path}: there is no model call in it; was the run made with a model?")

    def _read(self, line: str, number: int) -> None:
        try:
            record = parse_json(line)
            if record["record"] != "agent_event" or record["event"] != MODEL_CALL:
                return
            data = record["data"]
            if data["reply"] is None:
                return
            reply = ModelReply.model_validate(data["reply"])
            self._entries.append(_Entry(str(data["key"]), str(data["stage"]), reply))
            self._models[str(data["model"])] = None
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            raise ModelError(f"{self._path}:{number}: not a record of a run; record the run again") from error

    @property
    def name(self) -> str:
        """The recorded model, and that it was replayed."""
        return f"{'+'.join(self._models)} (replayed{' in order' if self._in_order else ''})"

    def complete(self, request: ModelRequest, deadline: float, notice: Notice = no_notice) -> ModelReply:
        """The next recorded answer to this very request."""
        key = request.key()
        waiting = [entry for entry in self._entries if not entry.used]
        found = next((entry for entry in waiting if entry.key == key), None)
        if found is None and self._in_order:
            found = next((entry for entry in waiting if entry.stage == request.stage), None)
        if found is None:
            raise ProviderError(
                f"{self._path} holds no (further) answer to this request of stage {request.stage}: "
                "task, options or versions differ from those of the recording"
            )
        found.used = True
        return found.reply
