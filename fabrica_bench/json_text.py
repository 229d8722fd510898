"""Reading JSON that others wrote, and writing some that any file can hold."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_HALVES: Final = re.compile("[\ud800-\udfff]")
"""Halves of characters: in Python's texts they stand for the bytes of a file name that isn't UTF-8."""


def parse_json(text: str | bytes) -> Any:
    """The value, as `json.loads` gives it.

    Raises:
        ValueError: It is no JSON, no UTF-8, or nested too deeply for this Python, which `json.loads` reports in another
            way.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_text(value: Any, **options: Any) -> str:
    """The value as JSON, characters beyond ASCII as they are, that can be written as UTF-8 whatever the value holds.

    Halves of characters are escaped: `parse_json` gives them back.

    Args:
        value: As for `json.dumps`.
        options: As for `json.dumps`.
    """
    text = json.dumps(value, ensure_ascii=False, **options)
    return _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
