"""JSON lines to and from a child process, with deadlines in both directions."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import selectors
import time
from collections.abc import Mapping
from typing import Any, Final

from fabrica_bench.toolchains.processes import ChildProcess

MAX_MESSAGE_BYTES: Final = 16 << 20
STDERR_LIMIT: Final = 16 << 10
_CHUNK: Final = 1 << 16
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
MAX_DRAINS: Final = 64
"""Chunks of standard error that are read at the end; a child that goes on writing can't keep the parent."""


class LinkFailure(Exception):
    """The child ended, broke the protocol or exceeded a deadline; the message says which."""


class Link:
    """A child that was started with `interactive=True`; leaving the `with` block kills it.

    The last part of its standard error is kept for messages.
    """

    def __init__(self, child: ChildProcess) -> None:
        self.child = child
        self._buffer = bytearray()
        self._stderr = bytearray()
        self._selector = selectors.DefaultSelector()
        for stream, kind in ((child.popen.stdout, "out"), (child.popen.stderr, "err")):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, kind)
        assert child.popen.stdin is not None
        os.set_blocking(child.popen.stdin.fileno(), False)

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the child and everything it started, and verify that it is gone."""
        self._selector.close()
        self.child.__exit__(None, None, None)

    def descriptors(self) -> list[int]:
        """What to wait on for new messages; empty when both streams have ended."""
        return [key.fd for key in self._selector.get_map().values()]

    def send(self, message: Mapping[str, Any], deadline: float) -> None:
        """Write one message; a child that doesn't read can't block the parent beyond the deadline (monotonic)."""
        stream = self.child.popen.stdin
        assert stream is not None
        data = memoryview(json.dumps(message).encode("utf-8") + b"\n")
        while data:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise LinkFailure("did not read its input before the deadline")
            _, writable, _ = select.select([], [stream], [], min(remaining, 1.0))
            if writable:
                with contextlib.suppress(BlockingIOError):
                    try:
                        data = data[os.write(stream.fileno(), data) :]
                    except BrokenPipeError as error:
                        raise LinkFailure(self.ending()) from error

    def receive(self, deadline: float) -> dict[str, Any] | None:
        """The next message; None when the deadline (monotonic) passed first.

        Raises:
            LinkFailure: The process ended, or what it wrote is no message.
        """
        while True:
            message = self.poll()
            if message is not None:
                return message
            if self.ended:
                raise LinkFailure(self.ending())
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return None
            self._pump(min(remaining, 1.0))

    def poll(self) -> dict[str, Any] | None:
        """The next message that has arrived, None when there is none yet.

        Raises:
            LinkFailure: What arrived is no message.
        """
        self._pump(0.0)
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > MAX_MESSAGE_BYTES:
                raise LinkFailure(f"wrote a message longer than {MAX_MESSAGE_BYTES >> 20} MiB")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return parse_message(line)

    @property
    def ended(self) -> bool:
        """No further message can come: its output has ended (or it has, and descendants hold its output open)."""
        if any(key.data == "out" for key in self._selector.get_map().values()) and self.child.running:
            return False
        self._pump(0.0)
        return b"\n" not in self._buffer

    def ending(self) -> str:
        """How the child ended, with the last line of its standard error; kills it when it hasn't."""
        self.child.kill()
        self._pump(0.0)
        code = self.child.popen.returncode
        ending = f"signal {-code}" if code < 0 else f"exit status {code}"
        lines = [line for line in self._stderr.decode("utf-8", errors="replace").splitlines() if line.strip()]
        return f"its process ended with {ending}" + (f": {lines[-1].strip()}" if lines else "")

    def printed(self) -> str:
        """The last part of what the child has written to standard error."""
        for _ in range(MAX_DRAINS):
            before = len(self._stderr), bytes(self._stderr[-64:])
            self._pump(0.0)
            if before == (len(self._stderr), bytes(self._stderr[-64:])):
                break
        return self._stderr.decode("utf-8", errors="replace")

    def _pump(self, timeout: float) -> None:
        """Read what is there; one chunk per stream, so that a flood can't keep the parent here."""
        if not self._selector.get_map():
            time.sleep(min(timeout, 0.05))
            return
        for key, _ in self._selector.select(timeout):
            try:
                data = os.read(key.fd, _CHUNK)
            except BlockingIOError:
                continue
            if not data:
                self._selector.unregister(key.fileobj)
            elif key.data == "out":
                self._buffer += data
            else:
                self._stderr += data
                del self._stderr[:-STDERR_LIMIT]


def parse_message(line: bytes) -> dict[str, Any]:
    """One line as a message. Halves of surrogate pairs, which no file or record can hold, become U+FFFD.

    Raises:
        LinkFailure: It isn't a JSON object with a type.
    """
    try:
        message = json.loads(line)
        if _SURROGATE.search(line):
            text = json.dumps(message, ensure_ascii=False)
            message = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError) as error:
        raise LinkFailure(f"wrote something that isn't a message: {line[:80]!r}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise LinkFailure(f"wrote something that isn't a message: {line[:80]!r}")
    return message
