"""The sizes that the visible build commands name."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PARAMS = re.compile(r"params=((?:[A-Za-z_]\w*:\d+,?)+)")
_LABEL = re.compile(r"^\s*([A-Za-z_][\w-]*)\)")


def sizes(files: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Size parameters by size name, from the `case` branches of the command scripts.

    Shell is read line by line: a branch `name) ... params=a:1,b:2` gives a size. Scripts in another form give none.
    """
    found: dict[str, dict[str, int]] = {}
    for name, text in sorted(files.items()):
        if not name.endswith(".sh"):
            continue
        for line in text.splitlines():
            match = _PARAMS.search(line)
            if match is None:
                continue
            label = _LABEL.match(line)
            pairs = (item.split(":") for item in match.group(1).split(",") if item)
            found.setdefault(label.group(1) if label else "default", {k: int(v) for k, v in pairs})
    return found
