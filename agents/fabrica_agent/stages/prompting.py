"""Prompts from reviewed template files, and asking until the answer is the record that is wanted."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from fabrica_bench.plugins import AgentTools, ModelError, ModelReply, ModelRequest

PROMPTS: Final = Path(__file__).parent / "prompts"
ASKS: Final = 3
"""How often a stage asks until the answer fits its record."""

MAX_OUTPUT_CHARS: Final = 6000
"""Of a toolchain's output, head and tail together."""

_TEMPORARY: Final = re.compile(r"(?:/[\w.+-]+)*/(?:tmp|var/folders)[\w./+-]*/(?=[\w.+-])")
_SECONDS: Final = re.compile(r"\b\d+\.\d+ ?s\b")

RecordT = TypeVar("RecordT", bound=BaseModel)


def render(template: str, **values: str) -> str:
    """A prompt: the named template file with its `$names` replaced.

    Raises:
        KeyError: A name of the template has no value: a bug of the stage.
    """
    return Template(template_text(template)).substitute(values)


@cache
def template_text(name: str) -> str:
    """Text of a template file."""
    return (PROMPTS / name).read_text(encoding="utf-8")


def ask(
    tools: AgentTools,
    stage: str,
    system: str,
    user: str,
    record: type[RecordT],
    schema: dict[str, Any] | None = None,
    sample: int = 0,
) -> RecordT:
    """Ask the model for a record; an answer that isn't one is asked again with what was wrong.

    Raises:
        ModelError: There is no usable answer.
    """
    wrong = ""
    for _ in range(ASKS):
        request = ModelRequest(
            stage=stage,
            system=system,
            user=user if not wrong else f"{user}\n\n{render('again.txt', problem=wrong)}",
            answer_schema=schema or record.model_json_schema(),
            sample=sample,
        )
        reply: ModelReply = tools.complete(request)
        try:
            return record.model_validate(reply.answer)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in error.errors()[:5])
    raise ModelError(f"the model gave no usable answer to stage {stage} in {ASKS} asks: {wrong}")


def clean_output(text: str) -> str:
    """Tool output without what differs from run to run (temporary paths, seconds), cut in its middle.

    A prompt must be the same when a run is repeated: recordings are looked up by it.
    """
    text = _SECONDS.sub("… s", _TEMPORARY.sub("", text)).strip()
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    head = MAX_OUTPUT_CHARS * 2 // 3
    left_out = f"[... {len(text) - MAX_OUTPUT_CHARS} characters left out ...]"
    return f"{text[:head]}\n{left_out}\n{text[head - MAX_OUTPUT_CHARS :]}"


def files_block(files: dict[str, str]) -> str:
    """Files with a heading each."""
    return "\n\n".join(f"=== {name} ===\n{text.rstrip()}" for name, text in sorted(files.items()))
