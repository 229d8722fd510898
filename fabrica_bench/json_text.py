"""Reading JSON that others wrote."""

from __future__ import annotations

import json
from typing import Any


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
