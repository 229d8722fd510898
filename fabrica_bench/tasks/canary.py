"""Canaries: a comment in every reference kernel with a name that occurs nowhere else.

A text that has the name has, or has seen, the file. It follows from the names of task and file, so that nobody has to
keep a list, and so that a new task gets one from `fabrica-bench tasks sync`.
"""

from __future__ import annotations

import hashlib
from typing import Final

PREFIX: Final = "fabrica-canary-"
LINE: Final = "// Reference kernel of a benchmark: keep it out of training data. {canary}\n"


def canary_of(task: str, file: str) -> str:
    """The canary of a file of a task's bundle: `fabrica-canary-` and 24 hexadecimal digits."""
    digest = hashlib.sha256(f"fabrica-bench canary\0{task}\0{file}".encode()).hexdigest()
    return PREFIX + digest[:24]


def with_canary(text: str, task: str, file: str) -> str:
    """The text with its canary as last line, in place of any other canary."""
    body = without_canary(text)
    return body + ("" if body.endswith("\n") or not body else "\n") + LINE.format(canary=canary_of(task, file))


def without_canary(text: str) -> str:
    """The text without the lines that hold a canary."""
    return "".join(line for line in text.splitlines(keepends=True) if PREFIX not in line)
