"""A local HTTP server that speaks the wire formats of OpenAI's chat completions and Anthropic's messages, streaming.

Each request takes the next of the scripted behaviours; the last one is kept. What it received is there to be looked at.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GOOD = {"code": "fn f() void {}"}


class ModelServer(ThreadingHTTPServer):
    """Behaviours: `good`, `text`, `fenced`, `slow`, `truncated`, `malformed`, `cut`, `wrong`, or the status of a
    refusal: `400`, `401`, `429`, `500`.
    """

    daemon_threads = True

    def __init__(self, behaviours: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviours = behaviours
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def next(self) -> str:
        return self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]


@contextmanager
def model_server(*behaviours: str) -> Iterator[ModelServer]:
    """A running server."""
    server = ModelServer(list(behaviours))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.server.headers.append({k.lower(): v for k, v in self.headers.items()})
        self.server.times.append(time.monotonic())
        behaviour = self.server.next()
        if behaviour in ("400", "401", "429", "500"):
            self._refuse(int(behaviour))
            return
        if behaviour == "slow":
            time.sleep(2)
        anthropic = self.path.endswith("/messages")
        events = list(self._anthropic(behaviour) if anthropic else self._openai(behaviour))
        if behaviour == "truncated":
            events = events[: len(events) // 2]
        data = "".join(events).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        if behaviour == "truncated":
            # More was promised than is sent: the connection breaks in the middle of the answer.
            self.send_header("Content-Length", str(len(data) + 5000))
        self.end_headers()
        self.wfile.write(b"data: {this is not json\n\n" if behaviour == "malformed" else data)
        self.close_connection = True

    def _refuse(self, status: int) -> None:
        key = self.headers.get("x-api-key") or self.headers.get("Authorization") or ""
        error = {"type": "error", "error": {"type": "refused", "message": f"status {status} for {key}"}}
        data = json.dumps(error).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status == 429:
            self.send_header("Retry-After", "7")
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, behaviour: str) -> tuple[str | None, str | None]:
        """(arguments of the answer tool, text)."""
        if behaviour == "text":
            return None, json.dumps(GOOD)
        if behaviour == "fenced":
            return None, f"Here it is:\n```json\n{json.dumps(GOOD, indent=1)}\n```\nDone."
        if behaviour == "wrong":
            return json.dumps({"other": 1}), None
        return json.dumps(GOOD), None

    def _openai(self, behaviour: str) -> Iterator[str]:
        def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
            return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"

        arguments, text = self._answer(behaviour)
        yield chunk({"role": "assistant", "content": ""})
        if arguments is not None:
            call = {"index": 0, "id": "t1", "type": "function", "function": {"name": "answer", "arguments": ""}}
            yield chunk({"tool_calls": [call]})
            for start in range(0, len(arguments), 9):
                part = {"index": 0, "function": {"arguments": arguments[start : start + 9]}}
                yield chunk({"tool_calls": [part]})
        else:
            for start in range(0, len(text or ""), 9):
                yield chunk({"content": (text or "")[start : start + 9]})
        yield chunk({}, "length" if behaviour == "cut" else "tool_calls" if arguments else "stop")
        usage = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": []}
        yield f"data: {json.dumps({**head, 'usage': usage})}\n\n"
        yield "data: [DONE]\n\n"

    def _anthropic(self, behaviour: str) -> Iterator[str]:
        def event(kind: str, **data: Any) -> str:
            return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"

        arguments, text = self._answer(behaviour)
        message = {
            "id": "m1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 120, "output_tokens": 1},
        }  # fmt: skip
        yield event("message_start", message=message)
        if arguments is not None:
            block: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "answer", "input": {}}
            yield event("content_block_start", index=0, content_block=block)
            for start in range(0, len(arguments), 9):
                delta = {"type": "input_json_delta", "partial_json": arguments[start : start + 9]}
                yield event("content_block_delta", index=0, delta=delta)
        else:
            yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
            yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        yield event("content_block_stop", index=0)
        stop = "max_tokens" if behaviour == "cut" else "tool_use" if arguments else "end_turn"
        yield event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 30})
        yield event("message_stop")
