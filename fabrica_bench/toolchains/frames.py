"""JSON objects over a socket, each after its length in eight bytes."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any, Final

_LENGTH: Final = 8
_CHUNK: Final = 1 << 20


def write_frame(channel: socket.socket, message: Mapping[str, Any]) -> None:
    """Send an object; raises OSError when the other end is gone."""
    data = json.dumps(message).encode()
    channel.sendall(len(data).to_bytes(_LENGTH, "big") + data)


def read_frame(channel: socket.socket) -> dict[str, Any]:
    """Receive an object.

    Raises:
        EOFError: The other end closed before the object was whole.
        OSError: Also `TimeoutError`, as the socket is set.
    """
    found: dict[str, Any] = json.loads(_receive(channel, int.from_bytes(_receive(channel, _LENGTH), "big")))
    return found


def _receive(channel: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = channel.recv(min(count - len(data), _CHUNK))
        if not part:
            raise EOFError("the other end closed")
        data += part
    return bytes(data)
