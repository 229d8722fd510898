"""The process in which an agent lives: `python -m fabrica_bench.runs.agent_host`.

One JSON object per line. It reads from standard input:
    {"type": "describe", "agent": NAME}
    {"type": "translate", "agent": NAME, "view": {...}, "budget": {...}, "model": NAME or null}
    {"type": "reply", "id": N, "result": {...}}
and writes to the original standard output:
    {"type": "agent", "name": ..., "model": ..., "control": ...}
    {"type": "call", "id": N, "method": "compile" | "run_visible" | "profile", "files": {...}}
    {"type": "call", "id": N, "method": "complete", "request": {...}} | {"type": "call", "id": N, "method": "examples"}
    {"type": "log", "event": ..., "data": {...}}
    {"type": "candidate", "candidate": {...}} | {"type": "gave_up", "reasons": [...], "provider": bool}
    {"type": "failed", "error": ..., "expected": bool}

What the agent itself prints goes to standard error. Nothing here can compile, run or score: the parent does.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from typing import Any, TextIO

from fabrica_bench.errors import FabricaError
from fabrica_bench.plugins import (
    Agent,
    AgentGaveUp,
    Budget,
    Candidate,
    CompileOutcome,
    ModelError,
    ModelReply,
    ModelRequest,
    ProviderFailed,
    TaskView,
    VisibleRun,
    WorkedExample,
    find_agent,
)


class Channel:
    """JSON lines over two text streams."""

    def __init__(self, reader: TextIO, writer: TextIO) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one message, after whatever was printed before it."""
        sys.stdout.flush()
        # default=str: an agent may log anything; what JSON doesn't know is shown as text.
        self._writer.write(json.dumps(message, default=str) + "\n")
        self._writer.flush()

    def receive(self) -> dict[str, Any]:
        """Read one message; raises `EOFError` when the parent is gone."""
        line = self._reader.readline()
        if not line:
            raise EOFError("the parent closed the channel")
        message: dict[str, Any] = json.loads(line)
        return message


class RemoteTools:
    """`AgentTools` whose work is done by the parent process."""

    def __init__(self, channel: Channel, model: str | None) -> None:
        self._channel = channel
        self._calls = 0
        self._model = model

    @property
    def model(self) -> str | None:
        """See `AgentTools.model`."""
        return self._model

    def complete(self, request: ModelRequest) -> ModelReply:
        """See `AgentTools.complete`."""
        result = self._call("complete", request=request.model_dump(mode="json"))
        if "error" in result:
            raise ModelError(str(result["error"]))
        return ModelReply.model_validate(result)

    def examples(self) -> list[WorkedExample]:
        """See `AgentTools.examples`."""
        return [WorkedExample.model_validate(item) for item in self._call("examples")["examples"]]

    def compile(self, files: Mapping[str, str]) -> CompileOutcome:
        """See `AgentTools.compile`."""
        return CompileOutcome.model_validate(self._call("compile", files=dict(files)))

    def run_visible(self, files: Mapping[str, str]) -> VisibleRun:
        """See `AgentTools.run_visible`."""
        return VisibleRun.model_validate(self._call("run_visible", files=dict(files)))

    def profile(self, files: Mapping[str, str]) -> str:
        """See `AgentTools.profile`."""
        return str(self._call("profile", files=dict(files))["text"])

    def log(self, event: str, **data: Any) -> None:
        """See `AgentTools.log`."""
        self._channel.send({"type": "log", "event": event, "data": data})

    def _call(self, method: str, **arguments: Any) -> Any:
        self._calls += 1
        self._channel.send({"type": "call", "id": self._calls, "method": method, **arguments})
        reply = self._channel.receive()
        if reply.get("type") != "reply" or reply.get("id") != self._calls:
            raise RuntimeError(f"unexpected message from the parent: {reply.get('type')!r}")
        return reply["result"]


def serve(channel: Channel) -> None:
    """Answer one request."""
    request = channel.receive()
    agent = find_agent(request["agent"])
    if request["type"] == "describe":
        channel.send({"type": "agent", "name": agent.name, "model": agent.model, "control": agent.control})
    else:
        _translate(channel, agent, request)


def _translate(channel: Channel, agent: Agent, request: Mapping[str, Any]) -> None:
    view = TaskView.model_validate(request["view"])
    budget = Budget.model_validate(request["budget"])
    try:
        candidate = agent.translate(view, RemoteTools(channel, request.get("model")), budget)
    except AgentGaveUp as surrender:
        provider = isinstance(surrender, ProviderFailed)
        channel.send({"type": "gave_up", "reasons": surrender.reasons, "provider": provider})
        return
    except ModelError as error:
        channel.send({"type": "gave_up", "reasons": [str(error)]})
        return
    if not isinstance(candidate, Candidate):
        raise TypeError(f"translate() returned {type(candidate).__name__}, not Candidate")
    channel.send({"type": "candidate", "candidate": candidate.model_dump()})


def main() -> int:
    """Serve one request over the process's standard streams."""
    # The protocol gets its own descriptor, so that a print in the agent can't break into it.
    writer = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    channel = Channel(sys.stdin, writer)
    try:
        serve(channel)
    except FabricaError as error:
        channel.send({"type": "failed", "error": str(error), "expected": True})
        return int(error.code)
    except Exception as error:
        # The boundary of foreign code: whatever it raises is reported with its traceback, and the process ends.
        traceback.print_exc()
        channel.send({"type": "failed", "error": f"{type(error).__name__}: {error}", "expected": False})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
