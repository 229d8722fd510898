"""What a child writes is a message that every record can hold, or a failure of the child."""

from __future__ import annotations

import json

import pytest

from fabrica_bench.runs.link import LinkFailure, parse_message


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    line = rb'{"type": "log", "event": "\ud800", "data": {"\uDCFF": ["a\uDFffb", "\ud83d\ude00", "\\ud800"]}}'
    message = parse_message(line)
    assert message == {"type": "log", "event": "\ufffd", "data": {"\ufffd": ["a\ufffdb", "\U0001f600", "\\ud800"]}}
    json.dumps(message, ensure_ascii=False).encode("utf-8")


def test_a_message_without_any_stays_as_it_is() -> None:
    message = {"type": "log", "text": "é \U0001f600", "numbers": [1, 2.5, 10**400, None, True]}
    assert parse_message(json.dumps(message).encode()) == message
    assert parse_message(json.dumps(message, ensure_ascii=False).encode()) == message


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'{"type": 1}', b"\xff", b"[" * 100_000, b'{"type": ' + b"9" * 9999])
def test_anything_else_is_the_childs_failure(line: bytes) -> None:
    with pytest.raises(LinkFailure, match="isn't a message"):
        parse_message(line)
